"""`Conversation`: the messages of one conversation as they were read, and what they were read as."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from copy import deepcopy
from operator import attrgetter, is_
from sys import getsizeof
from typing import Any

from history_curator.dialects import Dialect, differ
from history_curator.errors import ConversionError
from history_curator.model import ConversationEntry, MessageRole
from history_curator.timeline._timeline import Timeline

_PER_ENTRY = 2_000
"""Bytes held for an entry, its twin, its unit and what is known of it, beside the texts."""


class Conversation:
    """One conversation, read once.

    A message is recognised by what it says. Each is read from a twin, a copy nobody else has, so
    an edit in place shows as a difference and reaches nothing that was read before. A conversation
    is a cache and nothing else: reading the same messages anew gives the same entries and units.

    Attributes:
        dialect: reads and writes the messages.
        seen: what each message was made of when it was read, as `Dialect.peek` shows it.
        record: the entries and their units.
        curated: what the managers made of the record on the last call.
        between: what one of them was given after another had edited it.
        edits: the managers' edited copies by the entry they were made of, so that an equal copy
            is the same one on the next call.
        size: bytes held, about.
    """

    __slots__ = (
        "_firsts",
        "_places",
        "_typed",
        "between",
        "curated",
        "dialect",
        "edits",
        "record",
        "seen",
        "size",
    )

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.seen: list[Any] = []
        self.record = Timeline()
        self.curated = Timeline()
        self.between = Timeline()
        self.edits: dict[int, ConversationEntry] = {}
        self.size = 0
        self._firsts = array("L")  # for each message, the position of its first entry
        self._places: dict[int, int] = {}  # by the identity of a twin, where its message stands
        self._typed: dict[int, str] = {}  # messages with numbers: 1 and True are equal, not alike

    def follow(self, messages: Sequence[Any], seen: Sequence[Any], shared: int) -> None:
        """Take over what is new or different.

        Args:
            messages: the conversation as it is now.
            seen: what the messages are made of.
            shared: how many are as they were read, see `shared`.
        """
        # All are read before one is recorded: an error leaves everything as it was.
        changed = self._changed_system(messages, seen, shared)
        if any(entries is None for entries in changed.values()):
            shared = min(at for at, entries in changed.items() if entries is None)
        twins = [_twin(self.dialect, message, at) for at, message in _from(messages, shared)]
        fresh = [self.dialect.read(twin, at) for at, twin in enumerate(twins, shared)]
        for at, read in changed.items():
            if at < shared and read is not None:
                self._swap(at, *read)
        if shared < len(self.seen):
            self._forget_from(shared)
        self.seen += self.dialect.peek(twins)
        for at in range(shared, len(self.seen)):
            typed = self._typed_at(self.seen[at])
            if typed is not None:
                self._typed[at] = typed
        for at, entries in enumerate(fresh, shared):
            self._firsts.append(len(self.record.entries))
            if entries:
                self._places[id(entries[0].source)] = at
            for entry in entries:
                self.record.add(entry)
            self.size += _held_for(entries, self.seen[at])

    def shared(self, seen: Sequence[Any]) -> int:
        """Return how many leading messages are as they were read, system messages aside."""
        known = self.seen
        shared = len(known)
        if len(known) > len(seen) or differ(known, seen[: len(known)]):
            shared = min(len(known), len(seen))
            for at, (old, new) in enumerate(zip(known, seen, strict=False)):
                if differ(old, new) and not self._is_system(at):
                    shared = at
                    break
        other = (
            at
            for at, typed in self._typed.items()
            if at < shared and typed != self._typed_at(seen[at])
        )
        return min(shared, next(other, shared)) if self._typed and shared else shared

    def _typed_at(self, seen: Any) -> str | None:
        """Return what tells a message with numbers from one that is merely equal."""
        typed = getattr(self.dialect, "typed", None)
        found = seen if typed is None else typed(seen)
        return repr(found) if _has_numbers(found) else None

    def _is_system(self, at: int) -> bool:
        entries = self.entries_at(at)
        return len(entries) == 1 and entries[0].role is MessageRole.SYSTEM

    def _changed_system(
        self, messages: Sequence[Any], seen: Sequence[Any], shared: int
    ) -> dict[int, tuple[Any, ConversationEntry] | None]:
        """System messages that differ, read anew; None for one that is a system message no more."""
        changed: dict[int, tuple[Any, ConversationEntry] | None] = {}
        for position, _ in self.record.pairing.system:
            at = self._message_at(position)
            if at < shared and differ(self.seen[at], seen[at]):
                twin = _twin(self.dialect, messages[at], at)
                entries = self.dialect.read(twin, at)
                alike = len(entries) == 1 and entries[0].role is MessageRole.SYSTEM
                changed[at] = (twin, entries[0]) if alike else None
        return changed

    def _swap(self, at: int, twin: Any, entry: ConversationEntry) -> None:
        self.seen[at] = self.dialect.peek([twin])[0]
        del self._places[id(self.entries_at(at)[0].source)]
        self._places[id(entry.source)] = at
        self.record.with_system(self._firsts[at], entry)

    def _forget_from(self, at: int) -> None:
        entries = self.record.entries[: self._firsts[at]]
        self.record = self.record.followed_by(entries)
        del self.seen[at:], self._firsts[at:]
        self._places = {twin: place for twin, place in self._places.items() if place < at}
        self._typed = {place: typed for place, typed in self._typed.items() if place < at}
        self.curated, self.between = Timeline(), Timeline()
        self.edits.clear()
        self.size = sum(
            _held_for(self.entries_at(each), seen) for each, seen in enumerate(self.seen)
        )

    def entries_at(self, at: int) -> list[ConversationEntry]:
        """Return the entries that a message was read as."""
        end = self._firsts[at + 1] if at + 1 < len(self._firsts) else len(self.record.entries)
        return self.record.entries[self._firsts[at] : end]

    def size_before(self, at: int) -> int:
        """Return the cheap size of all that was said before the unit a message stands in."""
        units = self.record.pairing.units
        place = bisect_right(units, self._firsts[at], key=attrgetter("start"))
        return units[place - 1].offset if place else 0

    def _message_at(self, position: int) -> int:
        """The message an entry was read from."""
        low, high = 0, len(self._firsts)
        while low + 1 < high:
            middle = (low + high) // 2
            if self._firsts[middle] <= position:
                low = middle
            else:
                high = middle
        return low

    def timeline_of(self, entries: Sequence[ConversationEntry]) -> Timeline:
        """Return the timeline of entries: the record's, or one that goes on from the last call."""
        record = self.record
        if len(entries) == len(record.entries) and all(map(is_, entries, record.entries)):
            return record
        self.between = self.between.followed_by(entries)
        return self.between

    def curate(self, entries: Sequence[ConversationEntry]) -> Timeline:
        """Return the timeline of what the managers returned, which may go on from the last call."""
        self.curated = self.curated.followed_by(entries)
        return self.curated

    def known_edit(self, entry: ConversationEntry) -> ConversationEntry:
        """Return the edited copy of the last call where this one is equal to it."""
        known = self.edits.get(id(entry.original))
        if known is None or known.original is not entry.original or not _alike(known, entry):
            self.edits[id(entry.original)] = known = entry
        return known

    def write(self, view: Sequence[ConversationEntry], messages: Sequence[Any]) -> list[Any]:
        """Return the messages of a view; an untouched one is the very message that was given."""
        written = self.dialect.write(view)
        if getattr(self.dialect, "immutable", False):
            return written
        place_of = self._places.get
        return [
            message if (at := place_of(id(message))) is None else messages[at]
            for message in written
        ]


def _held_for(entries: Sequence[ConversationEntry], seen: Any) -> int:
    """Return how many bytes are held for a message, about: what it was read as shares its texts."""
    read = sum(
        getsizeof(entry.content) + sum(len(call.arguments) for call in entry.tool_calls or ())
        for entry in entries
    )
    return _PER_ENTRY * len(entries) + max(read, _size_of(seen))


def _size_of(value: Any) -> int:
    """Return how many bytes the texts in plain data take: also those of images and files."""
    if isinstance(value, (str, bytes)):
        return getsizeof(value)
    if isinstance(value, dict):
        return sum(map(_size_of, value.values()))
    return sum(map(_size_of, value)) if isinstance(value, (list, tuple)) else 0


def _from(messages: Sequence[Any], start: int) -> list[tuple[int, Any]]:
    return list(enumerate(messages[start:], start))


def _twin(dialect: Dialect, message: Any, index: int) -> Any:
    """Return a copy of a message that nobody else has; it reads as the message does."""
    if getattr(dialect, "immutable", False):
        return message
    twin = getattr(dialect, "twin", deepcopy)
    try:
        return twin(message)
    except (ConversionError, TypeError, ValueError, RecursionError):
        dialect.read(message, index)  # where it cannot be read, this says so better
        raise


def _has_numbers(value: Any) -> bool:
    kind = value.__class__
    if kind is str or value is None:
        return False
    if isinstance(value, dict):
        return any(map(_has_numbers, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_numbers, value))
    return isinstance(value, (int, float))


def _alike(one: ConversationEntry, other: ConversationEntry) -> bool:
    return (
        one == other
        and one.reason == other.reason
        and one.action == other.action
        and one.handle == other.handle
        and one.pinned == other.pinned
        and one.parts == other.parts
    )
