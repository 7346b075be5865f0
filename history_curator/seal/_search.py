"""One search for a fit: where the lines lie, what stays before them, in which form."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from history_curator.handles import recall_hint, span_handle
from history_curator.model import ConversationEntry, MessageRole
from history_curator.seal._fit import Fit
from history_curator.seal._forms import Forms
from history_curator.seal._grid import line_at_or_after
from history_curator.seal._lines import Lines
from history_curator.structure import Timeline

if TYPE_CHECKING:
    from history_curator.seal._ladder import Ladder

VERBATIM_SHARE = 0.50
"""Share of the room for units in full; the rest is for cleared ones."""
TYPICAL_CHARACTERS_PER_TOKEN = 5
"""A cap that leaves more characters a token than this is not tried: it would only be counted."""
FRESH_RESERVE = 0.08
"""Share of the room kept for the newest unit at least; it takes more where there is more."""
ANCHOR_SHARE = 0.25
"""The first user entry stays unless it takes more than this share of the room."""


class Stable:
    """The part of a view that only grows while the lines stay: all but the newest unit."""

    __slots__ = ("counted", "entries", "key", "tokens")

    def __init__(self, key: object, counted: int) -> None:
        self.key = key
        self.counted = counted
        self.entries: list[ConversationEntry] = []
        self.tokens = 0

    def add(self, form: tuple[int, Sequence[ConversationEntry]]) -> None:
        self.tokens += form[0]
        self.entries.extend(form[1])


class Search:
    """One search for a fit. Positions are positions of units."""

    def __init__(self, ladder: Ladder, timeline: Timeline, left: int, must: set[int]) -> None:
        self.ladder = ladder
        self.forms = ladder.forms
        self.timeline = timeline
        self.units = timeline.pairing.units
        self.users = timeline.pairing.users
        self.must = must
        self.left = left
        self.last = len(self.units) - 1
        self.anchor: int | None = None
        if self.users and self._kept(self.users[0])[0] <= left * ANCHOR_SHARE:
            self.anchor = self.users[0]

    def run(self) -> Fit | None:
        """Return the first fit on the ladder, or None."""
        for level, forms in enumerate(self.ladder.levels):
            if self._fits_capped(level, forms):
                self.forms = forms
                return self._fit(0, 0, 2)
        lines = self._lines()
        cut, clear = lines.place(self.units)
        if cut == 0:
            clear = lines.relax(self.units, clear, self.left - int(self.left * FRESH_RESERVE))
        cell = self.ladder.cell
        fit = self._fit(cut, clear, 3 if cut == 0 else 4)
        while fit.tokens > self.left:
            if cut < clear:
                cut = line_at_or_after(self.units, cut + 1, clear, cell)
            elif clear < self.last:
                clear = cut = line_at_or_after(self.units, clear + 1, self.last, cell)
            else:
                return self._squeeze()
            fit = self._fit(cut, clear, 4)
        return fit

    def _fits_capped(self, level: int, forms: Forms) -> bool:
        """Whether capping alone is enough. What failed once fails for good: histories grow."""
        memory = self.timeline.memory
        key = (forms.key, self.left, self.timeline.pairing.revision)
        failed = memory.setdefault("failed", {})
        if failed.get(level) == key:
            return False
        settled = self.units[: self.last]
        characters = self.left * TYPICAL_CHARACTERS_PER_TOKEN
        room = self.left
        for unit in reversed(settled):
            characters -= forms.size(unit)
            if characters < 0:
                failed[level] = key
                return False
        for unit in reversed(settled):
            room -= forms.capped(unit)[0]
            if room < 0:
                failed[level] = key
                return False
        return room >= forms.capped(self.units[self.last])[0]

    def _lines(self) -> Lines:
        pinned = frozenset(self.timeline.pinned)
        fixed = set(pinned)
        if self.anchor is not None:
            fixed.add(self.anchor)
        base = self.left - sum(self._kept(position)[0] for position in fixed)
        base -= int(self.left * FRESH_RESERVE)
        cell, revision = self.ladder.cell, self.timeline.pairing.revision
        key = (self.forms.key, cell, base, pinned, revision)
        memory = self.timeline.memory
        lines = memory.get("lines")
        if lines is None or lines[0] != key:
            verbatim = int(base * VERBATIM_SHARE)
            lines = memory["lines"] = (
                key,
                Lines(self.forms, self.ladder.cell, verbatim, base - verbatim, pinned),
            )
        found: Lines = lines[1]
        return found

    def _kept_before(self, cut: int) -> tuple[int, ...]:
        """Units before the cut that stay: the anchor, what must stay, and the cut's own turn."""
        kept = {position for position in self.must if position < cut}
        if self.anchor is not None and self.anchor < cut:
            kept.add(self.anchor)
        if self.units[cut].kind != "user":
            governing = bisect_left(self.users, cut) - 1
            if governing >= 0:
                user = self.users[governing]
                if self._kept(user)[0] <= self.left * ANCHOR_SHARE:
                    kept.add(user)
        return tuple(sorted(kept))

    def _kept(self, position: int) -> tuple[int, tuple[ConversationEntry, ...]]:
        """The form of a unit that stays before the cut."""
        return self.forms.capped(self.units[position])

    def _fit(self, cut: int, clear: int, rung: int) -> Fit:
        kept = self._kept_before(cut)
        key = (self.forms.key, cut, clear, kept, self.timeline.pairing.revision)
        memory = self.timeline.memory
        stable: Stable | None = memory.get("stable")
        if stable is None or stable.key != key or stable.counted > self.last:
            self._forget_before(cut)
            stable = memory["stable"] = self._settle(key, cut, clear, kept)
        capped = self.forms.capped
        for unit in self.units[stable.counted : self.last]:
            stable.add(capped(unit))
        stable.counted = self.last
        newest = self._newest(self.left - stable.tokens)
        return Fit(
            [*stable.entries, *newest[1]],
            stable.tokens + newest[0],
            rung,
            cut,
            clear,
            self.units[cut].start,
            len(stable.entries),
            len(stable.entries) + self._lasting(newest[1]),
            self.units[clear].start,
            self.forms.cap,
            key,
        )

    def _forget_before(self, cut: int) -> None:
        """Free the forms of units that the cut has passed, so that a long record stays small."""
        memory = self.timeline.memory
        for unit in self.units[memory.get("forgotten", 0) : cut]:
            unit.cache = None
        memory["forgotten"] = cut

    def _newest(self, room: int) -> tuple[int, tuple[ConversationEntry, ...]]:
        """The newest unit in what room there is, rather than moving the lines for one call."""
        unit = self.units[self.last]
        fresh = self.forms.fresh(unit)
        if fresh[0] <= room or self.forms.capped(unit)[0] > room:
            return fresh
        return self.forms.squeezed(unit, room)

    def _lasting(self, newest: Sequence[ConversationEntry]) -> int:
        """How many entries of the newest unit keep their form when it is no longer the newest."""
        later = self.forms.capped(self.units[self.last])[1]
        for count, (now, then) in enumerate(zip(newest, later, strict=False)):
            if now is not then and now != then:
                return count
        return len(newest)

    def _note(self, cut: int, kept: tuple[int, ...]) -> ConversationEntry:
        """Where the units before the cut stood: how many entries, and how to get them back."""
        first = next(position for position in range(cut) if position not in kept)
        start, end = self.units[first].start, self.units[cut].start
        left = self.timeline.entries[start:end]
        handle = span_handle(left)
        return ConversationEntry(
            role=MessageRole.USER,
            content=f"[{len(left)} earlier messages are left out; {recall_hint(handle)}]",
            handle=handle,
            sequence=start,
            origin="note",
            action="inserted",
            reason="names the handle of what the cut left out",
        )

    def _settle(self, key: object, cut: int, clear: int, kept: tuple[int, ...]) -> Stable:
        """The part before the clear line, in the forms it has there."""
        stable = Stable(key, clear)
        for position in kept:
            stable.add(self._kept(position))
        if self.ladder.recall and len(kept) < cut:
            note = self._note(cut, kept)
            stable.add((self.ladder.count(note), (note,)))
        pinned = self.timeline.pinned
        for position in range(cut, clear):
            unit = self.units[position]
            whole = position in pinned
            stable.add(self.forms.capped(unit) if whole else self.forms.cleared(unit))
        return stable

    def _squeeze(self) -> Fit | None:
        """Only the newest unit is left after the cut: shorten it, then give up the anchor."""
        last = self.units[self.last]
        for anchor in (self.anchor, None):
            self.anchor = anchor
            kept = self._kept_before(self.last)
            if anchor is None:
                kept = tuple(position for position in kept if position in self.must)
            room = self.left - sum(self._kept(position)[0] for position in kept)
            newest: tuple[int, Sequence[ConversationEntry]] = (0, ())
            if self.last in self.must:
                newest = self.forms.squeezed(last, room)
            elif self.forms.fresh(last)[0] <= room:
                newest = self.forms.fresh(last)
            if newest[0] > room:
                continue
            entries = [entry for position in kept for entry in self._kept(position)[1]]
            tokens = self.left - room + newest[0]
            return Fit(
                [*entries, *newest[1]],
                tokens,
                5,
                self.last,
                self.last,
                last.start,
                steady=len(entries) + self._lasting(newest[1]),
                clear_start=last.start,
                cap=self.forms.cap,
            )
        return None
