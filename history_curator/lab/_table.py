"""The columns of the comparison: what they are called, what they mean, how they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from history_curator.lab._results import PolicyResult


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        head: the heading.
        means: what it says and in which unit, for the legend.
        cell: the text of one policy's cell.
        decides: whether it belongs to the few that fit 80 columns.
        used: whether it says anything about these policies; by default it does.
    """

    head: str
    means: str
    cell: Callable[[PolicyResult], str]
    decides: bool = False
    used: Callable[[PolicyResult], bool] = lambda _each: True


def short_number(number: float) -> str:
    """Return a number of tokens as people say it, ``1.25M`` or ``980k``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return str(round(number))


def _share(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}%}"


COLUMNS = (
    Column("sent", "tokens over all calls", lambda p: short_number(p.tokens_sent), True),
    Column("peak", "the largest request, tokens", lambda p: f"{p.peak:,}"),
    Column("budget", "the mean request, of the budget", lambda p: _share(p.budget_use)),
    Column(
        "cached", "sent tokens that repeat the request before", lambda p: _share(p.cached_share),
        True,
    ),
    Column("cost", "millions of input tokens at full price", lambda p: f"{p.cost:.3f}", True),
    Column(
        "regret", "of what later calls used, not in view any more", lambda p: _share(p.regret, 1),
        True,
    ),
    Column(
        "edits", "edit calls whose old lines are all in view", lambda p: _share(p.edits_share),
        True, lambda p: bool(p.edits),
    ),
    Column(
        "evidence", "labelled questions with all their evidence in view",
        lambda p: _share(p.evidence_recall), True, lambda p: bool(p.questions),
    ),
    Column(
        "faults", "calls refused by the rules, over budget or without a view",
        lambda p: f"{p.faults:,}", True,
    ),
    Column("refused", "requests the provider's rules refuse", lambda p: f"{p.invalid:,}"),
    Column("over", "requests above the budget", lambda p: f"{p.over_budget:,}"),
    Column("failed", "calls for which the policy raised", lambda p: f"{p.failed:,}"),
    Column("lost ids", "identifiers used later, not in view", lambda p: f"{p.lost_identifiers:,}"),
    Column("re-calls", "calls made again, first result not in view",
           lambda p: f"{p.repeated_calls:,}"),
    Column("ms/view", "mean time to make one view", lambda p: f"{p.ms_per_view:.2f}"),
)  # fmt: skip


def columns_of(policies: Sequence[PolicyResult], *, full: bool) -> list[Column]:
    """Return the columns that say something about these policies."""
    return [
        column
        for column in COLUMNS
        if (full or column.decides) and any(map(column.used, policies or ()))
    ]


def as_text(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines, the first column to the left, the others to the right."""
    table = [list(heads), *map(list, rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    lines = [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines
