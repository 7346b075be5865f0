"""Where the clear line and the cut line lie, kept up to date as the history grows.

Both lines are functions of the history alone. A `Lines` object only remembers where it was, so
that a history that grew by one unit costs one step; asked about any other history, it walks.
"""

from __future__ import annotations

from history_curator.seal._forms import Forms
from history_curator.seal._grid import line_at_or_after, line_before
from history_curator.structure import Unit

CUT_CELLS = 3
"""The cut line lies on a grid this many times coarser than the clear line's."""


class Lines:
    """The two lines of one timeline under one budget.

    Args:
        forms: makes and counts the forms of units.
        cell: the grid.
        verbatim: tokens for units after the clear line.
        cleared: tokens for units between the lines.
        pinned: positions of units that are never cleared.
    """

    def __init__(
        self, forms: Forms, cell: int, verbatim: int, cleared: int, pinned: frozenset[int]
    ) -> None:
        self._forms = forms
        self._cell = cell
        self._verbatim = verbatim
        self._cleared = cleared
        self._pinned = pinned
        self._reach = -1
        self._counted = -1
        self._sum = 0
        self._cuts: dict[int, tuple[int, int]] = {}

    def place(self, units: list[Unit]) -> tuple[int, int]:
        """Return ``(cut, clear)``: positions of the first unit after each line."""
        last = len(units) - 1
        reach = self._find_reach(units, last)
        clear = line_at_or_after(units, reach, last, self._cell)
        cut, _ = self._find_cut(units, clear)
        return cut, clear

    def relax(self, units: list[Unit], clear: int, room: int) -> int:
        """Nothing is dropped: clear no more than `room` asks for, one grid cell at a time."""
        capped, last = self._forms.capped, len(units) - 1
        _, total = self._find_cut(units, clear)
        total += sum(capped(unit)[0] for unit in units[clear:])
        while clear > 0:
            earlier = line_before(units, clear, self._cell)
            for position in range(earlier, clear):
                total += capped(units[position])[0] - self.old(units, position)[0]
            if total > room:
                break
            clear = earlier
        return min(clear, last)

    def old(self, units: list[Unit], position: int) -> tuple[int, tuple[object, ...]]:
        """The form of a unit between the lines."""
        unit = units[position]
        if position in self._pinned:
            return self._forms.capped(unit)
        return self._forms.cleared(unit)

    def _find_reach(self, units: list[Unit], last: int) -> int:
        """The earliest unit from which on everything fits the verbatim share."""
        capped = self._forms.capped
        reach, total = self._reach, self._sum
        if reach < 0 or self._counted > last:
            reach, total, self._counted = last, 0, last
        for position in range(self._counted, last):
            total += capped(units[position])[0]
        limit = self._verbatim - capped(units[last])[0]
        while total > limit and reach < last:
            total -= capped(units[reach])[0]
            reach += 1
        while reach > 0:
            more = capped(units[reach - 1])[0]
            if total + more > limit:
                break
            total += more
            reach -= 1
        self._reach, self._sum, self._counted = reach, total, last
        return reach

    def _cut_cell(self, old: list[Unit]) -> int:
        """A coarse grid where clearing made the units small; plain talk keeps its size."""
        exchanges = sum(unit.kind == "exchange" for unit in old)
        return self._cell * (CUT_CELLS if exchanges * 4 > len(old) else 1)

    def _find_cut(self, units: list[Unit], clear: int) -> tuple[int, int]:
        known = self._cuts.get(clear)
        if known is None:
            total, position = 0, clear
            costs: list[int] = []
            while position > 0:
                cost = self.old(units, position - 1)[0]
                if total + cost > self._cleared:
                    break
                total += cost
                costs.append(cost)
                position -= 1
            cut = line_at_or_after(units, position, clear, self._cut_cell(units[position:clear]))
            total -= sum(costs[len(costs) - (cut - position) :]) if cut > position else 0
            if len(self._cuts) > 8:
                self._cuts.clear()
            known = self._cuts[clear] = (cut, total)
        return known
