"""The demo: one recorded session, curated call by call in the terminal and on a page."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.markup import escape
from rich.table import Table as RichTable

from history_curator.cli.terminal import console
from history_curator.curator import Curator
from history_curator.lab import PolicyResult, SessionPage, sample_conversation
from history_curator.lab.results import Table, count_of, percent, short_number
from history_curator.report import CurationReport


def run_demo(max_tokens: int, output: Path | None = None) -> None:
    """Curate the sample conversation call by call, show its cost, and write its page."""
    screen, messages = console(), sample_conversation()
    report = Curator(max_tokens=max_tokens).curate(messages).report
    page = SessionPage(messages, ["curator", "newest that fit"], max_tokens=max_tokens)
    screen.rule("An agent looks for a slow checkout", align="left")
    screen.print(_describe_last_request(report))
    screen.print(_compare(page.totals, len(page.data["calls"])))
    views = page.data["policies"][0]["views"]
    compactions = [str(number) for number, view in enumerate(views, 1) if view["compacted"]]
    where = f"compacts at call {', '.join(compactions)}" if compactions else "never compacts"
    screen.print(f"\nThe curator {where}; between compactions it only adds messages.")
    if output is None:
        output = Path(tempfile.mkdtemp(prefix="history-curator-")) / "demo.html"
    screen.print("\nEvery call, message and reason on one page (open it in a browser).")
    screen.print(escape(str(page.to_html(output).resolve())), style="bold", soft_wrap=True)


def _describe_last_request(report: CurationReport) -> str:
    gone = sum(each.action == "dropped" for each in report.decisions)
    notes = [each for each in report.decisions if each.action == "inserted"]
    in_their_place = f"; in their place a note of {notes[0].tokens_after:,} tokens" if notes else ""
    return (
        f"went in   {count_of(report.original_count, 'message')}, {report.tokens_before:,} tokens\n"
        f"is sent   {count_of(report.curated_count, 'message')}, {report.tokens:,} of "
        f"{report.max_tokens:,} tokens\n"
        f"left out  {count_of(gone, 'message')}, which your record keeps{in_their_place}"
    )


def _compare(totals: dict[str, PolicyResult], calls: int) -> RichTable:
    heads = ("", "tokens", "cached", "cost", "lost", "invalid", "over")
    rows = [
        (name, short_number(each.tokens_sent), percent(each.cached_share), f"{each.cost:.3f}",
         f"{each.lost} of {each.needed}", f"{each.invalid}", f"{each.over_budget}")
        for name, each in totals.items()
    ]  # fmt: skip
    title = f"\nThe whole session, {count_of(calls, 'call')}"
    table = Table(title, heads, rows).to_rich(title=title, header_style="bright_black")
    table.rows[0].style = "bold"
    table.caption_justify = "left"
    table.caption = (
        "cached repeats the request before and costs a tenth; cost in millions of tokens at full "
        "price (Anthropic); lost was needed by a later call and out of view; invalid requests "
        "break a rule of the provider, over are requests over the budget."
    )
    return table
