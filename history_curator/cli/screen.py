"""The terminal: consoles, errors in one line, the numbers and decisions of a curation, the demo."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table as RichTable
from rich.text import Text

from history_curator.curator import Curator
from history_curator.errors import HistoryCuratorError
from history_curator.lab import (
    NewestThatFit,
    NoCuration,
    ReplayResults,
    SessionPage,
    replay,
    sample_conversation,
)
from history_curator.lab.tables import Table, count_of, short_number
from history_curator.report import CurationReport

NARROW = 60
"""On a terminal with fewer columns a table leaves some columns out."""
_COLOURS = {
    "kept": "green", "truncated": "yellow", "cleared": "dark_orange", "dropped": "red",
    "merged": "cyan", "moved": "blue", "inserted": "magenta", "summarised": "magenta",
    "repaired": "cyan",
}  # fmt: skip
_LEVELS = "▁▂▃▄▅▆▇█"
_NEWEST = "the newest that fit"
_GONE = {
    "dropped": "left at the cutoff; the record keeps them",
    "truncated": "shortened to head and tail, with a mark",
    "cleared": "cleared to a placeholder",
    "merged": "joined with a neighbour",
    "summarised": "replaced by a summary",
}
Command = TypeVar("Command", bound=Callable[..., Any])


class Screen(Console):
    """A console that leaves a closed pipe to `history_curator.cli.main`."""

    def on_broken_pipe(self) -> None:
        """Pass the error on instead of ending with exit code 1."""
        raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """Return a console; where the output is no terminal it is 140 columns wide."""
    screen = Screen(stderr=stderr, highlight=False)
    if screen.is_terminal or os.environ.get("COLUMNS"):
        return screen
    return Screen(stderr=stderr, highlight=False, width=140)


def friendly(command: Command) -> Command:
    """Turn the library's errors and missing files into one line and exit code 2."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:
            raise
        except (HistoryCuratorError, OSError, ImportError) as error:
            text = str(error)
            if isinstance(error, OSError) and error.strerror:
                named = f"{error.filename}: " if error.filename is not None else ""
                text = f"{named}{error.strerror}."
            console(stderr=True).print(f"[red]error:[/red] {escape(text)}", soft_wrap=True)
            raise typer.Exit(2) from error

    return run  # type: ignore[return-value]


def summary_panel(report: CurationReport, title: str) -> Panel:
    """Return the numbers of a curation and its budget bar."""
    before, after = (
        count_of(count, "message") for count in (report.original_count, report.curated_count)
    )
    body = Text(f"{before}, {report.tokens_before:,} tokens on record\n")
    body.append(f"{after}, {report.tokens:,} tokens in the view", "bold")
    if report.max_tokens:
        body.append(f" of {report.max_tokens:,}\n").append_text(budget_bar(report))
    prefix = count_of(report.prefix_entries, "message")
    body.append(f"\nstable prefix: {prefix}, {report.prefix_tokens:,} tokens\n")
    for action, count in sorted(report.actions.items(), key=lambda item: -item[1]):
        body.append(f"{count} {action}  ", _COLOURS.get(action, "white"))
    for warning in report.warnings:
        body.append(f"\nwarning: {warning}", "yellow")
    return Panel(body, title=escape(title), title_align="left", border_style="blue", expand=False)


def budget_bar(report: CurationReport, width: int = 56) -> Text:
    """Return a bar of the budget: the stable prefix darker, the rest of the view lighter."""
    whole = max(report.max_tokens or 0, report.tokens, 1)
    used = round(width * report.tokens / whole)
    stable = min(used, round(width * report.prefix_tokens / whole))
    bar = Text("█" * stable, "blue")
    bar.append("█" * (used - stable), "cyan").append("░" * (width - used), "bright_black")
    return bar.append(f" {report.tokens / whole:.0%}")


def decision_table(report: CurationReport, *, narrow: bool = False) -> RichTable:
    """Return one row for each decision; a narrow table has neither reasons nor texts."""
    table = RichTable(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", no_wrap=True, min_width=3)
    table.add_column("role", no_wrap=True, min_width=9)
    table.add_column("decision", no_wrap=True, min_width=10)
    table.add_column("tokens", justify="right", no_wrap=True, min_width=12)
    if not narrow:
        table.add_column("why", no_wrap=True, overflow="ellipsis", max_width=36)
        table.add_column("text")  # the only column that gives way
    for row in report.to_dict()["decisions"]:
        action, before, after = row["action"], row["tokens_before"], row["tokens_after"]
        text = " ".join(str(row.get("before") or row.get("after") or "")[:200].split())
        calls = ", ".join(f"{call['name']}({call['arguments']})" for call in row["tool_calls"])
        style = "bright_black" if action == "dropped" else ""
        cells = (
            "+" if row["index"] is None else str(row["index"]),
            row["role"],
            Text(action, _COLOURS.get(action, "white")),
            f"{after:,}" if before == after else f"{before:,} → {after:,}",
            Text("" if action == "kept" else row["reason"]),
            Text((text or calls)[:120], style, no_wrap=True, overflow="ellipsis"),
        )
        table.add_row(*cells[: len(table.columns)])
    return table


def run_demo(max_tokens: int, output: Path | None = None, *, full: bool = False) -> None:
    """Curate the sample conversation call by call, show its cost, and write its page."""
    screen = console()
    narrow = screen.width < NARROW
    messages = sample_conversation()
    report = Curator(max_tokens=max_tokens).curate(messages).report
    policies: dict[str, Any] = {
        "curator": Curator(max_tokens=max_tokens),
        _NEWEST: NewestThatFit(max_tokens),
        "everything": NoCuration(max_tokens),
    }
    results = replay([messages], policies, executor="serial", progress=False)
    page = SessionPage(messages, {name: policies[name] for name in ("curator", _NEWEST)})
    screen.rule("An agent looks for a slow checkout", align="left")
    if full:
        screen.print(decision_table(report, narrow=narrow), "")
    screen.print(_last_request(report))
    title = f"\nThe whole session, {count_of(len(page.data['calls']), 'call')}"
    screen.print(_whole_session(results, title, narrow=narrow))
    screen.print(_call_by_call(page.data["policies"][0], max_tokens))
    if output is None:
        output = Path(tempfile.mkdtemp(prefix="history-curator-")) / "demo.html"
    more = "" if full else " --full prints every decision."
    screen.print(f"\nEvery call, message and reason on one page (open it in a browser).{more}")
    screen.print(str(page.to_html(output).resolve()), style="bold", soft_wrap=True)


def _last_request(report: CurationReport) -> RichTable:
    table = RichTable(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    messages = count_of(report.original_count, "message")
    table.add_row("went in", f"{messages}, {report.tokens_before:,} tokens")
    sent = f"{count_of(report.curated_count, 'message')}, {report.tokens:,} of {report.max_tokens:,} tokens "
    table.add_row("is sent", Text(sent).append_text(budget_bar(report, width=20)))
    lines = []
    for action, where in _GONE.items():
        found = [each for each in report.decisions if each.action == action]
        if found:
            gone = sum(each.tokens_before - each.tokens_after for each in found)
            lines.append(f"{count_of(len(found), 'message')} {where}: {gone:,} tokens less")
    for each in report.decisions:
        if each.action == "inserted":
            note = "the recap" if each.origin == "recap" else "a note"
            lines.append(f"in their place {note}, {each.tokens_after:,} tokens: {each.reason}")
    for number, line in enumerate(lines or ["nothing"]):
        table.add_row("" if number else "left out", line)
    return table


def _whole_session(results: ReplayResults, title: str, *, narrow: bool) -> RichTable:
    heads = ("tokens", "cached", "cost", "lost", "invalid", "over")[2 * narrow :]
    rows = []
    for name, each in results.policies.items():
        lost = each.lost_identifiers + each.repeated_calls
        cells = (short_number(each.tokens_sent), f"{each.cached_share:.0%}", f"{each.cost:.3f}",
                 f"{lost} of {each.identifiers + each.repeats}", f"{each.invalid}",
                 f"{each.over_budget}")  # fmt: skip
        rows.append([name, *cells[2 * narrow :]])
    table = Table(title, ("", *heads), rows).to_rich(title=title, header_style="bright_black")
    table.rows[0].style = "bold"
    table.caption_justify = "left"
    table.caption = (
        "cached repeats the request before and costs a tenth; cost in millions of tokens at full "
        "price (Anthropic); lost was needed by a later call and out of view; invalid requests "
        "break a rule of the provider, over are requests over the budget. "
        f"{_NEWEST!r} is trim_messages of LangChain, written again."
    )
    return table


def _call_by_call(policy: Mapping[str, Any], max_tokens: int) -> Text:
    """Return the size of each request as a line of bars; compactions in another colour."""
    line, compactions = Text("\ncurator  ", "bold"), []
    for number, view in enumerate(policy["views"], 1):
        level = min(len(_LEVELS) - 1, int(view["tokens"] / max_tokens * len(_LEVELS)))
        line.append(_LEVELS[level], "yellow" if view["compacted"] else "blue")
        compactions += [str(number)] if view["compacted"] else []
    where = f"compactions at call {', '.join(compactions)}" if compactions else "no compaction"
    return line.append(f"  {where}; between compactions nothing sent changes", "bright_black")
