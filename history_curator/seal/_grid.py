"""The grid: where a cut may fall, so that it stays put while the history grows.

Grid lines lie at unit boundaries, one for every `cell` of cheap cumulative size from the start.
They depend only on the past, so they never move. Cutting at the first line inside the budget
means the cut holds until the budget is reached again, then jumps one cell.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from history_curator.structure import Unit

_offset = attrgetter("offset")

CHARACTERS_PER_TOKEN = 4
FINEST = 1_024
SMALL_BUDGET = 12_000
"""Up to here a budget has little to spare."""


def default_low_water(max_tokens: int) -> float:
    """How full a view is after a cut, by budget.

    A small budget is cut in small steps; from 64k on, a smaller share
    is enough to make jumps rare.
    """
    if max_tokens <= SMALL_BUDGET:
        return 0.90
    return 0.75 if max_tokens <= 64_000 else 0.80


def cell_size(max_tokens: int, low_water: float | None) -> int:
    """Characters between two grid lines; 0 means that a cut may fall anywhere."""
    if low_water is None:
        low_water = default_low_water(max_tokens)
    if low_water >= 1.0:
        return 0
    return max(FINEST, int(max_tokens * CHARACTERS_PER_TOKEN * (1.0 - low_water)))


def line_at_or_after(units: Sequence[Unit], start: int, end: int, cell: int) -> int:
    """The first unit in ``[start, end]`` on a grid line; finer lines are tried where none is.

    Without any line in between, `start` itself: just enough is cut.
    """
    if cell <= 0 or start <= 0 or start >= end:
        return min(start, end)
    while cell >= FINEST:
        if units[start].offset // cell > units[start - 1].offset // cell:
            return start
        target = (units[start].offset // cell + 1) * cell
        found = bisect_left(units, target, lo=start, hi=end, key=_offset)
        if found < end or (found == end and end < len(units) and units[end].offset >= target):
            return found
        cell //= 2
    return start


def line_before(units: Sequence[Unit], position: int, cell: int) -> int:
    """The last unit before `position` on a line of the grid; 0 is always one."""
    if cell <= 0 or position <= 0:
        return max(0, position - 1)
    target = units[position - 1].offset // cell * cell
    return 0 if target == 0 else bisect_left(units, target, hi=position - 1, key=_offset)
