"""Group entries into units, and pair every tool call with its result.

A unit is kept or left out whole: a user entry, an answer, or an exchange (calls and all their
results). Tool ids are not unique: providers and logs reuse them. A result therefore belongs to the
*latest* call group that carries its id, and inside that group to the first call still unanswered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from history_curator.entries import ConversationEntry, MessageRole, new_entry

UnitKind = Literal["user", "assistant", "exchange"]

LARGEST = 16_384
"""Characters that one entry counts for at most in the cheap size of a record."""
MISSING_RESULT = "[No result: the call was not answered, and it may have run.]"
_MISSING = {
    "origin": "placeholder",
    "action": "inserted",
    "reason": "the call has no result, and providers refuse a call without one",
}


class Unit:
    """A user entry, an answer, or an exchange. It never changes: a late result makes a new one of it.

    Attributes:
        kind: ``user``, ``assistant`` (no calls) or ``exchange``.
        head: the entry that opens the unit.
        entries: the head and its results in call order, with a placeholder for each missing one.
        waiting: the places of the calls that have no result yet.
        start: position of the head in the record.
        offset: cheap size, in characters, of everything recorded before the head.
        form: how it is shown, as its last maker made it; private to the seal.
        told: what the recap says when it is gone; private to the seal.
        facts: what was reported on it and when it was said; private to the seal.
    """

    __slots__ = (
        "entries",
        "facts",
        "form",
        "head",
        "kind",
        "offset",
        "start",
        "told",
        "waiting",
    )

    def __init__(
        self,
        kind: UnitKind,
        head: ConversationEntry,
        start: int,
        offset: int,
        entries: tuple[ConversationEntry, ...],
    ) -> None:
        self.kind = kind
        self.head = head
        self.start = start
        self.offset = offset
        self.entries = entries
        self.waiting: tuple[int, ...] = ()
        self.form: Any = None
        self.told: Any = None
        self.facts: Any = None

    @property
    def missing(self) -> int:
        """How many calls wait for their result."""
        return len(self.waiting)

    @property
    def results(self) -> tuple[ConversationEntry | None, ...]:
        """One result or None per call of the head."""
        results: list[ConversationEntry | None] = [*self.entries[1:]]
        for slot in self.waiting:
            results[slot] = None
        return tuple(results)

    def __repr__(self) -> str:
        return f"<Unit {self.kind} at {self.start}>"


def placeholder(call_id: str, tool_name: str | None) -> ConversationEntry:
    """Return a marked result for a call that was never answered."""
    return new_entry(
        MessageRole.TOOL,
        MISSING_RESULT,
        0,
        None,
        tool_call_id=call_id,
        tool_name=tool_name,
        status="error",
        seldom=_MISSING,
    )


def weight(entry: ConversationEntry) -> int:
    """Return the cheap size of an entry in characters, capped so that no giant outweighs the rest."""
    size = len(entry.content) if entry.content else 0
    if entry.tool_calls:
        for call in entry.tool_calls:
            size += len(call.arguments) + len(call.name)
    return size + 16 if size < LARGEST else LARGEST + 16


_USER, _ASSISTANT, _TOOL = MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL


class Pairing:
    """Groups entries into units as they arrive. A late result joins its call, wherever it is.

    Attributes:
        units: every unit so far, in order of their heads.
        users: positions in `units` of what the user said.
        pinned: positions in `units` of those that hold a pinned entry.
        hard_starts: positions in `units` of those before which nothing is sent.
        system: the system entries, with their positions in the record.
        incomplete_units: positions in `units` of exchanges that wait for results.
        orphans: positions of results that match no call, with the reason.
        replaced: results that a later one for the same call took the place of.
        changed_units: positions in the record of results that joined or changed an older unit.
        size: cheap size of everything so far.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R, ToolCall
        >>> asked = E(R.ASSISTANT, tool_calls=(ToolCall("c1", "look"),))
        >>> [unit.kind for unit in Pairing([E(R.USER, "hi"), asked]).units]
        ['user', 'exchange']
    """

    __slots__ = (
        "_groups",
        "_latest",
        "_results",
        "hard_starts",
        "changed_units",
        "incomplete_units",
        "orphans",
        "pinned",
        "replaced",
        "size",
        "system",
        "units",
        "users",
    )

    def __init__(self, entries: Iterable[ConversationEntry] = ()) -> None:
        self.units: list[Unit] = []
        self.users: list[int] = []
        self.pinned: list[int] = []
        self.hard_starts: list[int] = []
        self.incomplete_units: set[int] = set()
        self.system: list[tuple[int, ConversationEntry]] = []
        self.orphans: dict[int, str] = {}
        self.replaced: list[ConversationEntry] = []
        self.changed_units: list[int] = []
        self.size = 0
        # By id: the latest unit that carries it, and the slots with that id, those still free last.
        self._groups: dict[str, list[int]] = {}
        self._latest: list[int] = []  # the same for results without an id
        self._results: dict[int, list[ConversationEntry | None]] = {}  # of units not made yet
        self.extend(entries, 0)

    @property
    def newest_answer(self) -> int:
        """Position of the unit before which the request before this one was made; -1 for none."""
        at = len(self.units) - 1
        while at > 0 and self.units[at].kind == "user":
            at -= 1
        return at

    def extend(self, entries: Iterable[ConversationEntry], start: int) -> None:
        """Take the next entries of the record; the first of them stands at `start`."""
        for index, entry in enumerate(entries, start):
            self._add(entry, index)
        for position, results in self._results.items():
            self._make(position, results)
        self._results.clear()

    def _add(self, entry: ConversationEntry, index: int) -> None:
        role = entry.role
        if role is _TOOL:
            position = self._add_result(entry, index)
        elif role is _ASSISTANT:
            position = self._add_assistant(entry, index)
        elif role is _USER:
            position = len(self.units)
            if entry.is_real_user:
                self.users.append(position)
            self.units.append(Unit("user", entry, index, self.size, (entry,)))
            self._latest = []
        else:
            self.system.append((index, entry))
            return
        self.size += weight(entry)
        if entry.pinned and position is not None:
            self._pin(position)
        if entry.barrier and position is not None:
            self.hard_starts.append(position)

    def _pin(self, position: int) -> None:
        place = bisect_left(self.pinned, position)
        if position not in self.pinned[place : place + 1]:
            self.pinned.insert(place, position)

    def _add_assistant(self, entry: ConversationEntry, index: int) -> int:
        calls, position = entry.tool_calls, len(self.units)
        if not calls:
            self.units.append(Unit("assistant", entry, index, self.size, (entry,)))
            return position
        groups: dict[str, list[int]] = {}
        for slot in range(len(calls) - 1, -1, -1):  # the first one last, to be taken first
            known = groups.get(calls[slot].id)
            if known is None:
                groups[calls[slot].id] = [position, slot]
            else:
                known.append(slot)
        if len(groups) < len(calls) and len(unique := tuple(dict.fromkeys(calls))) < len(calls):
            again = "the same call was listed twice"
            entry = entry.evolve(tool_calls=unique, action="repaired", reason=again)
            return self._add_assistant(entry, index)
        self._groups.update(groups)
        self._latest = [position, *range(len(calls) - 1, -1, -1)]
        self._results[position] = [None] * len(calls)
        self.units.append(Unit("exchange", entry, index, self.size, ()))
        return position

    def _add_result(self, entry: ConversationEntry, index: int) -> int | None:
        named = entry.tool_call_id
        group = self._groups.get(named) if named else self._latest
        if not group:
            self.orphans[index] = "tool result without a matching call"
            return None
        position = group[0]
        results = self._results.get(position)
        if results is None:
            results = self._results[position] = [*self.units[position].results]
        while len(group) > 2 and results[group[-1]] is not None:
            group.pop()
        slot = group[-1]
        earlier = results[slot]
        if earlier is not None:
            if not named:
                self.orphans[index] = "tool result without a matching call"
                return None
            if earlier.content and not (entry.content or entry.parts):
                self.orphans[index] = "second, empty result for the same call"
                return position
            self.replaced.append(earlier)
        if earlier is not None or position != len(self.units) - 1:
            self.changed_units.append(index)
        results[slot] = entry
        return position

    def _make(self, position: int, results: list[Any]) -> None:
        """Make the unit of an exchange, anew where it has been seen; its placeholders stay."""
        unit = self.units[position]
        known, calls = unit.entries[1:], unit.head.tool_calls or ()
        if unit.entries:
            unit = self.units[position] = Unit("exchange", unit.head, unit.start, unit.offset, ())
        waiting = [slot for slot, result in enumerate(results) if result is None]
        for slot in waiting:
            call = calls[slot]
            results[slot] = known[slot] if known else placeholder(call.id, call.name)
        unit.entries, unit.waiting = (unit.head, *results), tuple(waiting)
        if waiting:
            self.incomplete_units.add(position)
        else:
            self.incomplete_units.discard(position)


def pair(entries: Iterable[ConversationEntry]) -> list[Unit]:
    """Group entries into units; system entries are not units."""
    return Pairing(entries).units


def flatten(
    units: Sequence[Unit], system: Iterable[tuple[int, ConversationEntry]] = ()
) -> list[ConversationEntry]:
    """Return the entries of the units, with system entries back at their places."""
    waiting = list(system)
    out: list[ConversationEntry] = []
    if waiting and (not units or waiting[-1][0] < units[0].start):
        out.extend(entry for _, entry in waiting)
        waiting.clear()
    place = 0
    for unit in units:
        while place < len(waiting) and waiting[place][0] < unit.start:
            out.append(waiting[place][1])
            place += 1
        out.extend(unit.entries)
    out.extend(entry for _, entry in waiting[place:])
    return out
