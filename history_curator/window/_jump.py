"""Where a jump lays the cut: at the earliest unit at which the view is no fuller than its goal.

It is looked for from the newest end, so the goal is met in any script and at any budget. Two
things move it a little. It goes deeper where one more unit like the newest will fit then, so that
a tool loop does not jump twice where once is enough. And a unit that fits the goal is taken also
where the question that it brings along as a head does not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from history_curator.entries import ConversationEntry
from history_curator.window._forms import Forms
from history_curator.window._recap import Recap
from history_curator.timeline import Timeline

HEAD = 0.25
"""A head stays while it takes no more than this share of the room."""
DEEPER = 0.065
"""Share of the room by which a jump goes deeper for one more unit like the newest to fit."""

_start, _place = attrgetter("start"), itemgetter(0)


class Cut(NamedTuple):
    """Where a view begins. Two views with the same cut differ in what was added at the end alone.

    Attributes:
        at: position of the first unit behind the cut.
        heads: positions of the units before it that stay.
        recap: tokens kept for the recap.
        known: position behind the last unit that the recap knows to be shown.
        bare: position of the first unit that is shown with its reasoning: reasoning is bound to
            what stood before it when it was thought.
    """

    at: int = 0
    heads: tuple[int, ...] = ()
    recap: int = 0
    known: int = 0
    bare: int = 0


class Jump:
    """Lays the cut of a timeline where the view has to become shorter.

    Args:
        timeline: the units.
        forms: what they look like and cost.
        recap: writes what left; None for no recap.
        preserve_last_n: the last n entries are never cut off.
    """

    def __init__(
        self, timeline: Timeline, forms: Forms, recap: Recap | None, preserve_last_n: int
    ) -> None:
        self._timeline = timeline
        self._forms = forms
        self._recap = recap
        self._preserve = preserve_last_n
        self.forget()

    def forget(self) -> None:
        """Start with nothing worked out: an older unit changed."""
        self._sums = ([0], [0])  # tokens of the pinned units so far, as they are and bare

    def lay(self, at: int, newest: int, floor: int, room: int, goal: int) -> tuple[Cut, int]:
        """Return the cut that the arrival of a unit leaves, and the tokens shown before the unit.

        Args:
            at: position of the unit.
            newest: what it costs.
            floor: the cut before; it never moves back.
            room: tokens for everything but the system entries.
            goal: how many of them a jump leaves filled.
        """
        pins, barrier = self._timeline.pairing.pinned, self.barrier_at(at)
        first, keep = bisect_left(pins, barrier), self._preserved(at)
        bare = self._running_turn(at) if self._forms.profile.strips else 0
        late = self._count(self.late_system(at - 1, since=0))

        def heads(cut: int) -> list[int]:  # but for those that are pinned
            return [each for each in self._heads(cut, at, room) if not _holds(pins, each)]

        def front(cut: int) -> int:
            pinned = self._pinned_cost(first, bisect_left(pins, cut), bare)
            return pinned + sum(self._cost(head, bare) for head in heads(cut))

        def told(cut: int) -> int:  # nothing where what must stay does not even fit
            if self._recap is None or front(cut) + late + newest > room:
                return 0
            return self._recap.room(self._timeline, cut, room)

        goal = _with_one_more(newest, room, goal)
        cut, kept, recap = at, 0, told(at)
        for _ in range(2):  # the recap of what really left is smaller than that of everything
            while cut > max(floor, barrier):
                cost = self._cost(cut - 1, bare)
                spent = recap + kept + cost + late + newest
                full = front(cut - 1) + spent
                fits = full <= goal or (full <= room and front(cut) + spent <= goal)
                if cut <= keep and not fits:
                    break
                cut, kept = cut - 1, kept + cost
            recap = told(cut)
        stay = pins[first : bisect_left(pins, cut)]
        for head in heads(cut):
            insort(stay, head)
        if len(stay) == cut - barrier:
            recap = 0  # nothing left
        return Cut(cut, tuple(stay), recap, at, bare), kept + recap + late + front(cut)

    def arrives(self, at: int) -> int:
        """Return what a unit costs where it arrives, with the system entries right before it."""
        return self._cost(at, 0) + self._count(self.late_system(at))

    def barrier_at(self, at: int) -> int:
        """Return the latest unit up to here before which nothing is sent; 0 where there is none."""
        hard_starts = self._timeline.pairing.hard_starts
        found = bisect_right(hard_starts, at)
        return hard_starts[found - 1] if found else 0

    def late_system(self, at: int, *, since: int | None = None) -> list[ConversationEntry]:
        """Return system entries right before a unit, or since another, that keep their place."""
        system, units = self._timeline.pairing.system, self._timeline.pairing.units
        if not system or self._forms.profile.hoists or system[-1][0] < units[0].start:
            return []
        after = units[max(0, at - 1) if since is None else since].start
        low = bisect_right(system, after, key=_place)
        high = bisect_left(system, units[at].start, key=_place)
        return [entry for _, entry in system[low:high]]

    def _heads(self, cut: int, at: int, room: int) -> list[int]:
        """The first user entry, and the one in whose turn the cut falls, where they are small.

        The latest one of all stays whatever its size.
        """
        barrier, users = self.barrier_at(at), self._timeline.pairing.users
        first, most = bisect_left(users, barrier), room * HEAD
        found = [barrier] if barrier and barrier < cut else []
        governing, latest = bisect_left(users, cut) - 1, bisect_right(users, at) - 1
        if first < len(users) and users[first] < cut:
            if self._cost(users[first], 0) <= most or first == latest:
                found.append(users[first])
            in_turn = governing > first and users[governing + 1 : governing + 2] != [cut]
            if in_turn and (governing == latest or self._cost(users[governing], 0) <= most):
                found.append(users[governing])
        return found

    def _cost(self, at: int, bare: int) -> int:
        """What a unit costs, with the bridge that a rule puts before it."""
        units = self._timeline.pairing.units
        form = self._forms.bare(units[at]) if at < bare else self._forms.shown(units[at])
        if not at or units[at].kind != "user" or units[at - 1].kind != "exchange":
            return form.tokens
        bridge = self._forms.profile.bridge(units[at - 1].entries[-1], units[at].head)
        return form.tokens + (self._count([bridge]) if bridge else 0)

    def _count(self, entries: list[ConversationEntry]) -> int:
        return sum(map(self._forms.counter.count_entry, entries))

    def _pinned_cost(self, first: int, end: int, bare: int) -> int:
        """What the pinned units cost, from one place among them to another."""
        middle = max(first, min(end, bisect_left(self._timeline.pairing.pinned, bare)))
        return self._summed(1, first, middle) + self._summed(0, middle, end)

    def _summed(self, bare: int, first: int, end: int) -> int:
        sums, pins = self._sums[bare], self._timeline.pairing.pinned
        while len(sums) <= end:
            at = pins[len(sums) - 1]
            sums.append(sums[-1] + self._cost(at, at + bare))
        return sums[end] - sums[first]

    def _running_turn(self, at: int) -> int:
        """Where the turn begins whose tool loop is running; here, where none is."""
        pairing = self._timeline.pairing
        users = bisect_right(pairing.users, at)
        if pairing.units[at].kind != "exchange" or not users:
            return at
        return pairing.users[users - 1]

    def _preserved(self, at: int) -> int:
        """The first unit of the last entries that are never cut off, whatever follows them."""
        if not self._preserve:
            return at
        units = self._timeline.pairing.units
        end = units[at].start + len(units[at].entries) - units[at].missing
        return max(0, bisect_right(units, end - self._preserve, hi=at + 1, key=_start) - 1)


def _holds(ordered: Sequence[int], number: int) -> bool:
    place = bisect_left(ordered, number)
    return place < len(ordered) and ordered[place] == number


def _with_one_more(newest: int, room: int, goal: int) -> int:
    """The goal, or a little less where one more unit like the newest fits then."""
    deeper = room + (goal - room) // max(1, newest) * newest
    return deeper if goal - room * DEEPER <= deeper < goal else goal
