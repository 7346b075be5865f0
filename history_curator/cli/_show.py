"""Rich tables and bars for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from history_curator.report import CurationReport, Decision

__all__ = ["decision_table", "results_table", "summary_panel", "violation_table"]

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
        body.append_text(_bar(report))
    body.append(
        f"\nstable prefix: {report.prefix_entries} messages, {report.prefix_tokens:,} tokens\n"
    )
    for action, count in sorted(report.actions.items(), key=lambda item: -item[1]):
        body.append(f"{count} {action}  ", COLOURS.get(action, "white"))
    for warning in report.warnings:
        body.append(f"\nwarning: {warning}", "yellow")
    return Panel(body, title=escape(title), title_align="left", border_style="blue", expand=False)


def _bar(report: CurationReport, width: int = 56) -> Text:
    whole = max(report.max_tokens or 0, report.tokens, 1)
    used = round(width * report.tokens / whole)
    stable = min(used, round(width * report.prefix_tokens / whole))
    bar = Text()
    bar.append("█" * stable, "blue")
    bar.append("█" * (used - stable), "cyan")
    bar.append("░" * (width - used), "bright_black")
    bar.append(f" {report.tokens / whole:.0%}")
    return bar


def decision_table(report: CurationReport, limit: int | None = None) -> Table:
    """Return one row per decision, the last ``limit`` of them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, how in (("#", "right"), ("role", "left"), ("decision", "left"), ("tokens", "right"),
                      ("why", "left"), ("text", "left")):  # fmt: skip
        table.add_column(name, justify=how, no_wrap=True, overflow="ellipsis",  # type: ignore[arg-type]
                         ratio=2 if name in ("why", "text") else None)  # fmt: skip
    decisions = report.decisions
    for decision in decisions if limit is None else decisions[-limit:]:
        colour = COLOURS.get(decision.action, "white")
        table.add_row(
            "+" if decision.index is None else str(decision.index),
            decision.role, Text(decision.action, colour), _tokens(decision),
            "" if decision.action == "kept" else escape(decision.reason),
            Text(_preview(report, decision), "bright_black" if decision.action == "dropped" else ""),
        )  # fmt: skip
    return table


def _tokens(decision: Decision) -> str:
    if decision.tokens_before == decision.tokens_after:
        return f"{decision.tokens_after:,}"
    return f"{decision.tokens_before:,} → {decision.tokens_after:,}"


def _preview(report: CurationReport, decision: Decision) -> str:
    text = "" if decision.index is None else report.original_text(decision.index)
    return " ".join(text[:200].split())[:120]


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


def results_table(results: Any) -> Table:
    """Return the table of a replay."""
    table = Table(title=f"Replay, {results.seconds:.1f} s", title_justify="left",
                  header_style="bold")  # fmt: skip
    for position, name in enumerate(results.columns()):
        table.add_column(name, justify="right" if position else "left", overflow="fold")
    for row, each in zip(results.rows(), results.policies.values(), strict=True):
        table.add_row(*map(escape, row), style=None if each.sound else "bright_black")
    return table


def console(stderr: bool = False) -> Console:
    """Return a console; messages for people go to standard error when data goes to standard out."""
    screen = Console(stderr=stderr, highlight=False)
    return screen if screen.is_terminal else Console(stderr=stderr, highlight=False, width=140)
