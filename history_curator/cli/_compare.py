"""``history-curator compare``: the table, what its columns mean, and the advice."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from history_curator.cli._show import NARROW, console

if TYPE_CHECKING:
    from history_curator.lab import ReplayResults

_SPARED = ("sent", "cached")  # on a narrow terminal


def print_results(results: ReplayResults, *, full: bool = False) -> None:
    """Print the columns that decide, or all of them, within 80 columns where they fit."""
    screen = console()
    advice = results.recommend()  # where there is nothing to compare, it says why
    left_out = _SPARED if screen.width < NARROW and not full else ()
    screen.print(results_table(results, full=full, left_out=left_out))
    legend = Table.grid(padding=(0, 1))
    for head, means in results.legend(full=full).items():
        if head not in left_out:
            legend.add_row("", head, means, style="bright_black")
    screen.print(legend)
    screen.print(Text(" grey rows have faults and are not on the frontier", "bright_black"))
    for note in results.notes():
        screen.print(Padding(Text(note, "bright_black"), (0, 0, 0, 1)))
    screen.print(f"\nOn the cost/regret frontier: {escape(', '.join(results.frontier()))}.")
    screen.print(escape(advice.why))


def results_table(
    results: ReplayResults, *, full: bool = False, left_out: Collection[str] = ()
) -> Table:
    """Return the table of a replay, without the columns left out."""
    table = Table(
        title=results.about(),
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    heads = results.columns(full=full)
    for position, name in enumerate(heads):
        if name not in left_out:
            table.add_column(name, justify="right" if position else "left", no_wrap=bool(position),
                             overflow="ellipsis" if position else "fold")  # fmt: skip
    rows = zip(results.rows(full=full), results.policies.values(), strict=True)
    for row, each in rows:
        cells = (cell for head, cell in zip(heads, row, strict=True) if head not in left_out)
        table.add_row(*map(escape, cells), style=None if each.sound else "bright_black")
    return table
