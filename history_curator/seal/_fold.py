"""The fold: where the cut lies, found by going once over the units.

    [system] [heads] [ledger] [units as they were first shown …] [newest unit]

Between jumps nothing that was shown changes: the next view is this one and what is new. When the
newest unit does not fit, the cut jumps once, to the earliest unit at which the view is no fuller
than `low_water`; it is looked for from the newest end, so the goal is met in any script and at any
budget. It jumps a little deeper where one more unit like the newest will fit then. Where the next
unit is so large, or brings so large a question along, that stopping before it would leave far
less, the goal is passed, if that is nearer to it.

Where a track goes along, the room is what the provider's own reports leave, and the cut also jumps
when the provider's cache has gone cold: everything is written anew then anyway.

Where the cut lies follows from the units alone, so it is the same after any restart of the program,
and a cold start does not go over the whole record: behind the unit at which a new span of `SPAN`
budgets begins, the view is the one that a jump at that unit leaves, whether there was one or not.
A jump that did happen there is not followed by a second.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf
from operator import attrgetter, itemgetter
from typing import NamedTuple

from history_curator.caching import NOTHING, Facts, State, Step, Track, facts_of
from history_curator.model import ConversationEntry
from history_curator.seal._forms import Form, Forms
from history_curator.seal._ledger import Ledger
from history_curator.timeline import Timeline, Unit

LOW_WATER = 0.70
"""How full a jump leaves the view."""
COLD = 0.35
"""How full, of that, a jump leaves it for which the cache was cold."""
OPENING = 64
"""Units at the start of a history among which its first report is looked for."""
HEAD = 0.25
"""A head stays while it takes no more than this share of the room."""
POOR = 0.7
"""A jump may pass its goal where stopping before it would leave less than this share of it."""
DEEPER = 0.065
"""Share of the room by which a jump goes deeper for one more unit like the newest to fit."""
SPAN = 8
"""Budgets of cheap size, four characters a token, that a cold start goes back at the most."""

_offset, _start, _place = attrgetter("offset"), attrgetter("start"), itemgetter(0)


class Cut(NamedTuple):
    """Where the view of some units begins.

    Attributes:
        at: position of the first unit behind the cut.
        heads: positions of the units before it that stay.
        ledger: tokens kept for the ledger.
        bare: position of the first unit that is shown with its reasoning: reasoning is bound to
            what stood before it when it was thought.
        size: tokens of all that is shown so far, but for the system entries.
        known: position behind the last unit that the ledger knows to be shown.
        moved: position of the unit at whose arrival the view last did not simply go on; -1 while
            nothing was cut.
        whole: tokens of everything so far, or since a barrier, where it may still fit.
        room: tokens for everything but the system entries, as it was known when it was laid.
        state: what the track knows; None without one.
    """

    at: int = 0
    heads: tuple[int, ...] = ()
    ledger: int = 0
    bare: int = 0
    size: int = 0
    known: int = 0
    moved: int = -1
    whole: float = 0
    room: int = 0
    state: State | None = None


class Fold:
    """The cut of one timeline in one room; it goes on from where it was when the timeline grows.

    Args:
        timeline: the units.
        forms: what they look like and cost.
        ledger: writes what left; None for no ledger.
        budget: the budget, in tokens; the cut jumps at least every `SPAN` of them.
        room: tokens for everything but the system entries.
        low_water: how full a jump leaves the view.
        preserve_last_n: the last n entries are never cut off.
    """

    def __init__(
        self,
        timeline: Timeline,
        forms: Forms,
        ledger: Ledger | None,
        *,
        budget: int,
        room: int,
        low_water: float,
        preserve_last_n: int = 0,
    ) -> None:
        self.timeline = timeline
        self.forms = forms
        self.room = room
        self._ledger = ledger
        self._low_water = low_water
        self.tracked = False  # whether a track goes along with it
        self._track: Track | None = None
        self._told = 0
        self._span = SPAN * budget * 4
        self._preserve = preserve_last_n
        self._written: tuple[object, Form | None] = (None, None)
        self._reset()

    def _reset(self) -> None:
        self._next = 0  # position of the first unit that was not gone over for good
        self._cut = Cut()  # before it
        self._latest: tuple[object, Cut] = (None, self._cut)  # the newest unit, and after it
        self._disturbed = len(self.timeline.pairing.disturbed)
        self._sums = ([0], [0])  # tokens of the pinned units so far, as they are and bare

    def reach(self, track: Track | None = None) -> Cut:
        """Return the cut for all units there are now.

        Args:
            track: what goes along; the fold is made anew when it knows more about the past.
        """
        units = self.timeline.pairing.units
        told, self._track = self._heard(track), track
        if self._disturbed != len(self.timeline.pairing.disturbed) or told != self._told:
            self._reset()
        last = len(units) - 1
        if last < 0:
            return Cut()
        newest, after = self._latest
        if self._next < last and newest is units[self._next]:
            self._next, self._cut = self._next + 1, after
        if self._next == 0:
            self._next, self._cut = self._first(last)
        while self._next < last:
            self._cut = self._step(self._cut, self._next)
            self._next += 1
        if newest is not units[last]:
            self._latest = (units[last], self._step(self._cut, last))
            self._told = self._heard(track)
        return self._latest[1]

    def _heard(self, track: Track | None) -> int:
        """How much the track was told about the units gone over."""
        newest = self._latest[0]
        return track.seen(_place_of(newest)) if track and isinstance(newest, Unit) else self._told

    def _first(self, last: int) -> tuple[int, Cut]:
        """The last place up to here where the cut does not depend on what it was before."""
        units, barrier = self.timeline.pairing.units, self._barrier_at(last)
        start = units[max(0, last - 1)].offset // self._span * self._span
        at = bisect_left(units, start, hi=last, key=_offset) + 1 if start else 0
        at = at if at > barrier + 1 else barrier
        return at, Cut(whole=inf if at else 0)

    def _restarts(self, at: int) -> bool:
        """Whether what is shown from a unit on follows from the units just before it."""
        if at < 2 or self._barrier_at(at) >= at - 1:
            return False
        before, crossed = self.timeline.pairing.units[at - 2 : at]
        return before.offset // self._span != crossed.offset // self._span

    def _step(self, cut: Cut, at: int) -> Cut:
        cost = self._arrives(at)
        barrier, restart = at > 0 and self._barrier_at(at) == at, self._restarts(at)
        state = self._known(cut, at, anew=barrier or restart)
        room = self.room if state is None else state.room
        if barrier:
            return Cut(at, (), 0, at, cost, at, at, cost, room, state)
        if restart:
            newest = self._arrives(at - 1)
            cut = self._jump(at - 1, newest, 0, room, int(room * self._low_water))
            cut = cut._replace(size=cut.size + newest, moved=at, whole=inf)
        whole, low = cut.whole + cost, self._low_water
        full = cut.size + cost > room
        if state is not None and state.cold and low < 1.0:
            low *= COLD
        if at > 0 and (full or (cut.size + cost > low * room and low < self._low_water)):
            laid = self._jump(at, cost, cut.at, room, int(room * low))
            if full or laid.at > cut.at:
                if state is not None:
                    state = self._gone(state, cut, laid)
                    if state.meter is not None or not full:
                        whole = inf  # it may seem to fit again; the cut does not move back
                cut = laid
        return cut._replace(size=cut.size + cost, whole=whole, room=room, state=state)

    def _gone(self, state: State, cut: Cut, laid: Cut) -> State:
        return state if self._track is None else self._track.jumped(state, cut.size, laid.size)

    def _known(self, cut: Cut, at: int, *, anew: bool) -> State | None:
        """What the track knows before a unit."""
        track, units = self._track, self.timeline.pairing.units
        if track is None:
            return None
        if anew:
            first = (units[at].offset // self._span - 1) * self._span
            begin = bisect_left(units, first, hi=at, key=_offset) if first > 0 else 0
            if any(_facts(unit) is not NOTHING for unit in units[begin:at]) or track.seen(
                _place_of(units[at])
            ):
                opening = map(self._told_by, range(min(at, OPENING)))
                before = map(self._told_by, range(begin, at))
                return track.restart(opening, before)
            return track.start()._replace(place=_place_of(units[at - 1]))
        state = cut.state or track.start()
        return track.reach(state, _place_of(units[at]), cut.size, _facts(units[at]))

    def _told_by(self, at: int) -> Step:
        unit = self.timeline.pairing.units[at]
        return _place_of(unit), self._arrives(at), _facts(unit)

    def _jump(self, at: int, newest: int, floor: int, room: int, goal: int) -> Cut:
        """The cut after a jump that the arrival of a unit caused."""
        pairing = self.timeline.pairing
        floor = max(floor, self._barrier_at(at))
        bare = self._running_turn(at) if self.forms.profile.strips else 0
        pins = pairing.pinned
        first = bisect_left(pins, self._barrier_at(at))
        keep = self._preserved(at)
        late = sum(map(self.forms.counter.count_entry, self.late_system(at - 1, since=0)))

        def heads(cut: int) -> list[int]:
            return [each for each in self._heads(cut, at, room) if not _holds(pins, each)]

        def front(cut: int) -> int:
            pinned = self._pinned_cost(first, bisect_left(pins, cut), bare)
            return pinned + sum(self._cost(head, bare) for head in heads(cut))

        def told(cut: int) -> int:  # nothing where what must stay does not even fit
            fits = front(cut) + late + newest <= room
            return self._ledger_room(cut, room) if fits else 0

        def total(cut: int, kept: int) -> int:
            return front(cut) + ledger + kept + late + newest

        deeper = room + (goal - room) // max(1, newest) * newest
        if goal - room * DEEPER <= deeper < goal:
            goal = deeper
        cut, kept, ledger = at, 0, told(at)
        for _ in range(2):  # the ledger of what really left is smaller than that of everything
            while cut > floor:
                cost = self._cost(cut - 1, bare)
                full = total(cut - 1, kept + cost)
                if full > goal and cut <= keep:
                    taken = total(cut, kept)
                    brings = taken + cost <= goal and full <= room  # its question, as a head
                    poor = taken < POOR * goal and 2 * full <= room + goal
                    if not (brings or poor) or full + taken > 2 * goal:
                        break
                cut, kept = cut - 1, kept + cost
            ledger = told(cut)
        stay = tuple(sorted([*pins[first : bisect_left(pins, cut)], *heads(cut)]))
        if len(stay) == cut - self._barrier_at(at):
            ledger = 0  # nothing left
        return Cut(cut, stay, ledger, bare, kept + ledger + late + front(cut), at, at)

    def _pinned_cost(self, first: int, end: int, bare: int) -> int:
        """What the pinned units cost, from one place among them to another."""
        middle = max(first, min(end, bisect_left(self.timeline.pairing.pinned, bare)))
        return self._summed(1, first, middle) + self._summed(0, middle, end)

    def _summed(self, bare: int, first: int, end: int) -> int:
        sums, pins = self._sums[bare], self.timeline.pairing.pinned
        while len(sums) <= end:
            at = pins[len(sums) - 1]
            sums.append(sums[-1] + self._cost(at, at + bare))
        return sums[end] - sums[first]

    def _heads(self, cut: int, at: int, room: int) -> list[int]:
        """The first user entry, and the one in whose turn the cut falls, where they are small.

        The latest one of all stays whatever its size.
        """
        pairing = self.timeline.pairing
        barrier = self._barrier_at(at)
        users = pairing.users
        first, most = bisect_left(users, barrier), room * HEAD
        found = [barrier] if barrier and barrier < cut else []
        governing = bisect_left(users, cut) - 1
        latest = bisect_right(users, at) - 1
        if first < len(users) and users[first] < cut:
            if self._cost(users[first], 0) <= most or first == latest:
                found.append(users[first])
            in_turn = governing > first and users[governing + 1 : governing + 2] != [cut]
            if in_turn and (governing == latest or self._cost(users[governing], 0) <= most):
                found.append(users[governing])
        return found

    def _arrives(self, at: int) -> int:
        """What a unit costs where it arrives, with what stands before it."""
        late = sum(map(self.forms.counter.count_entry, self.late_system(at)))
        return self._cost(at, 0) + late

    def _cost(self, at: int, bare: int) -> int:
        """What a unit costs, with the bridge that a rule puts before it."""
        units = self.timeline.pairing.units
        form = self.forms.bare(units[at]) if at < bare else self.forms.shown(units[at])
        if not at or units[at].kind != "user" or units[at - 1].kind != "exchange":
            return form.tokens
        bridge = self.forms.profile.bridge(units[at - 1].entries[-1], units[at].head)
        return form.tokens + (self.forms.counter.count_entry(bridge) if bridge else 0)

    def late_system(self, at: int, *, since: int | None = None) -> list[ConversationEntry]:
        """System entries right before a unit, or since another, where they keep their place."""
        system, units = self.timeline.pairing.system, self.timeline.pairing.units
        if not system or self.forms.profile.hoists or system[-1][0] < units[0].start:
            return []
        after = units[max(0, at - 1) if since is None else since].start
        low = bisect_right(system, after, key=_place)
        return [
            entry for _, entry in system[low : bisect_left(system, units[at].start, key=_place)]
        ]

    def _ledger_room(self, cut: int, room: int) -> int:
        return 0 if self._ledger is None else self._ledger.room(self.timeline, cut, room)

    def _barrier_at(self, at: int) -> int:
        """The latest unit up to here before which nothing is sent; 0 where there is none."""
        barriers = self.timeline.pairing.barriers
        found = bisect_right(barriers, at)
        return barriers[found - 1] if found else 0

    @property
    def first(self) -> int:
        """The first unit that may be sent."""
        barriers = self.timeline.pairing.barriers
        return barriers[-1] if barriers else 0

    def uncut(self, cut: Cut) -> Cut:
        """Return a cut as it is where everything that may be sent fits."""
        first = self.first
        moved = first or -1
        return cut._replace(
            at=first, heads=(), ledger=0, bare=first, size=int(cut.whole), moved=moved
        )

    def _running_turn(self, at: int) -> int:
        """Where the turn begins whose tool loop is running; here, where none is."""
        pairing = self.timeline.pairing
        users = bisect_right(pairing.users, at)
        if pairing.units[at].kind != "exchange" or not users:
            return at
        return pairing.users[users - 1]

    def _preserved(self, at: int) -> int:
        """The first unit of the last entries that are never cut off."""
        if not self._preserve:
            return at
        units = self.timeline.pairing.units
        end = units[at + 1].start if at + 1 < len(units) else len(self.timeline.entries)
        return max(0, bisect_right(units, end - self._preserve, hi=at + 1, key=_start) - 1)

    def note(self, cut: Cut) -> Form | None:
        """The ledger of a cut."""
        if self._ledger is None or not cut.ledger:
            return None
        key = (cut.at, cut.heads, cut.ledger, cut.known)
        if self._written[0] != key:
            end = max(cut.known, cut.at)
            entry = self._ledger.entry(self.timeline, cut.at, cut.heads, end, cut.ledger)
            form = None if entry is None else self.forms.made((entry,), ())
            self._written = (key, form)
        return self._written[1]

    def shown(self, cut: Cut) -> list[Form]:
        """What stands behind the system entries: heads, ledger, and units in order."""
        units, forms = self.timeline.pairing.units, self.forms
        shown, bare = forms.shown, forms.bare
        pieces = [bare(units[at]) if at < cut.bare else shown(units[at]) for at in cut.heads]
        note = self.note(cut)
        if note is not None:
            pieces.append(note)
        if cut.at < cut.bare:
            pieces += map(bare, units[cut.at : cut.bare])
        pieces += map(shown, units[max(cut.at, cut.bare) :])
        return pieces

    def jumped(self, cut: Cut, room: int) -> bool:
        """Whether the view does not simply go on from the request before this one.

        That request was made before the newest answer or exchange. Since then the cut moved,
        everything stopped fitting, a result changed an older exchange, or a system entry came
        that moves to the front.

        Args:
            cut: what is shown.
            room: tokens for everything but the system entries, this time.
        """
        pairing = self.timeline.pairing
        at = pairing.newest_answer
        if at < 0:
            return False
        if cut.at and cut.moved >= max(at, 1):
            return True
        if cut.at > self.first and self._fitted(at, cut, room):
            return True
        start = pairing.units[at].start
        late = pairing.disturbed[-1:]
        if self.forms.profile.hoists:
            late = late + [place for place, _ in pairing.system[-1:]]
        return any(place > start for place in late)

    def _fitted(self, at: int, cut: Cut, room: int) -> bool:
        """Whether everything before a unit fits."""
        if cut.whole == inf:
            return False
        return cut.whole - sum(map(self._arrives, range(at, self._next + 1))) <= room


def _holds(ordered: Sequence[int], number: int) -> bool:
    place = bisect_left(ordered, number)
    return place < len(ordered) and ordered[place] == number


def _place_of(unit: Unit) -> int:
    """The position of the message that a unit begins with."""
    return unit.head.root.sequence


def _facts(unit: Unit) -> Facts:
    if unit.facts is None:
        unit.facts = facts_of(unit.entries)
    found: Facts = unit.facts
    return found
