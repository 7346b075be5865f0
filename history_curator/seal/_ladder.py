"""The ladder: what to lose, least first, until the view fits its budget.

1. Everything, when it fits.
2. Oversized tool results capped to head and tail.
3. Old tool results cleared to a placeholder, before the *clear line*.
4. Oldest units dropped, before the *cut line*; the first thing the user said stays.
5. The newest exchange squeezed.
6. `BudgetUnsatisfiableError`.

Both lines lie on the grid (see `_grid`), and the cut line is a function of the clear line alone,
so one jump moves both and between jumps the view only grows at its end. What is remembered
between calls only saves work: the same history gives the same view.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from history_curator.errors import BudgetUnsatisfiableError
from history_curator.handles import recall_hint, span_handle
from history_curator.model import ConversationEntry, MessageRole
from history_curator.seal._forms import Forms
from history_curator.seal._grid import (
    CHARACTERS_PER_TOKEN,
    SMALL_BUDGET,
    cell_size,
    line_at_or_after,
)
from history_curator.seal._lines import Lines
from history_curator.structure import Timeline, flatten
from history_curator.tokens import TokenCounter

VERBATIM_SHARE = 0.50
"""Share of the room for units in full; the rest is for cleared ones."""
CAP_SHARES = (0.20, 0.10, 0.05)
"""One tool result may take this share of the budget before it is capped: the first of these that
makes everything fit, else the last. The newest unit, which the model is about to answer, may
always take the first."""
SMALL_CAP_SHARE = 0.02
"""The last share of a small budget, where room is dearest."""
MOST_CHARACTERS_PER_TOKEN = 12
"""No conversation has more characters a token, overhead included: a longer one is not counted."""
TYPICAL_CHARACTERS_PER_TOKEN = 5
"""A cap that leaves more characters a token than this is not tried: it would only be counted."""
FRESH_RESERVE = 0.08
"""Share of the room kept for the newest unit at least; it takes more where there is more."""
ANCHOR_SHARE = 0.25
"""The first user entry stays unless it takes more than this share of the room."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The outcome of the ladder.

    Attributes:
        entries: the view, before the provider's profile has seen it.
        tokens: what they cost.
        rung: how far down the ladder it went, 1 to 5.
        cut: position of the first unit after the cut line.
        clear: position of the first unit in full.
        start: position in the record of the first entry after the cut line.
        settled: how many leading entries stay as they are while the lines do; None when unknown.
        steady: how many leading entries the next view repeats while the lines stay; None for all.
        clear_start: position in the record of the first entry after the clear line.
        cap: characters a tool result is capped at, but for the newest unit's.
        lines: names the lines; views with the same name have the same settled entries.
    """

    entries: list[ConversationEntry]
    tokens: int
    rung: int
    cut: int = 0
    clear: int = 0
    start: int = 0
    settled: int | None = None
    steady: int | None = None
    clear_start: int = 0
    cap: int | None = None
    lines: object = None


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
        shares = CAP_SHARES if max_tokens > SMALL_BUDGET else (*CAP_SHARES, SMALL_CAP_SHARE)
        caps = [max(256, int(max_tokens * share) * CHARACTERS_PER_TOKEN) for share in shares]
        self.levels = [Forms(counter, cap, caps[0], recall=recall) for cap in caps]
        self.forms = self.levels[-1]
        self.recall = recall
        self.count = counter.count_entry

    def fit(self, timeline: Timeline, room: int, preserve_last_n: int | None = None) -> Fit:
        """Return the view of a timeline in at most `room` tokens.

        Raises:
            BudgetUnsatisfiableError: when what must stay does not fit.
        """
        units = timeline.pairing.units
        system = [entry for _, entry in timeline.pairing.system]
        heading = sum(map(self.count, system))
        left = room - heading
        if left >= 0:
            whole = self._full(timeline, left)
            if whole is not None:
                return Fit(flatten(units, timeline.pairing.system), heading + whole, 1)
        must = _must_keep(timeline, preserve_last_n)
        found = _Search(self, timeline, left, must).run() if units and left >= 0 else None
        if found is None:
            raise self._refusal(timeline, room, must)
        tokens = heading + found.tokens
        return replace(
            found,
            entries=system + found.entries,
            tokens=tokens,
            settled=None if found.settled is None else len(system) + found.settled,
            steady=None if found.steady is None else len(system) + found.steady,
        )

    def _full(self, timeline: Timeline, left: int) -> int | None:
        """Tokens of everything, or None when it is more than what is left.

        What did not fit without its newest unit does not fit later: histories grow. A long one is
        not even counted.
        """
        pairing = timeline.pairing
        units, full = pairing.units, self.forms.full
        if not units:
            return 0
        key = (self.forms.key, left, pairing.revision)
        if timeline.memory.get("over") == key or pairing.size > left * MOST_CHARACTERS_PER_TOKEN:
            return None
        room = left
        for position in range(len(units) - 2, -1, -1):
            room -= full(units[position], room)
            if room < 0:
                timeline.memory["over"] = key
                return None
        newest = full(units[-1], room)
        return left - room + newest if newest <= room else None

    def _refusal(self, timeline: Timeline, room: int, must: set[int]) -> BudgetUnsatisfiableError:
        units = timeline.pairing.units
        irreducible = [
            (index, "system", self.count(entry)) for index, entry in timeline.pairing.system
        ]
        for position in sorted(must):
            unit = units[position]
            cost = self.forms.cleared(unit)[0]
            irreducible.append((unit.start, str(unit.head.role), cost))
        needed = sum(cost for _, _, cost in irreducible)
        return BudgetUnsatisfiableError(max(needed, room + 1), room, irreducible)


def _must_keep(timeline: Timeline, preserve_last_n: int | None) -> set[int]:
    """Positions of units that no rung may drop."""
    units = timeline.pairing.units
    must = set(timeline.pinned)
    if timeline.pairing.users:
        must.add(timeline.pairing.users[-1])
    if units and units[-1].kind != "assistant":
        must.add(len(units) - 1)
    wanted = {id(entry) for entry in timeline.entries[-preserve_last_n:]} if preserve_last_n else ()
    position = len(units)
    while wanted and position > 0:
        position -= 1
        found = {id(entry) for entry in (units[position].head, *units[position].results)} & wanted
        if found:
            must.add(position)
            wanted -= found
    return must


class _Stable:
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


class _Search:
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
        stable: _Stable | None = memory.get("stable")
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

    def _settle(self, key: object, cut: int, clear: int, kept: tuple[int, ...]) -> _Stable:
        """The part before the clear line, in the forms it has there."""
        stable = _Stable(key, clear)
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
