"""Where the clear line and the cut line lie, kept up to date as the history grows.

Both lines are functions of the history alone. What is remembered here only tells where they were,
so that a history that grew by one unit costs one step; asked about any other history, it walks.
"""

from __future__ import annotations

from collections.abc import Callable

from history_curator.seal._forms import Forms
from history_curator.seal._grid import line_at_or_after, line_before
from history_curator.structure import Unit

CUT_CELLS = 3
"""The cut line lies on a grid this many times coarser than the clear line's."""


class Window:
    """The longest run of units up to a given one that costs no more than a limit.

    Args:
        cost: tokens of the unit at a position.

    Attributes:
        start: where the run starts.
        total: what it costs.
    """

    __slots__ = ("_cost", "_end", "start", "total")

    def __init__(self, cost: Callable[[int], int]) -> None:
        self._cost = cost
        self._end = -1
        self.start = 0
        self.total = 0

    def slide(self, end: int, limit: int) -> int:
        """Let the run end before position `end`; return where it starts now."""
        cost, start, total = self._cost, self.start, self.total
        if not 0 <= self._end <= end:
            start, total, self._end = end, 0, end
        for position in range(self._end, end):
            total += cost(position)
        while total > limit and start < end:
            total -= cost(start)
            start += 1
        while start > 0:
            more = cost(start - 1)
            if total + more > limit:
                break
            total += more
            start -= 1
        self.start, self.total, self._end = start, total, end
        return start


class Lines:
    """The two lines of one timeline under one budget.

    Args:
        units: the units of the timeline, a list that grows.
        forms: makes and counts the forms of units.
        cell: the grid.
        verbatim: tokens for units after the clear line.
        cleared: tokens for units between the lines.
        pinned: positions of units that are never cleared.
    """

    def __init__(
        self,
        units: list[Unit],
        forms: Forms,
        cell: int,
        *,
        verbatim: int,
        cleared: int,
        pinned: frozenset[int],
    ) -> None:
        self._units = units
        self._forms = forms
        self._cell = cell
        self._verbatim = verbatim
        self._cleared = cleared
        self._pinned = pinned
        self._full = Window(self._capped_cost)
        self._old = Window(self._old_cost)
        self._known = (-1, -1)

    @property
    def reached(self) -> int:
        """Position of the earliest unit that was looked at for the last lines."""
        return max(0, self._old.start - 1)

    def place(self) -> tuple[int, int]:
        """Return ``(cut, clear)``: positions of the first unit after each line."""
        last = len(self._units) - 1
        reach = self._full.slide(last, self._verbatim - self._capped_cost(last))
        clear = line_at_or_after(self._units, reach, last, self._cell)
        if self._known[1] != clear:
            position = self._old.slide(clear, self._cleared)
            cell = self._cut_cell(position, clear)
            self._known = (line_at_or_after(self._units, position, clear, cell), clear)
        return self._known

    def relax(self, clear: int, room: int) -> int:
        """Nothing is dropped: clear no more than `room` asks for, one grid cell at a time."""
        last = len(self._units) - 1
        total = self._old.total + sum(map(self._capped_cost, range(clear, last + 1)))
        while clear > 0:
            earlier = line_before(self._units, clear, self._cell)
            for position in range(earlier, clear):
                total += self._capped_cost(position) - self._old_cost(position)
            if total > room:
                break
            clear = earlier
        return min(clear, last)

    def _capped_cost(self, position: int) -> int:
        return self._forms.capped(self._units[position])[0]

    def _old_cost(self, position: int) -> int:
        """Tokens of a unit between the lines."""
        if position in self._pinned:
            return self._capped_cost(position)
        return self._forms.cleared(self._units[position])[0]

    def _cut_cell(self, start: int, end: int) -> int:
        """A coarse grid where clearing made the units small; plain talk keeps its size."""
        exchanges = sum(unit.kind == "exchange" for unit in self._units[start:end])
        return self._cell * (CUT_CELLS if exchanges * 4 > end - start else 1)
