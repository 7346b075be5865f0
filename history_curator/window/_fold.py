"""The fold: where the cut lies, found by going once over the units.

    [system] [heads] [recap] [units as they were first shown …] [newest unit]

Between compactions nothing that was shown changes: the next view is this one and what is new. When the
newest unit does not fit, the cut compactions once.

Where a track goes along, the room is what the provider's own reports leave, and the cut also compactions
when the provider's cache has gone cold: everything is written anew then anyway.

Where the cut lies follows from the units alone, so it is the same after any restart of the program,
and a cold start does not go over the whole record: behind the unit at which a new span of `SPAN`
budgets begins, the view is the one that a jump at that unit leaves, whether there was one or not.
A jump that did happen there is not followed by a second.
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from operator import attrgetter
from typing import NamedTuple

from history_curator.caching import NOTHING, Facts, State, Step, Track, facts_of
from history_curator.window._forms import Form, Forms
from history_curator.window._jump import Cut, Jump
from history_curator.window._recap import Recap
from history_curator.timeline import Timeline, Unit

COMPACT_TO = 0.70
"""How full a jump leaves the view."""
COLD = 0.35
"""How full, of that, a jump leaves it for which the cache was cold."""
OPENING = 64
"""Units at the start of a history among which its first report is looked for."""
SPAN = 8
"""Budgets of cheap size, four characters a token, that a cold start goes back at the most; twice
that where a span began since the request before."""
_DEEPER = 4
"""How often a jump is laid again where what it leaves may not fit; each time less does."""

_offset = attrgetter("offset")
_end = attrgetter("end")


class Reached(NamedTuple):
    """What a fold comes to after some units.

    Attributes:
        end: how many units it went over.
        cut: where their view begins.
        size: tokens of all that is shown, but for the system entries.
        first: the first unit that may be sent: a barrier, or 0.
        whole: tokens of everything since then, where it may still fit.
        room: tokens for everything but the system entries.
        state: what the track knows; None without one.
        before: what was reached for the request before, which the newest answer answers.
    """

    end: int = 0
    cut: Cut = Cut()
    size: int = 0
    first: int = 0
    whole: float = 0
    room: int = 0
    state: State | None = None
    before: Reached | None = None

    def shown(self, room: int) -> Reached:
        """Return what is shown in a room: everything that may be sent, where that fits."""
        if max(self.cut.at, self.cut.bare) > self.first and self.whole <= room:
            return self._replace(cut=Cut(self.first, bare=self.first), size=int(self.whole))
        return self


class Fold:
    """The cut of one timeline in one room; it goes on from where it was when the timeline grows.

    Args:
        timeline: the units.
        forms: what they look like and cost.
        recap: writes what left; None for no recap.
        budget: the budget, in tokens; the cut compactions at least every `SPAN` of them.
        room: tokens for everything but the system entries.
        compact_to: how full a jump leaves the view.
        preserve_last_n: the last n entries are never cut off.
    """

    def __init__(
        self,
        timeline: Timeline,
        forms: Forms,
        recap: Recap | None,
        *,
        budget: int,
        room: int,
        compact_to: float,
        preserve_last_n: int = 0,
    ) -> None:
        self.timeline = timeline
        self.forms = forms
        self.room = room
        self._recap = recap
        self._compact_to = compact_to
        self._track: Track | None = None
        self._told: tuple[int, int] | None = None
        self._span = SPAN * budget * 4
        self._jump = Jump(timeline, forms, recap, preserve_last_n)
        self._reset()

    def _reset(self) -> None:
        self._settled = Reached()  # all units but the newest
        self._latest: tuple[object, Reached] = (None, Reached())  # the newest unit, and with it
        self._written: dict[Cut, Form | None] = {}  # the recaps of this cut and of the one before
        self._disturbed = len(self.timeline.pairing.changed_units)
        self._jump.forget()

    def reach(self, track: Track | None = None) -> Reached:
        """Return what all units there are now come to.

        Args:
            track: what goes along; the fold is made anew when it knows more about the past, or
                when something else is sent beside the units.
        """
        units = self.timeline.pairing.units
        told, self._track = self._heard(track), track
        if self._disturbed != len(self.timeline.pairing.changed_units) or told != self._told:
            self._reset()
        last = len(units) - 1
        if last < 0:
            return Reached()
        newest, latest = self._latest
        if self._settled.end < last and newest is units[self._settled.end]:
            self._settled = latest
        if self._settled.end < last:
            # Not over what no longer matters: there may be reasoning in it that is refused.
            self._settled = max(self._settled, self._beginning(), key=_end)
        while self._settled.end < last:
            self._settled = self._step(self._settled)
        if newest is not units[last]:
            self._latest = (units[last], self._step(self._settled))
            self._told = self._heard(track)
        return self._latest[1]

    def _heard(self, track: Track | None) -> tuple[int, int] | None:
        """How much the track was told about the units gone over, and what is sent beside them."""
        newest = self._latest[0]
        if track is None or not isinstance(newest, Unit):
            return self._told
        return track.seen(_place_of(newest)), track.overhead

    def _beginning(self) -> Reached:
        """The last place before the request before this one where nothing before it matters."""
        units, answer = self.timeline.pairing.units, self.timeline.pairing.newest_answer
        known = max(0, answer - 1) if units[answer].kind != "user" else len(units) - 1
        barrier = self._jump.barrier_at(known)
        start = units[max(0, known - 1)].offset // self._span * self._span
        at = bisect_left(units, start, hi=known, key=_offset) + 1 if start else 0
        at = at if at > barrier + 1 else barrier
        return Reached(at, whole=inf if at else 0)

    def _restarts(self, at: int) -> bool:
        """Whether what is shown from a unit on follows from the units just before it."""
        if at < 2 or self._jump.barrier_at(at) >= at - 1:
            return False
        before, crossed = self.timeline.pairing.units[at - 2 : at]
        return before.offset // self._span != crossed.offset // self._span

    def _step(self, past: Reached) -> Reached:
        """Add one more unit."""
        at, unit = past.end, self.timeline.pairing.units[past.end]
        before = past.before if unit.kind == "user" else past._replace(before=None)
        barrier, restart = at > 0 and self._jump.barrier_at(at) == at, self._restarts(at)
        state = self._known(past, anew=barrier or restart)
        room = self.room if state is None else state.room
        cut, size, first, whole = past.cut, past.size, past.first, past.whole
        if barrier:
            cut, size, first, whole = Cut(at, known=at, bare=at), 0, at, 0
        elif restart:
            newest, goal = self._jump.arrives(at - 1), int(room * self._compact_to)
            cut, size = self._jump.lay(at - 1, newest, 0, room, goal)
            size, first, whole = size + newest, self._jump.barrier_at(at), inf
        shown = Reached(at, cut, size, first, whole, room, state, before)
        return self._added(shown, self._jump.arrives(at))

    def _added(self, past: Reached, cost: int) -> Reached:
        """Put a unit behind what is shown; the cut compactions where it does not fit."""
        at, cut, size, first, whole, room, state, before = past
        low, full = self._compact_to, size + cost > room
        if state is not None and state.cold and low < 1.0:
            low *= COLD
        cold = low < self._compact_to and size + cost > low * room
        whole += cost
        if first < at and (full or cold):
            laid, left, after = self._laid(past, cost, int(room * low))
            if full or laid.at > cut.at:
                if state is not None and after is not None:
                    state = after
                    if state.meter is not None or not full:
                        whole = inf  # it may seem to fit again; the cut does not move back
                cut, size = laid, left
        return Reached(at + 1, cut, size + cost, first, whole, room, state, before)

    def _laid(self, past: Reached, cost: int, goal: int) -> tuple[Cut, int, State | None]:
        """Where a jump lays the cut, the tokens it leaves, and what the track knows then.

        What leaves is as uncertain as what comes, so it goes deeper where the rest may not fit.
        """
        at, track, state = past.end, self._track, past.state
        cut, left = self._jump.lay(at, cost, past.cut.at, past.room, goal)
        if track is None or state is None:
            return cut, left, None
        after = track.compacted(state, past.size, left)
        for _ in range(_DEEPER):
            room = track.room_of(after)
            if left + cost <= room or cut.at == at:
                break
            cut, left = self._jump.lay(at, cost, past.cut.at, past.room, min(goal, room))
            after, goal = track.compacted(state, past.size, left), room
        return cut, left, after

    def _known(self, past: Reached, *, anew: bool) -> State | None:
        """What the track knows before the next unit."""
        track, units, at = self._track, self.timeline.pairing.units, past.end
        if track is None:
            return None
        if not anew:
            state, place = past.state or track.start(), _place_of(units[at])
            fitted = past.size <= track.room_of(state)
            return track.reach(state, place, past.size, _facts(units[at]), fitted=fitted)
        first = (units[at].offset // self._span - 1) * self._span
        begin = bisect_left(units, first, hi=at, key=_offset) if first > 0 else 0
        said = any(_facts(unit) is not NOTHING for unit in units[begin:at])
        if not said and not track.seen(_place_of(units[at])):
            return track.start(_place_of(units[at - 1]))
        opening = map(self._told_by, range(min(at, OPENING)))
        return track.restart(opening, map(self._told_by, range(begin, at)))

    def _told_by(self, at: int) -> Step:
        unit = self.timeline.pairing.units[at]
        return _place_of(unit), self._jump.arrives(at), _facts(unit)

    def pieces(self, cut: Cut, end: int) -> list[Form]:
        """Return what stands behind the system entries: heads, recap, and units in order."""
        units, forms = self.timeline.pairing.units, self.forms
        shown, bare = forms.shown, forms.bare
        pieces = [bare(units[at]) if at < cut.bare else shown(units[at]) for at in cut.heads]
        note = self._note(cut)
        if note is not None:
            pieces.append(note)
        if cut.at < cut.bare:
            pieces += map(bare, units[cut.at : min(cut.bare, end)])
        pieces += map(shown, units[max(cut.at, cut.bare) : end])
        return pieces

    def _note(self, cut: Cut) -> Form | None:
        """The recap of a cut."""
        if self._recap is None or not cut.recap:
            return None
        if cut not in self._written:
            end = max(cut.known, cut.at)
            entry = self._recap.entry(self.timeline, cut.at, cut.heads, end, cut.recap)
            form = None if entry is None else self.forms.made((entry,), ())
            self._written = dict([*list(self._written.items())[-1:], (cut, form)])
        return self._written[cut]


def _place_of(unit: Unit) -> int:
    """The position of the message that a unit begins with."""
    return unit.head.root.sequence


def _facts(unit: Unit) -> Facts:
    if unit.facts is None:
        unit.facts = facts_of(unit.entries)
    found: Facts = unit.facts
    return found
