"""Rich tables and bars for the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from history_curator.report import CurationReport

NARROW = 60  # below this many columns a table leaves some out

COLOURS = {
    "kept": "green", "truncated": "yellow", "cleared": "dark_orange", "dropped": "red",
    "merged": "cyan", "moved": "blue", "inserted": "magenta", "summarised": "magenta",
    "repaired": "cyan",
}  # fmt: skip


def summary_panel(report: CurationReport, title: str) -> Panel:
    """Return the numbers of a curation and its budget bar."""
    body = Text()
    body.append(f"{report.original_count} messages, {report.tokens_before:,} tokens on record\n")
    body.append(f"{report.curated_count} messages, {report.tokens:,} tokens in the view", "bold")
    if report.max_tokens:
        body.append(f" of {report.max_tokens:,}\n")
        body.append_text(budget_bar(report))
    body.append(
        f"\nstable prefix: {report.prefix_entries} messages, {report.prefix_tokens:,} tokens\n"
    )
    for action, count in sorted(report.actions.items(), key=lambda item: -item[1]):
        body.append(f"{count} {action}  ", COLOURS.get(action, "white"))
    for warning in report.warnings:
        body.append(f"\nwarning: {warning}", "yellow")
    return Panel(body, title=escape(title), title_align="left", border_style="blue", expand=False)


def budget_bar(report: CurationReport, width: int = 56) -> Text:
    """Return how full the view is: the stable prefix darker, the rest lighter."""
    whole = max(report.max_tokens or 0, report.tokens, 1)
    used = round(width * report.tokens / whole)
    stable = min(used, round(width * report.prefix_tokens / whole))
    bar = Text()
    bar.append("█" * stable, "blue")
    bar.append("█" * (used - stable), "cyan")
    bar.append("░" * (width - used), "bright_black")
    bar.append(f" {report.tokens / whole:.0%}")
    return bar


def decision_table(report: CurationReport, *, narrow: bool = False) -> Table:
    """Return one row per decision; a narrow one says neither why nor what."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", no_wrap=True, min_width=3)
    table.add_column("role", no_wrap=True, min_width=9)
    table.add_column("decision", no_wrap=True, min_width=10)
    table.add_column("tokens", justify="right", no_wrap=True, min_width=12)
    if not narrow:
        table.add_column("why", no_wrap=True, overflow="ellipsis", max_width=36)
        table.add_column("text")  # the only column that gives way
    for row in report.to_dict()["decisions"]:
        action = row["action"]
        cells = (
            "+" if row["index"] is None else str(row["index"]),
            row["role"],
            Text(action, COLOURS.get(action, "white")),
            _tokens(row["tokens_before"], row["tokens_after"]),
            Text("" if action == "kept" else row["reason"]),
            Text(
                _preview(row),
                "bright_black" if action == "dropped" else "",
                no_wrap=True,
                overflow="ellipsis",
            ),
        )
        table.add_row(*cells[: len(table.columns)])
    return table


def _tokens(before: int, after: int) -> str:
    return f"{after:,}" if before == after else f"{before:,} → {after:,}"


def _preview(row: Mapping[str, Any]) -> str:
    text = " ".join(str(row.get("before") or row.get("after") or "")[:200].split())
    calls = ", ".join(f"{call['name']}({call['arguments']})" for call in row["tool_calls"])
    return (text or calls)[:120]


def violation_table(found: Sequence[tuple[str, Any]], provider: str) -> Table:
    """Return one row per violation: which conversation, where, which rule, what to do."""
    table = Table(title=f"Refused by {provider}", title_justify="left", header_style="bold")
    for name in ("conversation", "message", "rule", "what is wrong"):
        table.add_column(name, overflow="fold")
    for conversation, violation in found:
        index = getattr(violation, "index", None)
        table.add_row(escape(conversation), "–" if index is None else str(index),
                      escape(str(violation.rule)), escape(str(violation.message)))  # fmt: skip
    return table


class Screen(Console):
    """A console that leaves a closed pipe to `history_curator.cli.main`."""

    def on_broken_pipe(self) -> None:
        """Pass the error on instead of ending with exit code 1."""
        raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """Return a console; messages for people go to standard error when data goes to standard out.

    Where the output is no terminal it is 140 columns wide, unless ``COLUMNS`` says otherwise.
    """
    screen = Screen(stderr=stderr, highlight=False)
    if screen.is_terminal or os.environ.get("COLUMNS"):
        return screen
    return Screen(stderr=stderr, highlight=False, width=140)
