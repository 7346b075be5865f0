"""The ladder: what to lose, least first, until the view fits its budget.

1. Everything, when it fits.
2. Oversized tool results capped to head and tail.
3. Old tool results cleared to a placeholder, before the *clear line*.
4. Oldest units dropped, before the *cut line*; the first thing the user said stays.
5. The newest exchange squeezed.
6. `BudgetUnsatisfiableError`.

Both lines lie on the grid (see `_grid`), and the cut line is a function of the clear line alone,
so one jump moves both and between jumps the view only grows at its end. Nothing is remembered
between calls: the same history gives the same view.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from history_curator.errors import BudgetUnsatisfiableError
from history_curator.model import ConversationEntry
from history_curator.seal._forms import Forms
from history_curator.seal._grid import (
    CHARACTERS_PER_TOKEN,
    cell_size,
    line_at_or_after,
    line_before,
)
from history_curator.structure import Timeline, Unit
from history_curator.tokens import TokenCounter

VERBATIM_SHARE = 0.50
"""Share of the room for units in full; the rest is for cleared ones."""
CAP_SHARE = 0.02
"""One tool result may take this share of the budget before it is capped…"""
FRESH_CAP_SHARE = 0.20
"""…and this share in the newest unit, which the model is about to answer."""
CUT_CELLS = 2
"""The cut line lies on a grid this many times coarser than the clear line's."""
ANCHOR_SHARE = 0.25
"""The first user entry stays unless it takes more than this share of the room."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The outcome of the ladder.

    Attributes:
        entries: the view, before the provider's profile has seen it.
        rung: how far down the ladder it went, 1 to 5.
        cut: position of the first unit after the cut line.
        clear: position of the first unit in full.
        kept: positions of units before the cut that stay.
        start: position in the record of the first entry after the cut line.
    """

    entries: list[ConversationEntry]
    rung: int
    cut: int = 0
    clear: int = 0
    kept: tuple[int, ...] = field(default=())
    start: int = 0


class Ladder:
    """Fits timelines into token budgets.

    Args:
        counter: counts the tokens.
        max_tokens: the budget the grid is laid for.
        low_water: how full the view is after a cut; None chooses by budget, 1.0 cuts just enough
            on every call.
        recall: placeholders name a handle for the recall tool.
    """

    def __init__(
        self,
        counter: TokenCounter,
        max_tokens: int,
        low_water: float | None = None,
        *,
        recall: bool = False,
    ) -> None:
        self.cell = cell_size(max_tokens, low_water)
        cap, fresh = (
            max(256, int(max_tokens * share) * CHARACTERS_PER_TOKEN)
            for share in (CAP_SHARE, FRESH_CAP_SHARE)
        )
        self.forms = Forms(counter, cap, fresh, recall=recall)
        self._count = counter.count_entry

    def fit(self, timeline: Timeline, room: int, preserve_last_n: int | None = None) -> Fit:
        """Return the view of a timeline in at most `room` tokens.

        Raises:
            BudgetUnsatisfiableError: when what must stay does not fit.
        """
        units = timeline.pairing.units
        system = [entry for _, entry in timeline.pairing.system]
        left = room - sum(map(self._count, system))
        if left >= 0 and self._fits_in_full(units, left):
            for unit in units:
                system.extend(unit.entries)
            return Fit(system, 1)
        must = self._must_keep(timeline, preserve_last_n)
        view = _Search(self, timeline, left, must).run()
        if view is None:
            raise self._refusal(timeline, room, must)
        return Fit(system + view.entries, view.rung, view.cut, view.clear, view.kept, view.start)

    def _fits_in_full(self, units: list[Unit], left: int) -> bool:
        full = self.forms.full
        for position in range(len(units) - 1, -1, -1):
            left -= full(units[position], left)
            if left < 0:
                return False
        return True

    @staticmethod
    def _must_keep(timeline: Timeline, preserve_last_n: int | None) -> set[int]:
        """Positions of units that no rung may drop."""
        units = timeline.pairing.units
        must = set(timeline.pinned)
        if timeline.pairing.users:
            must.add(timeline.pairing.users[-1])
        if units and units[-1].kind != "assistant":
            must.add(len(units) - 1)
        if preserve_last_n:
            first = len(timeline.entries) - preserve_last_n
            position = len(units) - 1
            while position >= 0 and units[position].start + len(units[position].results) >= first:
                must.add(position)
                position -= 1
        return must

    def _refusal(
        self, timeline: Timeline, room: int, must: set[int]
    ) -> BudgetUnsatisfiableError:
        units = timeline.pairing.units
        irreducible = [
            (index, "system", self._count(entry)) for index, entry in timeline.pairing.system
        ]
        for position in sorted(must):
            unit = units[position]
            cost = self.forms.cleared(unit)[0]
            irreducible.append((unit.start, str(unit.head.role), cost))
        needed = sum(cost for _, _, cost in irreducible)
        return BudgetUnsatisfiableError(max(needed, room + 1), room, irreducible)


class _Search:
    """One search for the two lines. Positions are positions of units."""

    def __init__(self, ladder: Ladder, timeline: Timeline, left: int, must: set[int]) -> None:
        self.forms = ladder.forms
        self.cell = ladder.cell
        self.units = timeline.pairing.units
        self.users = timeline.pairing.users
        self.must = must
        self.left = left
        self.last = len(self.units) - 1
        self.pins = set(timeline.pinned)
        self.anchor: int | None = None
        if self.users and self._cost_kept(self.users[0]) <= left * ANCHOR_SHARE:
            self.anchor = self.users[0]

    def run(self) -> Fit | None:
        """Return the first fit on the ladder, or None."""
        if not self.units or self.left < 0:
            return None
        fixed = self._kept_before(len(self.units))
        room = self.left - sum(map(self._cost_kept, fixed))
        newest = self.forms.fresh(self.units[self.last])[0]
        reached = self._walk(self.last, room - newest, "capped")
        if reached == 0 and self._total(0, 0) <= self.left:
            return self._fit(0, 0, 2)
        clear = self._walk(self.last, int(room * VERBATIM_SHARE) - newest, "capped")
        clear = line_at_or_after(self.units, clear, self.last, self.cell)
        cut = self._walk(clear, int(room * (1 - VERBATIM_SHARE)), "cleared")
        cut = line_at_or_after(self.units, cut, clear, self.cell * CUT_CELLS)
        if cut == 0:
            clear = self._relax(clear)
        while self._total(cut, clear) > self.left:
            if cut < clear:
                cut = line_at_or_after(self.units, cut + 1, clear, self.cell)
            elif clear < self.last:
                clear = cut = line_at_or_after(self.units, clear + 1, self.last, self.cell)
            else:
                return self._squeeze()
        return self._fit(cut, clear, 3 if cut == 0 else 4)

    def _relax(self, clear: int) -> int:
        """Nothing is dropped: clear no more than needed, one grid cell at a time."""
        total = self._total(0, clear)
        while clear > 0:
            earlier = line_before(self.units, clear, self.cell)
            for position in range(earlier, clear):
                total += self.forms.capped(self.units[position])[0] - self._old(position)[0]
            if total > self.left:
                break
            clear = earlier
        return clear

    def _walk(self, end: int, room: int, form: str) -> int:
        """How far back units fit in `room`, going back from `end`."""
        cost_of = self.forms.capped if form == "capped" else self.forms.cleared
        position = end
        while position > 0:
            room -= cost_of(self.units[position - 1])[0]
            if room < 0:
                break
            position -= 1
        return position

    def _kept_before(self, cut: int) -> list[int]:
        """Units before the cut that stay: the anchor, what must stay, and the cut's own turn."""
        kept = {position for position in self.must if position < cut}
        if self.anchor is not None and self.anchor < cut:
            kept.add(self.anchor)
        if cut <= self.last:
            governing = bisect_left(self.users, cut) - 1
            if governing >= 0 and self.units[cut].kind != "user":
                user = self.users[governing]
                if self._cost_kept(user) <= self.left * ANCHOR_SHARE:
                    kept.add(user)
        return sorted(kept)

    def _cost_kept(self, position: int) -> int:
        return self._kept(position)[0]

    def _kept(self, position: int) -> tuple[int, tuple[ConversationEntry, ...]]:
        """A unit kept before the cut: pinned ones in full, others at least capped."""
        return self.forms.capped(self.units[position])

    def _total(self, cut: int, clear: int) -> int:
        total = sum(map(self._cost_kept, self._kept_before(cut)))
        total += sum(self._old(position)[0] for position in range(cut, clear))
        capped = self.forms.capped
        total += sum(capped(unit)[0] for unit in self.units[clear : self.last])
        return total + self.forms.fresh(self.units[self.last])[0]

    def _old(self, position: int) -> tuple[int, tuple[ConversationEntry, ...]]:
        unit = self.units[position]
        return self.forms.capped(unit) if position in self.pins else self.forms.cleared(unit)

    def _fit(self, cut: int, clear: int, rung: int) -> Fit:
        kept = tuple(self._kept_before(cut))
        entries: list[ConversationEntry] = []
        for position in kept:
            entries.extend(self._kept(position)[1])
        for position in range(cut, clear):
            entries.extend(self._old(position)[1])
        capped = self.forms.capped
        for unit in self.units[clear : self.last]:
            entries.extend(capped(unit)[1])
        entries.extend(self.forms.fresh(self.units[self.last])[1])
        return Fit(entries, rung, cut, clear, kept, self.units[cut].start)

    def _squeeze(self) -> Fit | None:
        """Only the newest unit is left after the cut: shorten it, then give up the anchor."""
        last = self.units[self.last]
        for anchor in (self.anchor, None):
            self.anchor = anchor
            kept = self._kept_before(self.last)
            if anchor is None:
                kept = [position for position in kept if position in self.must]
            room = self.left - sum(map(self._cost_kept, kept))
            if self.last not in self.must and room >= 0:
                newest: tuple[ConversationEntry, ...] = ()
                cost, form = self.forms.fresh(last)
                if cost <= room:
                    newest = form
            else:
                cost, newest = self.forms.squeezed(last, room)
                if cost > room:
                    continue
            entries = [entry for position in kept for entry in self._kept(position)[1]]
            entries.extend(newest)
            return Fit(entries, 5, self.last, self.last, tuple(kept), last.start)
        return None
