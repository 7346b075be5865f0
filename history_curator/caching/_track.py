"""What a history says about its own requests: what was reported for them, and when they were sent.

A view is a fold over the units of a history. A track goes along with it: before each unit is
added it takes what was reported for the request that ended there, and says how much room there is
from then on and whether the provider's cache was cold. Each step returns a new state and changes
none, so a fold can go on from any of them. All of it follows from the history and from what was
observed, never from the wall clock.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from history_curator.caching._clock import time_of
from history_curator.caching._prices import sheet_for
from history_curator.dialects import model_of
from history_curator.model import ConversationEntry, MessageRole
from history_curator.tokens import Report, read_usage
from history_curator.tokens._families import kinship
from history_curator.tokens._meter import Learned, Meter

__all__ = [
    "NOTHING",
    "Along",
    "Facts",
    "State",
    "Step",
    "Track",
    "facts_of",
    "mark_of",
    "reported_on",
]

_LONG = 3600.0
"""Seconds a provider's longest cache lives; for one that does not say how long its own does."""
_LATE = 15.0
"""Seconds after its time in which a prefix was still found, in real logs."""
_SILENT = 1.7
"""How far beyond the limit a view may turn out when a model begins to count otherwise unsaid."""
_ODD = 1.25
"""A prompt so many times larger than expected is believed when the next one is so, too."""


class Facts(NamedTuple):
    """What one unit says beside its text.

    Attributes:
        report: what was reported for the request that its head answers.
        answered: when the model answered, in seconds since 1970.
        said: when the last of the others spoke: the user, or a tool.
    """

    report: Report | None = None
    answered: float | None = None
    said: float | None = None


NOTHING = Facts()


def reported_on(entry: ConversationEntry) -> Report | None:
    """Return the usage that an answer carries: of LangChain, LlamaIndex, or a dict with ``usage``.

    Example:
        >>> source = {"role": "assistant", "content": "hi", "usage": {"prompt_tokens": 9}}
        >>> answer = ConversationEntry(MessageRole.ASSISTANT, "hi", source=source)
        >>> reported_on(answer).usage.input
        9
    """
    if entry.role is not MessageRole.ASSISTANT:
        return None
    source = entry.root.source
    if source is None or isinstance(source, ConversationEntry):
        return None
    usage = read_usage(source)
    return None if usage is None else Report(usage, None, model_of(source))


def mark_of(entry: ConversationEntry) -> int:
    """Return a number that tells a record apart from others of its length, by its last entry."""
    text = entry.content or ""
    calls = "".join(call.arguments[:64] for call in entry.tool_calls or ())
    return zlib.crc32(
        f"{entry.role}{len(text)}{text[:64]}{text[-64:]}{calls}".encode("utf-8", "replace")
    )


def facts_of(entries: Sequence[ConversationEntry]) -> Facts:
    """Return what a unit says beside its text: a message, or a call with its results."""
    report = answered = said = None
    for entry in entries:
        moment = time_of(entry)
        if entry.role is MessageRole.ASSISTANT:
            report = report or reported_on(entry)
            answered = moment if moment is not None else answered
        elif moment is not None:
            said = moment if said is None else max(said, moment)
    found = Facts(report, answered, said)
    return NOTHING if found == NOTHING else found


Step = tuple[int, int, Facts]
"""A unit: its position in the record, its counted tokens, and what it says beside its text."""


class State(NamedTuple):
    """What is known before a unit of the history.

    Attributes:
        room: counted tokens that heads, ledger and units may take.
        place: position of the unit before.
        meter: how the provider counts; None until something was reported. Never changed.
        model: who was asked last.
        cold: whether the cache was cold when this unit came.
        answered: when the model answered last.
        late: whether it was cold since then already.
        ttl: seconds the cached prefix survives.
        gone: counted tokens that jumps have left out since the last report that was believed.
        odd: the view as we count it and its prompt, of a report just before that was not.
    """

    room: int
    place: int = -1
    meter: Meter | None = None
    model: str | None = None
    cold: bool = False
    answered: float | None = None
    late: bool = False
    ttl: float = _LONG
    gone: float = 0
    odd: tuple[int, int] | None = None


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
    idle: float | None = None
    note: Callable[[int], None] | None = None
    asked: str | None = None

    def track(self, limit: int, overhead: int, room: int) -> Track:
        """Return what goes along with the fold of one budget."""
        return Track(self, limit=limit, overhead=overhead, room=room)

    def is_cold(self, state: State | None) -> bool:
        """Return whether the caller's word makes the newest unit one that finds a cold cache."""
        return (
            self.idle is not None
            and state is not None
            and state.place > 0
            and not state.cold
            and self.idle >= state.ttl
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
        room: counted tokens the units may take until something is reported.
    """

    def __init__(self, along: Along, *, limit: int, overhead: int, room: int) -> None:
        self._known = along.known
        self._asked = along.asked
        self._limit = limit
        self._overhead = overhead
        self._room = room
        self._ttl = _LONG if along.ttl is None else along.ttl
        self._observed = dict(along.observed)
        self._places = sorted(self._observed)
        self._cold = sorted(along.cold)

    def start(self) -> State:
        """Return what is known before the first unit."""
        state = State(self._room, ttl=self._ttl)
        known = None if self._known is None else self._known(None)
        if known is None or not known.calls:
            return state
        meter = Meter(known)
        return state._replace(meter=meter, room=self._left(meter))

    def restart(self, opening: Iterable[Step], before: Iterable[Step], gone: float = 0) -> State:
        """Return what is known at a place where the fold does not ask what it was before.

        What is hidden follows from the first prompt of the history, the ratio from how the
        prompts grew in the stretch just before.

        Args:
            opening: the units from the start of the history; gone through up to the first report.
            before: the units of the stretch just before the place.
            gone: about how many tokens the history has before the place.
        """
        first, size = self.start(), 0
        for start, cost, facts in opening:
            first = self.reach(first, start, size, facts)
            if first.meter is not None and first.meter.anchored:
                break
            size += cost
        learned = None if first.meter is None else first.meter.learned.copy()
        state, last, grown = self.start()._replace(model=first.model), 0, 0
        for start, cost, facts in before:
            report, _ = self._report(state.place, start, facts)
            if report is not None:
                state = self._lasting(state, report)
            if report is not None and report.usage.input <= self._limit:
                if learned is not None and grown and report.usage.input > last > 0:
                    learned.learn((0, last), (grown, report.usage.input), grown)
                last, grown = report.usage.input, 0
            state = self._timed(state, start, facts)
            grown += cost
        if learned is None:
            return state._replace(cold=False)
        bare = learned.ratio * self._overhead + learned.hidden
        meter = Meter(learned, self._overhead, bare)
        return state._replace(meter=meter, room=self._left(meter), cold=False, gone=gone)

    def reach(self, state: State, start: int, size: int, facts: Facts) -> State:
        """Go to the next unit, before it is added.

        Args:
            state: before the unit.
            start: position of its first entry in the record.
            size: counted tokens of what is shown before it.
            facts: what it says beside its text.
        """
        report, sure = self._report(state.place, start, facts)
        if report is not None:
            state = self._taken(state, report, size, sure=sure)
        return self._timed(state, start, facts)

    def jumped(self, state: State, before: int, after: int) -> State:
        """Return the state when ``after`` counted tokens are shown instead of ``before``."""
        if state.meter is None or not state.meter.anchored:
            return state
        meter = state.meter.copy()
        meter.place(self._overhead + before)
        meter.place(self._overhead + after)
        return state._replace(meter=meter, gone=state.gone + before - after)

    def room_for(self, state: State, limit: int, overhead: int) -> int:
        """Return the counted tokens that the units of one view may take.

        Args:
            state: after its last unit.
            limit: the provider's limit for this view, less what is to be left free.
            overhead: what is sent beside them.
        """
        return (limit if state.meter is None else state.meter.room(limit)) - overhead

    def seen(self, upto: int) -> int:
        """Return how many observations there are up to a position."""
        return bisect_right(self._places, upto) + bisect_right(self._cold, upto)

    def _report(self, since: int, start: int, facts: Facts) -> tuple[Report | None, bool]:
        found = bisect_right(self._places, start)
        if found and self._places[found - 1] > since:
            return self._observed[self._places[found - 1]], True
        return facts.report, False

    def _taken(self, state: State, report: Report, size: int, *, sure: bool) -> State:
        reported, shown = report.usage.input, self._overhead + size
        state = self._lasting(state, report)
        if self._known is None:
            return state
        if self._asked is not None and report.model is not None:
            kin = kinship(self._asked, report.model)
            if kin != "same":
                return self._warned(state, report, shown) if kin == "version" else state
        if not sure and not self._ours(state, report, shown):
            return state._replace(odd=(shown, reported))
        counted = shown if report.counted is None else report.counted
        if state.meter is None or (report.model != state.model and report.model is not None):
            meter = Meter(self._known(report.model))
        else:
            meter = state.meter.copy()
        if not meter.observe(counted, reported, sure=sure):
            return state
        if counted != shown:
            meter.place(shown)
        return state._replace(
            meter=meter, model=report.model, room=self._left(meter), gone=0, odd=None
        )

    def _warned(self, state: State, report: Report, shown: int) -> State:
        """Another version answered so far: this one may count otherwise until it has answered."""
        if state.meter is not None or self._known is None:
            return state
        learned, other = self._known(self._asked), self._known(report.model)
        learned.hidden = max(learned.hidden, report.usage.input - other.ratio * shown)
        meter = Meter(learned)
        return state._replace(meter=meter, room=self._left(meter))

    def _ours(self, state: State, report: Report, shown: int) -> bool:
        """Whether a report that a message carries is about a view of ours, as far as can be told.

        What somebody else was sent, or this conversation before we came, did not get shorter when
        our view did, and may be any number of times the limit. A prompt much larger than expected
        may be another agent's; a second one that goes on from it says that the model has begun to
        count otherwise.
        """
        meter, reported = state.meter, report.usage.input
        if meter is None or not meter.anchored or report.model != state.model:
            return reported <= self._limit * (1 if meter is None or meter.anchored else _SILENT)
        expected, ratio = meter.tokens(shown), meter.learned.ratio
        uncut = expected + ratio * state.gone
        if abs(reported - uncut) < abs(reported - expected) or reported > self._limit * _SILENT:
            return False
        if reported <= expected * _ODD + meter.error(shown):
            return True
        if state.odd is None:
            return False
        following = state.odd[1] + ratio * (shown - state.odd[0])
        return abs(reported - following) <= (_ODD - 1) / 2 * reported

    def _left(self, meter: Meter) -> int:
        return max(0, meter.room(self._limit) - self._overhead)

    def _lasting(self, state: State, report: Report) -> State:
        """How long the prefix survives that this request left in the cache."""
        sheet = sheet_for(report.model)
        ttl = self._ttl if sheet is None or sheet.ttl is None else sheet.ttl
        if report.usage.cache_write_1h:
            ttl = max(_LONG, ttl)
        elif not report.usage.cache_write and report.usage.cache_read:
            ttl = max(state.ttl, ttl)  # what was read is kept for as long as before
        return state if ttl == state.ttl else state._replace(ttl=ttl)

    def _timed(self, state: State, start: int, facts: Facts) -> State:
        answered, late = state.answered, state.late
        if facts.answered is not None:
            answered, late = facts.answered, False
        place = max(start, state.place)
        cold = bisect_right(self._cold, place) > bisect_right(self._cold, state.place)
        if facts.said is not None and answered is not None and not late:
            cold = cold or facts.said - answered >= state.ttl + _LATE
        return state._replace(place=place, cold=cold, answered=answered, late=late or cold)
