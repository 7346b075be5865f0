"""Pair every tool call with its result, one entry at a time.

Tool ids are not unique: providers and logs reuse them. A result therefore belongs to the *latest*
call group that carries its id, and inside that group to the first call still unanswered. Nothing
is looked up through one global table of ids.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from history_curator.model import ConversationEntry, MessageRole
from history_curator.timeline._unit import Unit, weight

_USER, _ASSISTANT, _TOOL = MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL


class Pairing:
    """Groups entries into units as they arrive. A late result joins its call, wherever it is.

    Attributes:
        units: every unit so far, in order of their heads.
        users: positions in `units` of what the user said.
        pinned: positions in `units` of those that hold a pinned entry.
        barriers: positions in `units` of those before which nothing is sent.
        system: the system entries, with their positions in the record.
        open: positions in `units` of exchanges that wait for results.
        orphans: positions of results that match no call, with the reason.
        replaced: results that a later one for the same call took the place of.
        disturbed: positions in the record of results that joined or changed an older unit.
        size: cheap size of everything so far.
    """

    __slots__ = (
        "_groups",
        "_next_slot",
        "barriers",
        "disturbed",
        "open",
        "orphans",
        "pinned",
        "replaced",
        "size",
        "system",
        "units",
        "users",
    )

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.users: list[int] = []
        self.pinned: list[int] = []
        self.barriers: list[int] = []
        self.open: set[int] = set()
        self.system: list[tuple[int, ConversationEntry]] = []
        self.orphans: dict[int, str] = {}
        self.replaced: list[ConversationEntry] = []
        self.disturbed: list[int] = []
        self.size = 0
        # By id: the latest unit that carries it, and the slots with that id, those still free last.
        self._groups: dict[str, tuple[int, list[int]]] = {}
        self._next_slot: tuple[int, int] = (-1, 0)  # for results without an id

    @property
    def newest_answer(self) -> int:
        """Position of the unit before which the request before this one was made; -1 for none."""
        at = len(self.units) - 1
        while at > 0 and self.units[at].kind == "user":
            at -= 1
        return at

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
            self.units.append(Unit("user", entry, index, self.size, entries=(entry,)))
        else:
            self.system.append((index, entry))
            return None
        self.size += weight(entry)
        if entry.pinned and position is not None:
            self._pin(position)
        if entry.seldom is not None and entry.barrier and position is not None:
            self.barriers.append(position)
        return position

    def _pin(self, position: int) -> None:
        place = bisect_left(self.pinned, position)
        if position not in self.pinned[place : place + 1]:
            self.pinned.insert(place, position)

    def _add_assistant(self, entry: ConversationEntry, index: int) -> int:
        calls, position = entry.tool_calls, len(self.units)
        if not calls:
            self.units.append(Unit("assistant", entry, index, self.size, entries=(entry,)))
            return position
        if len(calls) > 1:
            unique = tuple(dict.fromkeys(calls))
            if len(unique) < len(calls):
                entry = entry.evolve(
                    tool_calls=unique, action="repaired", reason="the same call was listed twice"
                )
                calls = unique
        self.units.append(Unit("exchange", entry, index, self.size, (None,) * len(calls)))
        self._next_slot = (position, 0)
        self.open.add(position)
        for slot in range(len(calls) - 1, -1, -1):  # the first one last, to be taken first
            name = calls[slot].id
            known = self._groups.get(name)
            if known is not None and known[0] == position:
                known[1].append(slot)
            else:
                self._groups[name] = (position, [slot])
        return position

    def _add_result(self, entry: ConversationEntry, index: int) -> int | None:
        found = self._find(entry)
        if found is None:
            self.orphans[index] = "tool result without a matching call"
            return None
        position, slot = found
        unit = self.units[position]
        earlier = unit.results[slot]
        if earlier is not None:
            if earlier.content and not (entry.content or entry.parts):
                self.orphans[index] = "second, empty result for the same call"
                return position
            self.replaced.append(earlier)
        if earlier is not None or position != len(self.units) - 1:
            self.disturbed.append(index)
        self.units[position] = answered = unit.answered(slot, entry)
        if answered.complete:
            self.open.discard(position)
        return position

    def _find(self, entry: ConversationEntry) -> tuple[int, int] | None:
        """Return the unit and the slot a result belongs to."""
        if not entry.tool_call_id:
            return self._find_without_id()
        group = self._groups.get(entry.tool_call_id)
        if group is None:
            return None
        position, slots = group
        results = self.units[position].results
        while len(slots) > 1 and results[slots[-1]] is not None:
            slots.pop()
        return position, slots[-1]

    def _find_without_id(self) -> tuple[int, int] | None:
        """The first call still unanswered of the latest exchange, unless the user spoke since."""
        position, slot = self._next_slot
        if position < 0 or any(unit.kind == "user" for unit in self.units[position + 1 :]):
            return None
        results = self.units[position].results
        while slot < len(results) and results[slot] is not None:
            slot += 1
        self._next_slot = (position, slot)
        return None if slot == len(results) else (position, slot)


def pair(entries: Iterable[ConversationEntry]) -> list[Unit]:
    """Group entries into units; system entries are not units.

    Examples:
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
