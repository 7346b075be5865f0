"""What goes along with a fold: how much room the provider leaves, and whether its cache is cold.

A view is a fold over the units of a history. A track goes along with it: before each unit is
added it takes what was reported for the request that ended there (`_counts`), and when it was said
(`_clock`). Each step returns a new state and changes none, so a fold can go on from any of them.
All of it follows from the history and from what was observed, never from the wall clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from history_curator.caching._clock import LATE, Clock
from history_curator.caching._counts import Counting, Counts
from history_curator.caching._facts import Facts, Step
from history_curator.caching._prices import sheet_for
from history_curator.tokens import Report
from history_curator.tokens._meter import Learned, Meter

__all__ = ["Along", "State", "Track"]

_LONG = 3600.0
"""Seconds a provider's longest cache lives; for one that does not say how long its own does."""


class State(NamedTuple):
    """What is known before a unit of the history.

    Attributes:
        room: counted tokens that heads, recap and units may take.
        place: position of the unit before.
        cold: whether the cache was cold when this unit came.
        clock: when the model answered last, and how long a prefix survives after that.
        counts: how the provider counts.
    """

    room: int
    place: int = -1
    cold: bool = False
    clock: Clock = Clock(_LONG)
    counts: Counts = Counts()

    @property
    def meter(self) -> Meter | None:
        """What foretells the provider's counts; None until something was reported."""
        return self.counts.meter


class Along(NamedTuple):
    """What is known of a conversation beside its messages when a view of it is asked for.

    Attributes:
        known: returns what is known about a model before this history, to be learned further; None
            where counts are taken as they are.
        limit: the provider's limit for this view, less what is to be left free.
        priced: what is sent beside all messages, as we count it: tools and priming.
        ttl: seconds a cached prefix survives, where the provider is known.
        observed: what was reported for views of this history that its messages do not carry, by
            how many entries the record had.
        cold: positions of the units for which a caller said that the cache was cold.
        shorter: what views took as we count them that were shorter than the cut leaves them, by
            how many entries the record had.
        idle: seconds since the last request, where the caller says so.
        note: told where the cache was cold because of that, to be remembered.
        asked: the model that gets the view, where it is known.
    """

    known: Callable[[str | None], Learned] | None
    limit: int = 0
    priced: int = 0
    ttl: float | None = None
    observed: Mapping[int, Report] = {}
    cold: Sequence[int] = ()
    shorter: Mapping[int, int] = {}
    idle: float | None = None
    note: Callable[[int], None] | None = None
    asked: str | None = None

    def track(
        self, limit: int, overhead: int, room: int, late: Sequence[tuple[int, int]] = ()
    ) -> Track:
        """Return what goes along with the fold of one budget."""
        return Track(self, limit=limit, overhead=overhead, room=room, late=late)

    def is_cold(self, state: State | None) -> bool:
        """Return whether the caller's word makes the newest unit one that finds a cold cache."""
        return (
            self.idle is not None
            and state is not None
            and state.place > 0
            and not state.cold
            and self.idle >= state.clock.ttl
        )

    def went_cold(self, place: int) -> Along:
        """Return the same, with the cache cold at a place; it is noted."""
        if self.note is not None:
            self.note(place)
        return self._replace(cold=(*self.cold, place))


class Track:
    """Goes along with a fold; see the module.

    Args:
        along: what is known of the conversation.
        limit: the provider's limit.
        overhead: what is sent beside the units, as we count it: system, tools, priming.
        room: counted tokens the units may take until something is reported or late comes.
        late: positions and counted tokens of what of it was not there from the start: system
            entries that came later and stand in front all the same.
    """

    def __init__(
        self,
        along: Along,
        *,
        limit: int,
        overhead: int,
        room: int,
        late: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._limit = limit
        self._late = [place for place, _ in late]
        self._costs = list(accumulate((tokens for _, tokens in late), initial=0))
        self.overhead = overhead - self._costs[-1]
        self._room = room
        self._ttl = _LONG if along.ttl is None else along.ttl
        self._observed = dict(along.observed)
        self._places = sorted(self._observed)
        self._cold = sorted(along.cold)
        self._shorter = along.shorter
        self._lengths = sorted(along.shorter)
        self._counting = None
        if along.known is not None:
            self._counting = Counting(along.known, along.asked, limit)

    def start(self, place: int = -1) -> State:
        """Return what is known before the first unit, or behind a place of which nothing is."""
        state = State(self._room - self._came(place), place, clock=Clock(self._ttl))
        return state if self._counting is None else self._counted(state, self._counting.start())

    def restart(self, opening: Iterable[Step], before: Iterable[Step]) -> State:
        """Return what is known at a place where the fold does not ask what it was before.

        What is hidden follows from the first prompt of the history, the ratio from how the
        prompts grew in the stretch just before.

        Args:
            opening: the units from the start of the history; gone through up to the first report.
            before: the units of the stretch just before the place.
        """
        first, size = self.start(), 0
        for start, cost, facts in opening:
            first = self.reach(first, start, size, facts)
            if first.meter is not None and first.meter.anchored:
                break
            size += cost
        state, heard = self.start(), list[tuple[int, Report | None]]()
        for start, cost, facts in before:
            report, sure = self._report(state.place, start, facts)
            usual = sure or report is None or report.counted is None
            heard.append((cost, report if usual else None))
            state = self._timed(self._lasting(state, report), start, facts)
        state = state._replace(cold=False)
        if self._counting is None:
            return state
        beside = self.overhead + self._came(state.place)
        return self._counted(state, self._counting.restart(first.counts, heard, beside))

    def reach(
        self, state: State, start: int, size: int, facts: Facts, *, fitted: bool = True
    ) -> State:
        """Go to the next unit, before it is added.

        Args:
            state: before the unit.
            start: position of its first entry in the record.
            size: counted tokens of what is shown before it.
            facts: what it says beside its text.
            fitted: whether that did fit; else less was shown, and a report that a message carries
                does not say how much.
        """
        report, sure = self._report(state.place, start, facts)
        known = sure or fitted or (report is not None and report.counted is not None)
        if report is not None and self._counting is not None and known:
            shown = self.overhead + self._came(start) + size
            heard = self._counting.heard(state.counts, report, shown, sure=sure)
            state = self._counted(state, heard)
        came = self._came(start) - self._came(state.place)
        state = state._replace(room=max(0, state.room - came)) if came else state
        return self._timed(self._lasting(state, report), start, facts)

    def compacted(self, state: State, before: int, after: int) -> State:
        """Return the state when ``after`` counted tokens are shown instead of ``before``."""
        if self._counting is None:
            return state
        beside = self.overhead + self._came(state.place)
        counts = self._counting.compacted(state.counts, beside + before, beside + after)
        return state._replace(counts=counts)

    def room_of(self, state: State) -> int:
        """Return the counted tokens that heads, recap and units may take by what is known now."""
        came = self._came(state.place)
        if state.meter is None:
            return self._room - came
        return max(0, state.meter.room(self._limit) - self.overhead - came)

    def _came(self, place: int) -> int:
        """What of the late system entries was there at a place."""
        return self._costs[bisect_left(self._late, place)]

    def seen(self, upto: int) -> int:
        """Return how many observations there are up to a position."""
        told = (self._places, self._cold, self._lengths)
        return sum(bisect_right(places, upto) for places in told)

    def _report(self, since: int, start: int, facts: Facts) -> tuple[Report | None, bool]:
        """What was reported for the request before a unit, and whether it is ours for certain."""
        place = _last_of(self._places, since, start)
        if place is not None:
            return self._observed[place], True
        report, place = facts.report, _last_of(self._lengths, since, start)
        if report is not None and place is not None:
            report = report._replace(counted=self._shorter[place])
        return report, False

    def _counted(self, state: State, counts: Counts) -> State:
        """The state with other counts, and the room that they leave."""
        unchanged = counts.meter is not None and counts.meter is state.meter
        state = state._replace(counts=counts)
        return state if unchanged else state._replace(room=self.room_of(state))

    def _lasting(self, state: State, report: Report | None) -> State:
        """How long the prefix survives that the reported request left in the cache."""
        if report is None:
            return state
        sheet = sheet_for(report.model)
        ttl = self._ttl if sheet is None or sheet.ttl is None else sheet.ttl
        if report.usage.cache_write_1h:
            ttl = max(_LONG, ttl)
        elif not report.usage.cache_write and report.usage.cache_read:
            ttl = max(state.clock.ttl, ttl)  # what was read is kept for as long as before
        return state._replace(clock=state.clock._replace(ttl=ttl))

    def _timed(self, state: State, start: int, facts: Facts) -> State:
        """The state at a unit: whether it finds a cold cache, by the clock or the caller's word."""
        said = None if facts.said is None else facts.said - LATE
        clock, cold = state.clock.passes(facts.answered, said)
        place = max(start, state.place)
        if bisect_right(self._cold, place) > bisect_right(self._cold, state.place):
            clock, cold = clock._replace(answered=None), True
        return state._replace(place=place, cold=cold, clock=clock)


def _last_of(places: Sequence[int], since: int, upto: int) -> int | None:
    """The last of some places behind one, up to another."""
    found = bisect_right(places, upto)
    return places[found - 1] if found and places[found - 1] > since else None
