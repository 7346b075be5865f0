"""``history-curator compare``: the table, what its columns mean, and the advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from history_curator.cli._show import console

if TYPE_CHECKING:
    from history_curator.lab import ReplayResults

__all__ = ["print_results"]


def print_results(results: ReplayResults, *, full: bool = False) -> None:
    """Print the columns that decide, or all of them, within 80 columns where they fit."""
    screen = console()
    advice = results.recommend()  # where there is nothing to compare, it says why
    screen.print(results_table(results, full=full))
    legend = results.legend(full=full)
    width = max(map(len, legend), default=0)
    for head, means in legend.items():
        screen.print(Text(f" {head:<{width}}  {means}", "bright_black"))
    screen.print(Text(" grey rows have faults and are not on the frontier", "bright_black"))
    for note in results.notes():
        screen.print(Text(f" {note}", "bright_black"), soft_wrap=True)
    screen.print(f"\nOn the cost/regret frontier: {escape(', '.join(results.frontier()))}.")
    screen.print(escape(advice.why))


def results_table(results: ReplayResults, *, full: bool = False) -> Table:
    """Return the table of a replay."""
    table = Table(
        title=results.about(),
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for position, name in enumerate(results.columns(full=full)):
        table.add_column(name, justify="right" if position else "left", no_wrap=bool(position))
    rows = zip(results.rows(full=full), results.policies.values(), strict=True)
    for row, each in rows:
        table.add_row(*map(escape, row), style=None if each.sound else "bright_black")
    return table
