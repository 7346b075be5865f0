"""Pair every tool call with its result, one entry at a time.

Tool ids are not unique: providers and logs reuse them. A result therefore belongs to the *latest*
call group that carries its id, and inside that group to the first call still unanswered. Nothing
is looked up through one global table of ids.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Literal

from history_curator.model import ConversationEntry, MessageRole, ToolCall, new_entry

UnitKind = Literal["user", "assistant", "exchange"]

LARGEST = 16_384
"""Characters that one entry counts for on the grid, at most."""
MISSING_RESULT = "[No result: the call was not answered.]"
_MISSING = {
    "origin": "placeholder",
    "action": "inserted",
    "reason": "the call has no result, and providers refuse a call without one",
}

_SYSTEM, _USER = MessageRole.SYSTEM, MessageRole.USER
_ASSISTANT, _TOOL = MessageRole.ASSISTANT, MessageRole.TOOL
_start = attrgetter("start")


class Unit:
    """What is kept or left out whole: a user entry, an answer, or an exchange.

    Attributes:
        kind: ``user``, ``assistant`` (no calls) or ``exchange``.
        head: the entry that opens the unit.
        start: position of the head in the record.
        offset: cheap cumulative size of everything recorded before the head.
        results: one result or None per call of the head.
        cache: costs and derived forms, private to the ladder; those of the whole unit go when a
            result arrives.
    """

    __slots__ = ("_entries", "cache", "head", "kind", "offset", "results", "start")

    def __init__(self, kind: UnitKind, head: ConversationEntry, start: int, offset: int) -> None:
        self.kind = kind
        self.head = head
        self.start = start
        self.offset = offset
        self.results: Sequence[ConversationEntry | None] = ()
        self.cache: dict[Any, Any] | None = None
        self._entries: tuple[ConversationEntry, ...] | None = None

    @property
    def entries(self) -> tuple[ConversationEntry, ...]:
        """The head and its results in call order, with a placeholder for each missing one."""
        if self._entries is None:
            if None not in self.results:
                self._entries = (self.head, *self.results)  # type: ignore[arg-type]
            else:
                calls = self.head.tool_calls or ()
                self._entries = (
                    self.head,
                    *(
                        self._missing(slot, call) if result is None else result
                        for slot, (call, result) in enumerate(zip(calls, self.results, strict=True))
                    ),
                )
        return self._entries

    def _missing(self, slot: int, call: ToolCall) -> ConversationEntry:
        """The placeholder for a missing result, the same one for as long as it is missing."""
        if self.cache is None:
            self.cache = {}
        key = ("missing", slot)
        if key not in self.cache:
            self.cache[key] = placeholder(call.id, call.name)
        return self.cache[key]  # type: ignore[no-any-return]

    @property
    def complete(self) -> bool:
        """Whether every call has its result."""
        return None not in self.results

    def answer(self, slot: int, result: ConversationEntry) -> None:
        """Put a result in its place."""
        self.results = (*self.results[:slot], result, *self.results[slot + 1 :])
        self._entries = None
        if self.cache is not None:  # What was made of single entries is still good.
            self.cache = {key: made for key, made in self.cache.items() if key.__class__ is tuple}

    def forget(self) -> None:
        """Let go of whatever can be made again."""
        self.cache = self._entries = None


class Pairing:
    """Groups entries into units as they arrive. A late result joins its call, wherever it is.

    Attributes:
        units: every unit so far, in order of their heads.
        users: positions in `units` of what the user said.
        system: the system entries, with their positions.
        orphans: positions of results that match no call, with the reason.
        replaced: results that a later one for the same call took the place of.
        reused: whether a call id was ever used twice.
        revision: changes when a unit other than the last one does.
        size: cheap cumulative size of everything so far.
    """

    __slots__ = (
        "_by_id",
        "_late",
        "orphans",
        "replaced",
        "reused",
        "revision",
        "size",
        "system",
        "units",
        "users",
    )

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.users: list[int] = []
        self.system: list[tuple[int, ConversationEntry]] = []
        self.orphans: dict[int, str] = {}
        self.replaced: list[ConversationEntry] = []
        self.reused = False
        self.revision = 0
        self.size = 0
        # Where the unit starts that carries an id; all of them, in order, where one was used again.
        self._by_id: dict[str, int | list[int]] = {}
        self._late: list[tuple[int, int]] = []

    def add(self, entry: ConversationEntry, index: int) -> int | None:
        """Take the next entry of the record; return the position of the unit it joined."""
        role = entry.role
        if role is _TOOL:
            position = self._add_result(entry, index)
        elif role is _ASSISTANT:
            position = self._add_assistant(entry, index)
        elif role is _USER:
            position = len(self.units)
            if entry.is_real_user:
                self.users.append(position)
            self.units.append(Unit("user", entry, index, self.size))
        else:
            self.system.append((index, entry))
            return None
        self.size += weight(entry)
        return position

    def rollback(self, entries: Sequence[ConversationEntry], length: int) -> int | None:
        """Forget everything from some clean boundary at or before `length`.

        Returns the position to add `entries` from again, or None when a late result makes it
        unclear.
        """
        self.revision += 1
        units = self.units
        keep = len(units)
        while keep and units[keep - 1].start >= length:
            keep -= 1
        keep = max(0, keep - 1)
        restart = min(length, units[keep].start) if keep < len(units) else length
        if any(arrived >= restart and unit < keep for arrived, unit in self._late):
            return None
        for unit in units[keep:]:
            for call in unit.head.tool_calls or ():
                carriers = self._by_id.get(call.id, unit.start)
                older = [start for start in _listed(carriers) if start < units[keep].start]
                if older:
                    self._by_id[call.id] = older
                else:
                    self._by_id.pop(call.id, None)
        if keep < len(units) and restart == units[keep].start:
            self.size = units[keep].offset
        else:
            self.size = sum(weight(entry) for entry in entries[:restart] if entry.role != _SYSTEM)
        del units[keep:]
        while self.users and self.users[-1] >= keep:
            self.users.pop()
        self._late = [(arrived, unit) for arrived, unit in self._late if arrived < restart]
        self.system = [(at, entry) for at, entry in self.system if at < restart]
        self.orphans = {at: why for at, why in self.orphans.items() if at < restart}
        return restart

    def _add_assistant(self, entry: ConversationEntry, index: int) -> int:
        calls, position = entry.tool_calls, len(self.units)
        if not calls:
            self.units.append(Unit("assistant", entry, index, self.size))
            return position
        if len(calls) > 1:
            unique = tuple(dict.fromkeys(calls))
            if len(unique) < len(calls):
                entry = entry.evolve(
                    tool_calls=unique, action="repaired", reason="the same call was listed twice"
                )
                calls = unique
        unit = Unit("exchange", entry, index, self.size)
        unit.results = (None,) * len(calls)
        self.units.append(unit)
        for call in calls:
            carriers = self._by_id.get(call.id)
            if carriers is None:
                self._by_id[call.id] = index
            else:
                self.reused = True
                self._by_id[call.id] = [*_listed(carriers), index]
        return position

    def _add_result(self, entry: ConversationEntry, index: int) -> int | None:
        position = self._find_unit(entry)
        if position is None:
            self.orphans[index] = "tool result without a matching call"
            return None
        unit = self.units[position]
        slot, free = self._find_slot(unit, entry)
        if not free:
            earlier = unit.results[slot]
            if earlier is not None and earlier.content and not (entry.content or entry.parts):
                self.orphans[index] = "second, empty result for the same call"
                return position
            if earlier is not None:
                self.replaced.append(earlier)
        if position != len(self.units) - 1:
            self._late.append((index, position))
            self.revision += 1
        unit.answer(slot, entry)
        return position

    def _find_unit(self, entry: ConversationEntry) -> int | None:
        if entry.tool_call_id:
            carriers = self._by_id.get(entry.tool_call_id)
            if carriers is None:
                return None
            start = carriers[-1] if isinstance(carriers, list) else carriers
            if self.units[-1].start == start:
                return len(self.units) - 1
            return bisect_left(self.units, start, key=_start)
        for position in range(len(self.units) - 1, -1, -1):
            unit = self.units[position]
            if unit.kind == "exchange":
                return position if None in unit.results else None
            if unit.kind == "user":
                return None
        return None

    def _find_slot(self, unit: Unit, entry: ConversationEntry) -> tuple[int, bool]:
        wanted, results = entry.tool_call_id, unit.results
        if len(results) == 1:
            return 0, results[0] is None
        last = 0
        for slot, call in enumerate(unit.head.tool_calls or ()):
            if not wanted or call.id == wanted:
                if results[slot] is None:
                    return slot, True
                last = slot
        return last, False


def _listed(carriers: int | list[int]) -> list[int]:
    return carriers if isinstance(carriers, list) else [carriers]


def weight(entry: ConversationEntry) -> int:
    """Cheap size of an entry in characters, capped so that one giant cannot stretch the grid."""
    size = len(entry.content) if entry.content else 0
    if entry.tool_calls:
        for call in entry.tool_calls:
            size += len(call.arguments) + len(call.name)
    return size + 16 if size < LARGEST else LARGEST + 16


def placeholder(call_id: str, tool_name: str | None) -> ConversationEntry:
    """A marked result for a call that was never answered."""
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


def pair(entries: Iterable[ConversationEntry]) -> list[Unit]:
    """Group entries into units; system entries are not units.

    Example:
        >>> from history_curator.model import ConversationEntry as E, MessageRole as R, ToolCall
        >>> asked = E(R.ASSISTANT, tool_calls=(ToolCall("c1", "look"),))
        >>> [unit.kind for unit in pair([E(R.USER, "hi"), asked])]
        ['user', 'exchange']
    """
    pairing = Pairing()
    for index, entry in enumerate(entries):
        pairing.add(entry, index)
    return pairing.units


def flatten(
    units: Sequence[Unit], system: Iterable[tuple[int, ConversationEntry]] = ()
) -> list[ConversationEntry]:
    """The entries of the units, with system entries back at their places."""
    waiting = list(system)
    out: list[ConversationEntry] = []
    if waiting and (not units or waiting[-1][0] < units[0].start):
        out.extend(entry for _, entry in waiting)
        waiting.clear()
    for unit in units:
        while waiting and waiting[0][0] < unit.start:
            out.append(waiting.pop(0)[1])
        out.extend(unit.entries)
    out.extend(entry for _, entry in waiting)
    return out
