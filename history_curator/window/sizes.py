"""The tokens of the units of a record, each worked out on first use."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from history_curator.units import Pairing

if TYPE_CHECKING:
    from history_curator.window.recap import Recap
    from history_curator.window.rendering import Renderer


class UnitSizes:
    """The tokens of units.

    Args:
        pairing: the units.
        offsets: cheap size, in characters, of everything recorded before each unit.
        renderer: renders units.
        recap: sizes the recap; None for no recap.
        cold: units before whose arrival the provider's cache went cold.
        preserve_last_n: so many newest entries always stay.
    """

    def __init__(
        self,
        pairing: Pairing,
        offsets: Sequence[int],
        renderer: Renderer,
        recap: Recap | None,
        *,
        cold: Collection[int] = (),
        preserve_last_n: int = 0,
    ) -> None:
        self.pairing = pairing
        self.offsets = offsets
        self.cold = cold
        self.preserve_last_n = preserve_last_n
        self.strips_reasoning = renderer.profile.strips
        self._renderer = renderer
        self._recap = recap
        self._full = [-1] * len(pairing.units)
        self._without_reasoning = [-1] * len(pairing.units)
        self._pinned_full, self._pinned_bare = [0], [0]  # of so many pinned units
        hoists = renderer.profile.hoists
        self._system = [] if hoists else [index for index, _ in pairing.system]

    def full(self, position: int) -> int:
        """Return the tokens of a unit as it is first shown."""
        size = self._full[position]
        if size < 0:
            size = self._renderer.render_full(self.pairing.units[position]).tokens
            size = self._full[position] = size + self._bridge(position)
        return size

    def without_reasoning(self, position: int) -> int:
        """Return the tokens of a unit once something before it changed."""
        size = self._without_reasoning[position]
        if size < 0:
            unit = self.pairing.units[position]
            size = self._renderer.render_without_reasoning(unit).tokens
            size = self._without_reasoning[position] = size + self._bridge(position)
        return size

    def arrival(self, position: int) -> int:
        """Return the tokens of a unit, with the system entries right before it."""
        return self.full(position) + self.late_system(position - 1, position)

    def late_system(self, first: int, last: int) -> int:
        """Return the tokens of system entries that keep their place, from one unit up to another."""
        units, system = self.pairing.units, self._system
        if not system or first < 0 or last <= first or system[-1] < units[0].start:
            return 0
        low, high = bisect_left(system, units[first].start), bisect_left(system, units[last].start)
        facts, count = self._renderer.record.facts, self._renderer.memo.count
        return sum([count(facts[index]) for index in system[low:high]])

    def count_pinned(self, first: int, last: int, reasoning_from: int) -> int:
        """Return the tokens of the pinned units from one up to another, counted among them."""
        pins = self.pairing.pinned
        middle = max(first, min(last, bisect_left(pins, reasoning_from)))
        while len(self._pinned_full) <= last:
            unit = pins[len(self._pinned_full) - 1]
            self._pinned_full.append(self._pinned_full[-1] + self.full(unit))
        while len(self._pinned_bare) <= middle:
            unit = pins[len(self._pinned_bare) - 1]
            self._pinned_bare.append(self._pinned_bare[-1] + self.without_reasoning(unit))
        bare = self._pinned_bare[middle] - self._pinned_bare[first] if middle > first else 0
        return bare + self._pinned_full[last] - self._pinned_full[middle]

    def recap(self, cutoff: int, available: int) -> int:
        """Return the tokens to set aside for the recap of the units before a cutoff."""
        return 0 if self._recap is None else self._recap.size(cutoff, available)

    def _bridge(self, position: int) -> int:
        """Return the tokens of what a rule puts before a user entry that follows an exchange."""
        units = self.pairing.units
        if not position or units[position].kind != "user":
            return 0
        if units[position - 1].kind != "exchange":
            return 0
        last = units[position - 1].entries[-1]
        bridge = self._renderer.profile.bridge(last, units[position].head)
        return self._renderer.memo.counter.count_entry(bridge) if bridge else 0
