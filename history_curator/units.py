"""Group entries into units, and pair every tool call with its result.

A unit is kept or left out whole: a user entry, an answer, or an exchange (calls and all their
results). Tool ids are not unique: providers and logs reuse them. A result therefore belongs to the
*latest* calls that carry its id, and among those to the first one still unanswered.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import Literal

from history_curator.entries import ConversationEntry, MessageRole

UnitKind = Literal["user", "assistant", "exchange"]

MISSING_RESULT = "[No result: the call was not answered, and it may have run.]"
ORPHAN = "tool result without a matching call"

_LONGEST_MARKER = 120
_WORD = re.compile(r"\w+")
_COURTESIES = frozenset(
    _WORD.findall(
        "hi hello hey there good morning afternoon evening day thanks thank you so very much ok "
        "okay great perfect nice cool"
    )
)

_USER, _ASSISTANT, _TOOL = MessageRole.USER, MessageRole.ASSISTANT, MessageRole.TOOL


class Unit:
    """A user entry, an answer, or an exchange: a head, and the results of its calls in call order."""

    __slots__ = ("_entries", "head", "indexes", "kind", "results", "start")

    def __init__(self, kind: UnitKind, head: ConversationEntry, start: int, calls: int = 0) -> None:
        self.kind = kind
        self.head = head
        self.start = start
        self.indexes = [start, *[-1] * calls]  # positions in the record, -1 for a missing result
        self.results: list[ConversationEntry | None] = [None] * calls
        self._entries: tuple[ConversationEntry, ...] | None = None

    @property
    def entries(self) -> tuple[ConversationEntry, ...]:
        """The head and its results in call order, with a placeholder for each missing one."""
        if self._entries is None:
            pairs = zip(self.results, self.head.tool_calls or (), strict=True)
            results = [result or placeholder(call.id, call.name) for result, call in pairs]
            self._entries = (self.head, *results)
        return self._entries

    def with_result(self, place: int, entry: ConversationEntry, index: int) -> Unit:
        """Return a copy that has a result of one of its calls; the unit may be known elsewhere."""
        unit = Unit(self.kind, self.head, self.start)
        unit.indexes, unit.results = self.indexes.copy(), self.results.copy()
        unit.indexes[place], unit.results[place - 1] = index, entry
        return unit


def placeholder(call_id: str, tool_name: str | None) -> ConversationEntry:
    """Return a marked result for a call that was never answered."""
    return ConversationEntry(
        _TOOL,
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

    It goes on from an `earlier` pairing of the beginning of these very entries, whose `units` are the
    same up to `first_changed`. Lists without a word about it hold positions in `units`.
    """

    def __init__(
        self, entries: Sequence[ConversationEntry], earlier: Pairing | None = None
    ) -> None:
        self._entries = entries
        if earlier is None:
            self.units: list[Unit] = []
            self.users: list[int] = []
            self.questions: list[int] = []  # what users said that asks for something
            self.pinned: list[int] = []
            self.barriers: list[int] = []  # nothing before one of these is sent
            self.waiting: set[int] = set()  # for results
            self.system: list[tuple[int, ConversationEntry]] = []  # with positions in the record
            self.unused_results: dict[int, str] = {}  # positions of those in no unit, and why
            self.late_results: list[int] = []  # positions of results that changed an older unit
            self.exchanges: dict[str, int] = {}  # the latest one that carries a call id
            self._latest = -1  # the exchange that a result without an id answers
            start = 0
        else:
            for name, value in vars(earlier).items():
                if isinstance(value, (list, set, dict)) and name != "_entries":
                    setattr(self, name, value.copy())
            self._latest, start = earlier._latest, len(earlier._entries)
        self.first_changed = self._shared_units = len(self.units)
        for index in range(start, len(entries)):
            self._add(entries[index], index)

    def _add(self, entry: ConversationEntry, index: int) -> None:
        role = entry.role
        position: int | None = len(self.units)
        if role is _TOOL:
            position = self._add_result(entry, index)
        elif role is _ASSISTANT:
            if not entry.tool_calls:
                self.units.append(Unit("assistant", entry, index))
            else:
                self._add_exchange(entry, index)
        elif role is _USER:
            if entry.is_real_user:
                self.users.append(len(self.units))
                if asks_for_something(entry):
                    self.questions.append(len(self.units))
            self.units.append(Unit("user", entry, index))
            self._latest = -1
        else:
            self.system.append((index, entry))
            return
        if position is not None:
            self.first_changed = min(self.first_changed, position)
            if entry.pinned and position not in self.pinned:
                insort(self.pinned, position)
            if entry.barrier:
                self.barriers.append(position)

    def _add_exchange(self, entry: ConversationEntry, index: int) -> None:
        entry = _without_repeated_calls(entry)
        self._latest = position = len(self.units)
        self.exchanges.update((call.id, position) for call in entry.tool_calls or ())
        self.units.append(Unit("exchange", entry, index, len(entry.tool_calls or ())))
        self.waiting.add(position)

    def _add_result(self, entry: ConversationEntry, index: int) -> int | None:
        call_id = entry.tool_call_id
        position = self.exchanges.get(call_id, -1) if call_id else self._latest
        if position < 0:
            self.unused_results[index] = ORPHAN
            return None
        unit, place = self.units[position], 0
        for at, call in enumerate(unit.head.tool_calls or (), start=1):
            if not call_id or call.id == call_id:
                place = at
                if unit.indexes[at] < 0:
                    break
        replaced = unit.indexes[place]
        if replaced >= 0:
            if not call_id:
                self.unused_results[index] = ORPHAN
                return None
            if self._entries[replaced].content and not (entry.content or entry.parts):
                self.unused_results[index] = "second, empty result for the same call"
                return position
            self.unused_results[replaced] = "a later result for the same call took its place"
        if replaced >= 0 or position != len(self.units) - 1:
            self.late_results.append(index)
        if position < self._shared_units:
            self.units[position] = unit = unit.with_result(place, entry, index)
        else:
            unit.indexes[place], unit.results[place - 1] = index, entry
        if -1 not in unit.indexes:
            self.waiting.discard(position)
        return position

    @property
    def newest_answer(self) -> int:
        """Position of the last unit that is no user entry, before which the last request was made.

        0 where users alone have spoken, -1 where there is no unit.
        """
        position = len(self.units) - 1
        while position > 0 and self.units[position].kind == "user":
            position -= 1
        return position

    def barrier_before(self, position: int) -> int:
        """Return the latest barrier up to and with a position; 0 for none."""
        found = bisect_right(self.barriers, position)
        return self.barriers[found - 1] if found else 0


def asks_for_something(entry: ConversationEntry) -> bool:
    """Return whether a user entry is more than a bracketed marker of a host or a courtesy."""
    text = (entry.content or "").strip()
    if not text or len(text) > _LONGEST_MARKER:
        return True
    if text[0] == "[" and text.find("]") == len(text) - 1:
        return False
    return not _COURTESIES.issuperset(_WORD.findall(text.lower()))


def _without_repeated_calls(entry: ConversationEntry) -> ConversationEntry:
    calls = entry.tool_calls or ()
    unique = calls if len(calls) == 1 else tuple(dict.fromkeys(calls))
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
    return out + [entry for _, entry in reversed(waiting)]
