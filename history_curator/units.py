"""Group entries into units, and pair every tool call with its result.

A unit is kept or left out whole: a user entry, an answer, or an exchange (calls and all their
results). Tool ids are not unique: providers and logs reuse them. A result therefore belongs to the
*latest* calls that carry its id, and among those to the first one still unanswered.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import Literal

from history_curator.entries import ConversationEntry, MessageRole

UnitKind = Literal["user", "assistant", "exchange"]

MISSING_RESULT = "[No result: the call was not answered, and it may have run.]"
ORPHAN = "tool result without a matching call"

_USER, _ASSISTANT, _TOOL = MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL


class Unit:
    """A user entry, an answer, or an exchange.

    Attributes:
        kind: ``user``, ``assistant`` (no calls) or ``exchange``.
        head: the entry that opens the unit.
        start: position of the head in the record.
        indexes: positions in the record of the head and of each call's result; -1 for a missing one.
    """

    __slots__ = ("_entries", "_record", "head", "indexes", "kind", "start")

    def __init__(
        self,
        kind: UnitKind,
        head: ConversationEntry,
        start: int,
        record: Sequence[ConversationEntry],
        indexes: Sequence[int],
    ) -> None:
        self.kind = kind
        self.head = head
        self.start = start
        self.indexes = indexes
        self._record = record
        self._entries: tuple[ConversationEntry, ...] | None = None

    @property
    def entries(self) -> tuple[ConversationEntry, ...]:
        """The head and its results in call order, with a placeholder for each missing one."""
        if self._entries is None:
            results = [
                self._record[index] if index >= 0 else placeholder(call.id, call.name)
                for index, call in zip(self.indexes[1:], self.head.tool_calls or (), strict=True)
            ]
            self._entries = (self.head, *results)
        return self._entries

    @property
    def results(self) -> tuple[ConversationEntry | None, ...]:
        """The result of each call of the head, in call order; None for a call that still waits."""
        return tuple([self._record[at] if at >= 0 else None for at in self.indexes[1:]])

    def __repr__(self) -> str:
        return f"<Unit {self.kind} at {self.start}>"


def placeholder(call_id: str, tool_name: str | None) -> ConversationEntry:
    """Return a marked result for a call that was never answered."""
    return ConversationEntry(
        MessageRole.TOOL,
        MISSING_RESULT,
        tool_call_id=call_id,
        tool_name=tool_name,
        status="error",
        origin="placeholder",
        action="inserted",
        reason="the call has no result, and providers refuse a call without one",
    )


class Pairing:
    """Entries grouped into units. A late result joins its call, wherever it stands.

    Attributes:
        units: every unit, in order of their heads.
        users: positions in `units` of what the user said.
        pinned: positions in `units` of those that hold a pinned entry.
        hard_starts: positions in `units` of those before which nothing is sent.
        incomplete_units: positions in `units` of exchanges that wait for results.
        system: the system entries, with their positions in the record.
        orphans: positions of results that match no call, with the reason.
        replaced: positions of results that a later one for the same call took the place of.
        late_results: positions of results that joined or changed an older unit.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R, ToolCall
        >>> asked = E(R.ASSISTANT, tool_calls=(ToolCall("c1", "look"),))
        >>> [unit.kind for unit in Pairing([E(R.USER, "hi"), asked]).units]
        ['user', 'exchange']
    """

    def __init__(self, entries: Sequence[ConversationEntry], start: int = 0) -> None:
        self.units: list[Unit] = []
        self.users: list[int] = []
        self.pinned: list[int] = []
        self.hard_starts: list[int] = []
        self.system: list[tuple[int, ConversationEntry]] = []
        self.orphans: dict[int, str] = {}
        self.replaced: list[int] = []
        self.late_results: list[int] = []
        self._entries = entries
        self._calls: dict[str, int] = {}  # the latest exchange that carries a call id
        self._latest = -1  # the exchange that a result without an id answers
        self._pair(start)
        self.incomplete_units = [
            position
            for position, unit in enumerate(self.units)
            if unit.kind == "exchange" and -1 in unit.indexes
        ]

    def _pair(self, start: int) -> None:  # noqa: PLR0912 - one branch a role, in the hot path
        entries, units = self._entries, self.units
        add_unit, calls_of = units.append, self._calls
        for index in range(start, len(entries)):
            entry = entries[index]
            role = entry.role
            position: int | None = len(units)
            if role is _TOOL:
                position = self._add_result(entry, index)
            elif role is _ASSISTANT:
                calls = entry.tool_calls
                if not calls:
                    add_unit(Unit("assistant", entry, index, entries, (index,)))
                else:
                    if len(calls) > 1:
                        entry = _without_repeated_calls(entry)
                        calls = entry.tool_calls or ()
                    for call in calls:
                        calls_of[call.id] = len(units)
                    self._latest = len(units)
                    add_unit(Unit("exchange", entry, index, entries, [index, *[-1] * len(calls)]))
            elif role is _USER:
                if entry.is_real_user:
                    self.users.append(len(units))
                add_unit(Unit("user", entry, index, entries, (index,)))
                self._latest = -1
            else:
                self.system.append((index, entry))
                continue
            if position is not None:
                if entry.pinned and position not in self.pinned:
                    insort(self.pinned, position)
                if entry.barrier:
                    self.hard_starts.append(position)

    def _add_result(self, entry: ConversationEntry, index: int) -> int | None:
        call_id = entry.tool_call_id
        position = self._calls.get(call_id, -1) if call_id else self._latest
        if position < 0:
            self.orphans[index] = ORPHAN
            return None
        unit = self.units[position]
        indexes = unit.indexes
        assert isinstance(indexes, list)
        place = 0
        for at, call in enumerate(unit.head.tool_calls or (), start=1):
            if not call_id or call.id == call_id:
                place = at
                if indexes[at] < 0:
                    break
        earlier = indexes[place]
        if earlier >= 0:
            if not call_id:
                self.orphans[index] = ORPHAN
                return None
            if self._entries[earlier].content and not (entry.content or entry.parts):
                self.orphans[index] = "second, empty result for the same call"
                return position
            self.replaced.append(earlier)
        if earlier >= 0 or position != len(self.units) - 1:
            self.late_results.append(index)
        indexes[place] = index
        return position

    @property
    def newest_answer(self) -> int:
        """Position of the unit before which the request before this one was made; -1 for none."""
        position = len(self.units) - 1
        while position > 0 and self.units[position].kind == "user":
            position -= 1
        return position

    def barrier_before(self, position: int) -> int:
        """Return the latest unit up to a position before which nothing is sent; 0 for none."""
        found = bisect_right(self.hard_starts, position)
        return self.hard_starts[found - 1] if found else 0

    @property
    def unused_results(self) -> dict[int, str]:
        """Positions of results that are in no unit, with the reasons."""
        later = "a later result for the same call took its place"
        return {**self.orphans, **dict.fromkeys(self.replaced, later)}


def _without_repeated_calls(entry: ConversationEntry) -> ConversationEntry:
    calls = entry.tool_calls or ()
    if len({call.id for call in calls}) == len(calls):
        return entry
    unique = tuple(dict.fromkeys(calls))
    if len(unique) == len(calls):
        return entry
    reason = "the same call was listed twice"
    return entry.evolve(tool_calls=unique, action="repaired", reason=reason)


def pair(entries: Iterable[ConversationEntry]) -> list[Unit]:
    """Group entries into units; system entries are not units."""
    return Pairing(entries if isinstance(entries, Sequence) else list(entries)).units


def flatten(
    units: Sequence[Unit], system: Iterable[tuple[int, ConversationEntry]] = ()
) -> list[ConversationEntry]:
    """Return the entries of the units, with system entries back at their places."""
    waiting = list(system)[::-1]
    out: list[ConversationEntry] = []
    for unit in units:
        while waiting and waiting[-1][0] < unit.start:
            out.append(waiting.pop()[1])
        out.extend(unit.entries)
    out.extend(entry for _, entry in reversed(waiting))
    return out
