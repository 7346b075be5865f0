"""Which unit is shown first: the cutoff, when it moves, and how far.

    [system] [kept questions] [recap] [units as they were first shown …] [newest unit]

Between compactions the view only grows at its end. When the newest unit does not fit, the cutoff
moves once, to the earliest unit at which the view is no fuller than the target. It never moves back.

The cutoff follows from the units alone, so it is the same after any restart of the program. A cold
start does not go over the whole record: at fixed restart points, one in every `RESTART_BUDGETS`
budgets of text, the view is computed as if a compaction had just happened. Everything here is
arithmetic on integers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.units import Pairing
from history_curator.window.rendering import Renderer

COMPACT_TO = 0.70
"""How full a compaction leaves the view."""
COLD_SHARE = 0.35
"""Share of that target which a compaction fills when the provider's cache was cold."""
RESTART_BUDGETS = 8
"""Budgets of cheap size, four characters a token, between two restart points."""
KEPT_QUESTION_SHARE = 0.25
"""A question before the cutoff stays while it takes no more than this share of what is available."""
ANSWERED = ConversationEntry(
    MessageRole.ASSISTANT,
    "[Answered; the answer is no longer shown.]",
    origin="bridge",
    action="inserted",
    reason="the question before it was answered, and must not look open",
)
"""Stands behind a kept question whose answer left."""
ANSWERED_TOKENS = 20
"""Its tokens at most."""
RECAP_ABOVE_TARGET = 0.25
"""Share of the recap that a compaction leaves beside the share of `compact_to`."""
EXTRA_DEPTH = 0.065
"""Share of what is available by which a compaction goes deeper for one more unit like the newest."""


class Cutoff(NamedTuple):
    """Where a view begins. Two views with the same cutoff differ in what was added at the end alone."""

    unit: int = 0  # the first that is shown
    kept_units: tuple[int, ...] = ()  # those before it that stay
    recap_tokens: int = 0
    recap_until: int = 0  # position behind the last unit that the recap knows to be shown
    reasoning_from: int = (
        0  # no unit before is shown with its reasoning: what it is bound to changed
    )


class WindowState(NamedTuple):
    """The cutoff and the size of the view after units up to `end` arrived."""

    end: int = 0
    cutoff: Cutoff = Cutoff()
    tokens: int = 0  # of all that is shown, but for the system entries in front
    first_allowed: int = 0  # the first unit that may be sent: a barrier, or 0
    total_tokens: float = 0  # of everything that may be sent, where it may still fit

    def restore_if_all_fits(self, available: int) -> WindowState:
        """Return the state that shows everything that may be sent, where that fits."""
        first, left_out = self.first_allowed, max(self.cutoff.unit, self.cutoff.reasoning_from)
        if left_out <= first or self.total_tokens > available:
            return self
        cutoff = Cutoff(first, reasoning_from=first)
        return self._replace(cutoff=cutoff, tokens=int(self.total_tokens))


@dataclass(eq=False)
class UnitSizes:
    """The tokens of the units of a record, each worked out on first use."""

    renderer: Renderer
    late_system: Sequence[int]
    size_recap: Callable[[int, int], int]
    cold: Collection[int]

    def __post_init__(self) -> None:
        record, options = self.renderer.record, self.renderer.options
        self.options, self.pairing, self.offsets = options, record.pairing, record.offsets
        self.compact_to = COMPACT_TO if options.compact_to is None else options.compact_to
        self.strips_reasoning = self.renderer.profile.strips
        self._full = [-1] * len(self.offsets)
        self._without_reasoning = self._full.copy()
        self._pinned: tuple[list[int], list[int]] = [0], [0]  # of so many pinned units: bare, full

    def full(self, position: int) -> int:
        """Return the tokens of a unit as it is first shown."""
        size = self._full[position]
        if size < 0:
            rendering = self.renderer.render_full(self.pairing.units[position])
            size = self._full[position] = rendering.tokens + self._count_bridge(position)
            if not rendering.has_reasoning:
                self._without_reasoning[position] = size
        return size

    def without_reasoning(self, position: int) -> int:
        """Return the tokens of a unit once something before it changed."""
        size = self._without_reasoning[position]
        if size < 0:
            rendering = self.renderer.render_without_reasoning(self.pairing.units[position])
            size = rendering.tokens + self._count_bridge(position)
            self._without_reasoning[position] = size
        return size

    def arrival(self, position: int) -> int:
        """Return the tokens of a unit, with the system entries right before it."""
        size = self.full(position)
        return size + self.count_late_system(position - 1, position) if self.late_system else size

    def count_pinned(self, first: int, last: int, reasoning_from: int) -> int:
        """Return the tokens of the pinned units from one up to another, counted among them."""
        pins = self.pairing.pinned
        middle = max(first, min(last, bisect_left(pins, reasoning_from)))
        counts = (self.without_reasoning, middle), (self.full, last)
        for totals, (count, end) in zip(self._pinned, counts, strict=True):
            while len(totals) <= end:
                totals.append(totals[-1] + count(pins[len(totals) - 1]))
        bare, full = self._pinned
        return bare[middle] - bare[first] + full[last] - full[middle]

    def count_late_system(self, first: int, last: int) -> int:
        """Return the tokens of system entries that keep their place, from one unit up to another."""
        units, system = self.pairing.units, self.late_system
        if not system or first < 0 or last <= first:
            return 0
        low, high = bisect_left(system, units[first].start), bisect_left(system, units[last].start)
        facts, count = self.renderer.record.facts, self.renderer.memo.count
        return sum([count(facts[index]) for index in system[low:high]])

    def _count_bridge(self, position: int) -> int:
        """Return the tokens of what a rule puts before a user entry that follows an exchange."""
        units = self.pairing.units
        kinds = (units[position - 1].kind, units[position].kind) if position else ()
        if kinds != ("exchange", "user"):
            return 0
        last = units[position - 1].entries[-1]
        bridge = self.renderer.profile.bridge(last, units[position].head)
        return self.renderer.memo.counter.count_entry(bridge) if bridge else 0


def find_cutoff(sizes: UnitSizes, available: int) -> tuple[WindowState, WindowState]:
    """Return the state of the view now, and its state for the request before this one.

    The walk over the units begins at the latest restart point or checkpoint before that request.
    `available` are the tokens for everything but the system entries in front.
    """
    units, answer = sizes.pairing.units, sizes.pairing.newest_answer
    if not units:
        return WindowState(), WindowState()
    options = sizes.options
    distance = RESTART_BUDGETS * max(1, options.budget or 0) * 4
    key = (
        sizes.renderer.number,
        options.recap,
        options.compact_to,
        options.preserve_last_n,
        available,
    )
    checkpoints = sizes.renderer.record.checkpoints if not sizes.cold else {}
    restart = _restart_before(sizes, answer, distance)
    state: WindowState = checkpoints.get(key, restart)
    if state.end < restart.end:
        state = restart
    previous = WindowState()
    restarts = _restart_points(sizes, state.end, distance)
    special = {*restarts, *sizes.pairing.barriers, *sizes.cold}
    for position in range(state.end, len(units)):
        if position == answer:
            checkpoints[key] = previous = state
        size = sizes.arrival(position)
        if position not in special and state.tokens + size <= available:
            _, cutoff, tokens, first, total = state
            state = WindowState(position + 1, cutoff, tokens + size, first, total + size)
            continue
        if position in restarts:
            state = _restart(sizes, state, available)
        state = _add_unit(sizes, state, size, available)
    return state, previous


def _restart_before(sizes: UnitSizes, answer: int, distance: int) -> WindowState:
    """Return the latest restart point that lies before the previous request."""
    units, offsets = sizes.pairing.units, sizes.offsets
    known = max(0, answer - 1) if units[answer].kind != "user" else len(units) - 1
    barrier = sizes.pairing.barrier_before(known)
    begin = offsets[max(0, known - 1)] // distance * distance
    position = bisect_left(offsets, begin, hi=known) + 1 if begin else 0
    position = position if position > barrier + 1 else barrier
    return WindowState(position, total_tokens=inf if position else 0)


def _restart_points(sizes: UnitSizes, begin: int, distance: int) -> set[int]:
    """Return the units from which on the view follows from the units just before them."""
    offsets, points = sizes.offsets, set[int]()
    for number in range(offsets[max(0, begin - 2)] // distance + 1, offsets[-1] // distance + 1):
        position = bisect_left(offsets, number * distance) + 1
        if 2 <= position < len(offsets) and sizes.pairing.barrier_before(position) < position - 1:
            points.add(position)
    return points


def _restart(sizes: UnitSizes, state: WindowState, available: int) -> WindowState:
    """Return the state that a compaction at the newest unit leaves, independent of the earlier view."""
    position = state.end - 1
    cutoff, tokens = _compact(sizes, position, 0, available, int(available * sizes.compact_to))
    first = sizes.pairing.barrier_before(state.end)
    return WindowState(state.end, cutoff, tokens + sizes.arrival(position), first, inf)


def _add_unit(sizes: UnitSizes, state: WindowState, size: int, available: int) -> WindowState:
    """Put the next unit behind what is shown; compact where it does not fit."""
    position, cutoff, tokens, first, total = state
    target = int(available * sizes.compact_to)
    if position and sizes.pairing.barrier_before(position) == position:
        cutoff = Cutoff(position, recap_until=position, reasoning_from=position)
        tokens, first, total = 0, position, 0
    total += size
    full = tokens + size > available
    cold = position in sizes.cold and sizes.compact_to < 1.0
    if cold:
        target = int(target * COLD_SHARE)
        cold = tokens + size > target
    if first < position and (full or cold):
        moved, left = _compact(sizes, position, cutoff.unit, available, target)
        if full or moved.unit > cutoff.unit:
            cutoff, tokens = moved, left
            # It may seem to fit again; the cutoff does not move back.
            total = total if full else inf
    return WindowState(position + 1, cutoff, tokens + size, first, total)


def _compact(
    sizes: UnitSizes, position: int, floor: int, available: int, target: int
) -> tuple[Cutoff, int]:
    """Return the cutoff that the arrival of a unit leaves, and the tokens shown before the unit.

    It is looked for from the newest end, so the target is met in any script and at any budget. It
    goes deeper where one more unit like the newest will fit then. And a unit that fits the target is
    taken also where the question that it brings along does not.
    """
    pairing = sizes.pairing
    users, barrier = pairing.users, pairing.barrier_before(position)
    pinned, first_pin = pairing.pinned, bisect_left(pairing.pinned, barrier)
    floor, preserved = max(floor, barrier), _first_preserved(sizes, position)
    reasoning_from = _start_of_running_turn(pairing, position) if sizes.strips_reasoning else 0
    newest = sizes.arrival(position)
    fixed = sizes.count_late_system(0, position - 1) + newest

    def size_of(unit: int) -> int:
        return sizes.without_reasoning(unit) if unit < reasoning_from else sizes.full(unit)

    fronts: dict[tuple[int, bool, bool], int] = {}

    def size_in_front(cutoff: int) -> int:
        turn = bisect_left(users, cutoff)
        key = turn, users[turn : turn + 1] == [cutoff], barrier < cutoff
        size = fronts.get(key)
        if size is None:
            questions = _kept_questions(sizes, cutoff, position, barrier, available)
            questions = [unit for unit in questions if unit not in pinned]
            tokens = sum(map(size_of, questions)) + ANSWERED_TOKENS * len(questions)
            size = fronts[key] = tokens
        last_pin = bisect_left(pinned, cutoff)
        return size + sizes.count_pinned(first_pin, last_pin, reasoning_from) if pinned else size

    def size_recap(cutoff: int) -> int:  # none where what must stay does not even fit
        fits = size_in_front(cutoff) + fixed <= available
        return sizes.size_recap(cutoff, available) if fits else 0

    deeper = available + (target - available) // max(1, newest) * newest
    if target - available * EXTRA_DEPTH <= deeper < target:  # one more unit like the newest fits
        target = deeper
    target += int(RECAP_ABOVE_TARGET * size_recap(position))
    cutoff, tail, recap = position, 0, size_recap(position)
    front = size_in_front(cutoff)
    for _ in range(2):  # the recap of what really left is smaller than that of everything
        while cutoff > floor:
            size = size_of(cutoff - 1)
            spent, earlier_front = recap + tail + size + fixed, size_in_front(cutoff - 1)
            fits = earlier_front + spent <= target or (
                earlier_front + spent <= available and front + spent <= target
            )
            if cutoff <= preserved and not fits:
                break
            cutoff, tail, front = cutoff - 1, tail + size, earlier_front
        recap = size_recap(cutoff)
    questions = _kept_questions(sizes, cutoff, position, barrier, available)
    kept_units = sorted({*pinned[first_pin : bisect_left(pinned, cutoff)], *questions})
    if len(kept_units) == cutoff - barrier:
        recap = 0  # everything stayed
    found = Cutoff(cutoff, tuple(kept_units), recap, position, reasoning_from)
    return found, tail + recap + fixed - newest + front


def _kept_questions(
    sizes: UnitSizes, cutoff: int, position: int, barrier: int, available: int
) -> list[int]:
    """Return the first question, and the one in whose turn the cutoff falls, where they are small.

    The latest user entry of all stays at any size.
    """
    users, questions = sizes.pairing.users, sizes.pairing.questions
    first, end = bisect_left(questions, barrier), bisect_left(questions, cutoff)
    asked = questions[first:end]
    in_turn = questions[end : end + 1] != [cutoff]
    most = available * KEPT_QUESTION_SHARE
    chosen = {*asked[:1], *(asked[-1:] if in_turn else ())}
    kept = {unit for unit in chosen if sizes.full(unit) <= most}
    count = bisect_right(users, position)
    required = [*users[max(0, count - 1) : count], *([barrier] if barrier else ())]
    return sorted({*kept, *[unit for unit in required if barrier <= unit < cutoff]})


def _start_of_running_turn(pairing: Pairing, position: int) -> int:
    """Return where the turn begins whose tool loop is running; the position where none is."""
    users = bisect_right(pairing.users, position)
    if pairing.units[position].kind != "exchange" or not users:
        return position
    return pairing.users[users - 1]


def _first_preserved(sizes: UnitSizes, position: int) -> int:
    """Return the first unit of the last entries that always stay, even as more units follow."""
    count = sizes.options.preserve_last_n
    if not count:
        return position
    unit = sizes.pairing.units[position]
    end = unit.start + len(unit.indexes) - unit.indexes.count(-1)
    starts = [each.start for each in sizes.pairing.units[: position + 1]]
    return max(0, bisect_right(starts, end - count) - 1)
