"""The terminal: the console, errors in one line, and what the commands print."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text
from typer.core import TyperGroup

from history_curator.curator import Curator
from history_curator.errors import HistoryCuratorError
from history_curator.lab import SessionPage, sample_conversation
from history_curator.lab.files import describe_error
from history_curator.lab.results import Findings, Table, count_of
from history_curator.report import CurationReport
from history_curator.tokens import shorten


class Screen(Console):
    """A console that leaves a closed pipe to `history_curator.cli.main`."""

    def on_broken_pipe(self) -> None:
        """Pass the error on instead of ending with exit code 1."""
        raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """Return a console; where the output is no terminal it is 140 columns wide."""
    screen = Screen(stderr=stderr, highlight=False)
    if not (screen.is_terminal or os.environ.get("COLUMNS")):
        screen.width = 140
    return screen


class Commands(TyperGroup):
    """Commands that turn the library's errors and missing files into one line, and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (HistoryCuratorError, OSError, ImportError) as error:
            message = f"[red]error:[/red] {escape(describe_error(error))}"
            console(stderr=True).print(message, soft_wrap=True)
            raise typer.Exit(2) from error


def warn(lines: Sequence[str], style: str = "yellow") -> None:
    """Print lines to standard error."""
    for line in lines:
        console(stderr=True).print(escape(line), style=style, soft_wrap=True)


def say_written(*paths: Path | None) -> None:
    """Name the files that were written, on standard error."""
    warn([f"Written: {path}" for path in paths if path], style="")


def print_decisions(report: CurationReport) -> None:
    """Print each message with its number in the file, its text, and the reason under it."""
    screen, rows = console(), []
    for each in report.decisions:
        is_recorded = each.index is not None
        entry = report.record[each.index or 0] if is_recorded else report.view[each.position or 0]
        number = "+" if each.message is None else str(each.message)
        calls = " ".join(f"{call.name}({call.arguments})" for call in entry.tool_calls or ())
        before, after = each.tokens_before, each.tokens_after
        tokens = f"{before:,}" if before == after else f"{before:,}→{after:,}"
        text = shorten(" ".join(f"{entry.content or ''} {calls}".split()), 160, keep="head")
        text = text.encode("utf-8", "backslashreplace").decode()  # half a character as in JSON
        reason = "" if each.action == "kept" else f"\n{each.reason}"
        rows.append((f"{number} {each.role}", tokens, f"{each.action}: {text}{reason}"))
    screen.print(escape(report.headline))
    screen.print(Table("", ("#", "tokens", "message, and why"), rows, text_last=True).to_rich())
    warn([f"warning: {warning}" for warning in report.warnings])


def print_findings(found: Findings) -> None:
    """Print what a command found: its sentences, its tables and their legend."""
    screen = console()
    for sentence in (f"[bold]{escape(found.heading)}[/bold]", *map(escape, found.sentences)):
        screen.print(sentence)
    for table in found.tables:
        screen.print(f"\n[bold]{escape(table.title)}" if table.title else "")
        screen.print(table.to_rich())
    screen.print()
    for head, meaning in found.legend.items():
        screen.print(Text(f"{head:<8}{meaning}", "bright_black"))
    for note in found.notes:
        screen.print(escape(note), style="bright_black")


def run_demo(max_tokens: int, output: Path | None = None) -> None:
    """Curate the sample conversation call by call, show its cost, and write its page."""
    screen, messages = console(), sample_conversation()
    report = Curator(max_tokens=max_tokens).curate(messages).report
    page = SessionPage(messages, ["curator", "newest that fit"], max_tokens=max_tokens)
    gone = sum(each.action == "dropped" for each in report.decisions)
    notes = [each.tokens_after for each in report.decisions if each.action == "inserted"]
    screen.rule("An agent looks for a slow checkout", align="left")
    screen.print(
        f"went in   {count_of(report.original_count, 'message')}, {report.tokens_before:,} tokens\n"
        f"is sent   {count_of(report.curated_count, 'message')}, {report.tokens:,} of "
        f"{max_tokens:,} tokens\n"
        f"left out  {count_of(gone, 'message')}, which your record keeps; "
        f"{count_of(len(notes), 'note')} of {sum(notes):,} tokens in their place"
    )
    screen.print(f"\nThe whole session, {count_of(len(page.data['calls']), 'call')}")
    print_findings(page.results.describe())
    views = enumerate(page.data["policies"][0]["views"], 1)
    compactions = ", ".join(str(number) for number, view in views if view["compacted"])
    where = f"compacts at call {compactions}" if compactions else "never compacts"
    screen.print(f"\nThe curator {where}; between compactions it only adds messages.")
    if output is None:
        output = Path(tempfile.mkdtemp(prefix="history-curator-")) / "demo.html"
    screen.print("\nEvery call, message and reason on one page (open it in a browser).")
    written = f"Written: {page.to_html(output).resolve()}"
    screen.print(escape(written), style="bold", soft_wrap=True)
