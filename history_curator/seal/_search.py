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
from history_curator.structure import Body, Timeline

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


class Plan:
    """What searches in one timeline, for the same room, find again instead of working it out.

    Attributes:
        key: names the room and what else the plan depends on.
        failed: how many caps are too large for everything to fit under, for good.
        anchor: position of the first thing the user said, if it stays.
        lines: finds the lines.
        kept: units that stay before a cut, with what they depend on.
    """

    __slots__ = ("anchor", "failed", "kept", "key", "lines")

    def __init__(self, key: object) -> None:
        self.key = key
        self.failed = 0
        self.anchor: int | None = None
        self.lines: Lines | None = None
        self.kept: tuple[object, tuple[int, ...]] = (None, ())


class Search:
    """One search for a fit. Positions are positions of units; tokens are without the heading's."""

    def __init__(
        self,
        ladder: Ladder,
        timeline: Timeline,
        left: int,
        must: set[int],
        heading: Sequence[ConversationEntry],
    ) -> None:
        self.ladder = ladder
        self.heading = heading
        self.forms = ladder.forms
        self.timeline = timeline
        self.units = timeline.pairing.units
        self.users = timeline.pairing.users
        self.must = must
        self.left = left
        self.last = len(self.units) - 1
        self.plan = self._plan()
        self.anchor = self.plan.anchor

    def _plan(self) -> Plan:
        timeline, forms, first = self.timeline, self.forms, self.users[:1]
        revision, cell = timeline.pairing.revision, self.ladder.cell
        key = (forms.key, cell, self.left, first, len(timeline.pinned), revision)
        plan: Plan | None = timeline.memory.get("plan")
        if plan is None or plan.key != key:
            plan = timeline.memory["plan"] = Plan(key)
            if first and self._kept(first[0])[0] <= self.left * ANCHOR_SHARE:
                plan.anchor = first[0]
        return plan

    def run(self) -> Fit | None:
        """Return the first fit on the ladder, or None."""
        forms = self._first_cap()
        if forms is not None:
            self.forms = forms
            return self._fit(0, 0, 2)
        lines = self._lines()
        cut, clear = lines.place()
        if cut == 0:
            clear = lines.relax(clear, self.left - int(self.left * FRESH_RESERVE))
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

    def _first_cap(self) -> Forms | None:
        """The largest cap under which everything fits, if there is one."""
        plan = self.plan
        for level in range(plan.failed, len(self.ladder.levels)):
            forms = self.ladder.levels[level]
            settled = self._settled_tokens(forms)
            if settled is None:
                # What fails without the newest unit fails for good: histories only grow.
                if level == plan.failed:
                    plan.failed += 1
            elif settled + forms.capped(self.units[self.last])[0] <= self.left:
                return forms
        return None

    def _settled_tokens(self, forms: Forms) -> int | None:
        """Tokens of all capped units but the newest, or None when there is no room for them."""
        settled = self.units[: self.last]
        characters, room = self.left * TYPICAL_CHARACTERS_PER_TOKEN, self.left
        for unit in reversed(settled):
            characters -= forms.size(unit)
            if characters < 0:
                return None
        for unit in reversed(settled):
            room -= forms.capped(unit)[0]
            if room < 0:
                return None
        return self.left - room

    def _lines(self) -> Lines:
        lines = self.plan.lines
        if lines is None:
            pinned = frozenset(self.timeline.pinned)
            fixed = pinned if self.anchor is None else pinned | {self.anchor}
            base = self.left - sum(self._kept(position)[0] for position in fixed)
            base -= int(self.left * FRESH_RESERVE)
            verbatim = int(base * VERBATIM_SHARE)
            lines = self.plan.lines = Lines(
                self.units,
                self.forms,
                self.ladder.cell,
                verbatim=verbatim,
                cleared=base - verbatim,
                pinned=pinned,
            )
        return lines

    def _kept_before(self, cut: int) -> tuple[int, ...]:
        """Units before the cut that stay: the anchor, what must stay, and the cut's own turn."""
        must = [position for position in self.must if position < cut]
        key = (cut, self.anchor, must)
        if self.plan.kept[0] == key:
            return self.plan.kept[1]
        kept = set(must)
        if self.anchor is not None and self.anchor < cut:
            kept.add(self.anchor)
        if self.units[cut].kind != "user":
            governing = bisect_left(self.users, cut) - 1
            if governing >= 0:
                user = self.users[governing]
                if self._kept(user)[0] <= self.left * ANCHOR_SHARE:
                    kept.add(user)
        found = tuple(sorted(kept))
        self.plan.kept = (key, found)
        return found

    def _kept(self, position: int) -> tuple[int, tuple[ConversationEntry, ...]]:
        """The form of a unit that stays before the cut."""
        return self.forms.capped(self.units[position])

    def _fit(self, cut: int, clear: int, rung: int) -> Fit:
        kept = self._kept_before(cut)
        key = (self.forms.key, cut, clear, kept, self.timeline.pairing.revision)
        memory = self.timeline.memory
        body: Body | None = memory.get("body")
        if body is None or body.key != key or body.counted > self.last:
            self._forget_before(cut)
            body = memory["body"] = self._settle(key, cut, clear, kept)
        if body.counted < self.last:
            body.add(*map(self.forms.capped, self.units[body.counted : self.last]))
            body.counted = self.last
        tokens, newest = self._newest(self.left - body.tokens)
        return Fit(
            [*self.heading, *body.entries, *newest],
            body.tokens + tokens,
            rung,
            cut=cut,
            clear=clear,
            start=self.units[cut].start,
            clear_start=self.units[clear].start,
            cap=self.forms.cap,
            body=body,
            lead=len(self.heading),
            newest=newest,
            later=self.forms.capped(self.units[self.last])[1],
        )

    def _forget_before(self, cut: int) -> None:
        """Free the forms of units that the cut has passed, so that a long record stays small."""
        memory = self.timeline.memory
        lines = self.plan.lines
        reached = cut if lines is None else min(cut, lines.reached)
        for unit in self.units[memory.get("forgotten", 0) : cut]:
            unit.forget()
        memory["forgotten"] = reached

    def _newest(self, room: int) -> tuple[int, tuple[ConversationEntry, ...]]:
        """The newest unit in what room there is, rather than moving the lines for one call."""
        unit = self.units[self.last]
        fresh = self.forms.fresh(unit)
        if fresh[0] <= room or self.forms.capped(unit)[0] > room:
            return fresh
        return self.forms.squeezed(unit, room)

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

    def _settle(self, key: object, cut: int, clear: int, kept: tuple[int, ...]) -> Body:
        """The part before the clear line, in the forms it has there."""
        body = Body(key, clear)
        body.add(*map(self._kept, kept))
        if self.ladder.recall and len(kept) < cut:
            note = self._note(cut, kept)
            body.add((self.ladder.count(note), (note,)))
        body.head = len(body.entries)
        cleared, capped, pinned = self.forms.cleared, self.forms.capped, self.timeline.pinned
        body.add(
            *[
                capped(unit) if pinned and position in pinned else cleared(unit)
                for position, unit in enumerate(self.units[cut:clear], cut)
            ]
        )
        return body

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
                [*self.heading, *entries, *newest[1]],
                tokens,
                5,
                cut=self.last,
                clear=self.last,
                start=last.start,
                clear_start=last.start,
                cap=self.forms.cap,
                newest=newest[1],
                later=self.forms.capped(last)[1],
            )
        return None
