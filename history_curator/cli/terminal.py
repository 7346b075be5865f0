"""The terminal: the console, errors in one line, and the demo."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
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
from history_curator.lab.results import Table, count_of, short_number
from history_curator.report import CurationReport

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


def say_written(*paths: Path | None) -> None:
    """Name the files that were written."""
    for path in paths:
        if path is not None:
            console().print(f"Written: {escape(str(path))}", soft_wrap=True)


def run_demo(max_tokens: int, output: Path | None = None, *, full: bool = False) -> None:
    """Curate the sample conversation call by call, show its cost, and write its page."""
    screen, messages = console(), sample_conversation()
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
        screen.print(escape(report.explain()), "")
    screen.print(_last_request(report))
    title = f"\nThe whole session, {count_of(len(page.data['calls']), 'call')}"
    screen.print(_whole_session(results, title))
    views = page.data["policies"][0]["views"]
    compactions = [str(number) for number, view in enumerate(views, 1) if view["compacted"]]
    where = f"compacts at call {', '.join(compactions)}" if compactions else "never compacts"
    screen.print(f"\nThe curator {where}; between compactions it only adds messages.")
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
    sent = count_of(report.curated_count, "message")
    table.add_row("is sent", f"{sent}, {report.tokens:,} of {report.max_tokens:,} tokens")
    lines = []
    for action, where in _GONE.items():
        found = [each for each in report.decisions if each.action == action]
        if found:
            gone = sum(each.tokens_before - each.tokens_after for each in found)
            lines.append(f"{count_of(len(found), 'message')} {where}: {gone:,} tokens less")
    lines += [
        f"in their place a note, {each.tokens_after:,} tokens: {each.reason}"
        for each in report.decisions
        if each.action == "inserted"
    ]
    for number, line in enumerate(lines or ["nothing"]):
        table.add_row("" if number else "left out", Text(line))
    return table


def _whole_session(results: ReplayResults, title: str) -> RichTable:
    heads = ("", "tokens", "cached", "cost", "lost", "invalid", "over")
    rows = [
        (name, short_number(each.tokens_sent), f"{each.cached_share:.0%}", f"{each.cost:.3f}",
         f"{each.lost_identifiers + each.repeated_calls} of {each.identifiers + each.repeats}",
         f"{each.invalid}", f"{each.over_budget}")
        for name, each in results.policies.items()
    ]  # fmt: skip
    table = Table(title, heads, rows).to_rich(title=title, header_style="bright_black")
    table.rows[0].style = "bold"
    table.caption_justify = "left"
    table.caption = (
        "cached repeats the request before and costs a tenth; cost in millions of tokens at full "
        "price (Anthropic); lost was needed by a later call and out of view; invalid requests "
        "break a rule of the provider, over are requests over the budget. "
        f"{_NEWEST!r} is trim_messages of LangChain, written again."
    )
    return table
