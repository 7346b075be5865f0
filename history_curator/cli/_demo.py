"""``history-curator demo``: a session curated in front of you, on one screen."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from history_curator.cli._show import NARROW, budget_bar, console, decision_table, numbers
from history_curator.curator import Curator
from history_curator.lab import NoCuration, SessionPage, replay, sample_conversation
from history_curator.lab._policies import NewestThatFit
from history_curator.lab._table import short_number
from history_curator.report_page import many

if TYPE_CHECKING:
    from history_curator.lab import ReplayResults
    from history_curator.report import CurationReport

_NEWEST = "the newest that fit"
_STEPS = "▁▂▃▄▅▆▇█"


def run_demo(max_tokens: int, output: Path | None = None, *, full: bool = False) -> Path:
    """Curate the demo conversation call by call, show what it cost, and return the page's path."""
    screen = console()
    messages = sample_conversation()
    curator = Curator(max_tokens=max_tokens)
    report = curator.curate(messages).report
    policies: dict[str, Any] = {
        "curator": Curator(max_tokens=max_tokens),
        _NEWEST: NewestThatFit(max_tokens),
        "everything": NoCuration(max_tokens),
    }
    results = replay([messages], policies, executor="serial", progress=False)
    page = SessionPage(messages, {name: policies[name] for name in ("curator", _NEWEST)})
    screen.rule("An agent looks for a slow checkout", align="left")
    if full:
        screen.print(decision_table(report, narrow=screen.width < NARROW))
        screen.print()
    screen.print(_last_request(report))
    screen.print(_whole_session(results, len(page.data["calls"]), narrow=screen.width < NARROW))
    screen.print(_call_by_call(page.data["policies"][0], max_tokens))
    if output is None:
        output = Path(tempfile.mkdtemp(prefix="history-curator-")) / "demo.html"
    path = page.to_html(output).resolve()
    more = "" if full else " --full prints every decision."
    screen.print(f"\nEvery call, message and reason on one page (open it in a browser).{more}")
    screen.print(str(path), style="bold", soft_wrap=True)
    return path


def _last_request(report: CurationReport) -> Table:
    """Return what went in, what is sent, and where the rest went."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    on_record = f"{many(report.original_count, 'message')}, {report.tokens_before:,} tokens"
    table.add_row("went in", on_record)
    sent = f"{many(report.curated_count, 'message')}, {report.tokens:,} of {report.max_tokens:,} tokens "
    table.add_row("is sent", Text(sent).append_text(budget_bar(report, width=20)))
    for number, line in enumerate(_left_out(report)):
        table.add_row("" if number else "left out", line)
    return table


def _left_out(report: CurationReport) -> list[str]:
    said = []
    groups: dict[str, list[Any]] = {}
    for decision in report.decisions:
        groups.setdefault(decision.action, []).append(decision)
    for action, where in (
        ("dropped", "left at the cut; the record keeps them"),
        ("truncated", "shortened to head and tail, with a mark"),
        ("cleared", "cleared to a placeholder"),
        ("merged", "joined with a neighbour"),
        ("summarised", "replaced by a summary"),
    ):
        found = groups.get(action)
        if found:
            gone = sum(each.tokens_before - each.tokens_after for each in found)
            said.append(f"{many(len(found), 'message')} {where}: {gone:,} tokens less")
    for note in groups.get("inserted", ()):
        what = "the recap" if note.origin == "recap" else "a note"
        said.append(f"in their place {what}, {note.tokens_after:,} tokens: {note.reason}")
    return said or ["nothing"]


def _whole_session(results: ReplayResults, calls: int, *, narrow: bool) -> Table:
    """Return what the session costs, beside what one would do instead."""
    heads = ("tokens", "cached", "cost", "lost", "faults")[2 * narrow :]
    table = numbers(
        ("", *heads), title=f"\nThe whole session, {many(calls, 'call')}", title_justify="left",
        header_style="bright_black",
    )  # fmt: skip
    for name, each in results.policies.items():
        needed = each.identifiers + each.repeats
        lost = each.lost_identifiers + each.repeated_calls
        cells = (short_number(each.tokens_sent), f"{each.cached_share:.0%}", f"{each.cost:.3f}",
                 f"{lost} of {needed}", f"{each.faults}")  # fmt: skip
        table.add_row(name, *cells[2 * narrow :], style="bold" if name == "curator" else None)
    table.caption = (
        "cached repeats the request before and costs a tenth; cost in millions of tokens at full "
        "price (Anthropic); lost was needed by a later call and out of view; faults are requests "
        f"over the budget or refused. {_NEWEST!r} is trim_messages of LangChain, written again."
    )
    table.caption_justify = "left"
    return table


def _call_by_call(policy: Mapping[str, Any], max_tokens: int) -> Text:
    """Return the size of each request as a line of bars; where the cut compacted, in another colour."""
    views: Sequence[Mapping[str, Any]] = policy["views"]
    line = Text("\ncurator  ", "bold")
    for view in views:
        step = min(len(_STEPS) - 1, int(view["tokens"] / max_tokens * len(_STEPS)))
        line.append(_STEPS[step], "yellow" if view["compacted"] else "blue")
    compactions = [str(number) for number, view in enumerate(views, 1) if view["compacted"]]
    where = f"the cut compactions at call {', '.join(compactions)}" if compactions else "the cut never compactions"
    return line.append(f"  {where}; between compactions nothing sent changes", "bright_black")
