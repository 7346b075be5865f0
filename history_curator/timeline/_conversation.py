"""`Conversation`: the messages of one conversation as they were read, and what they were read as."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from copy import deepcopy
from operator import attrgetter, is_
from sys import getsizeof
from typing import Any

from history_curator.formats import MessageFormat, differ
from history_curator.errors import ConversionError
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.timeline._timeline import Timeline

_PER_ENTRY = 2_000
"""Bytes held for an entry, its twin, its unit and what is known of it, beside the texts."""


class Conversation:
    """One conversation, read once.

    A message is recognised by what it says. Each is read from a twin, a copy nobody else has, so
    an edit in place shows as a difference and reaches nothing that was read before. A conversation
    is a cache and nothing else: reading the same messages anew gives the same entries and units.

    Attributes:
        format: reads and writes the messages.
        seen: what each message was made of when it was read, as `MessageFormat.peek` shows it.
        record: the entries and their units.
        curated: what the managers made of the record on the last call.
        between: what one of them was given after another had edited it.
        edits: the managers' edited copies by the entry they were made of, so that an equal copy
            is the same one on the next call.
    """

    __slots__ = (
        "_firsts",
        "_places",
        "_texts",
        "_typed",
        "between",
        "curated",
        "format",
        "edits",
        "record",
        "seen",
    )

    def __init__(self, format: MessageFormat) -> None:
        self.format = format
        self.seen: list[Any] = []
        self.record = Timeline()
        self.curated = Timeline()
        self.between = Timeline()
        self.edits: dict[int, ConversationEntry] = {}
        self._firsts = array("L")  # for each message, the position of its first entry
        self._places: dict[int, int] = {}  # by the identity of a twin, where its message stands
        self._texts = 0  # bytes
        self._typed: dict[int, str] = {}  # messages with numbers: 1 and True are equal, not alike

    @property
    def size(self) -> int:
        """Bytes held, about: what was read shares the texts of the twins."""
        return _PER_ENTRY * len(self.record.entries) + self._texts

    def follow(self, messages: Sequence[Any], seen: Sequence[Any], shared: int) -> None:
        """Take over what is new or different.

        Args:
            messages: the conversation as it is now.
            seen: what the messages are made of.
            shared: how many are as they were read, see `shared`.
        """
        # All are read before one is recorded: an error leaves everything as it was.
        changed = self._changed_system(messages, seen, shared)
        if None in changed.values():
            shared = min(at for at, read in changed.items() if read is None)
        places = [*range(shared, len(messages))]
        twins = _twins(self.format, messages[shared:], places)
        start = self._firsts[shared] if shared < len(self.seen) else len(self.record.entries)
        entries: list[ConversationEntry] = []
        firsts, sources = array("L"), dict[int, int]()
        for twin, at in zip(twins, places, strict=True):
            made = self.format.read(twin, at)
            firsts.append(start + len(entries))
            if made:
                sources[id(made[0].source)] = at
            entries += made
        for at, read in changed.items():
            if at < shared and read is not None:
                self._swap(at, *read)
        if shared < len(self.seen):
            self._forget_from(shared)
        self.seen += self.format.peek(twins)
        self._firsts += firsts
        self._places |= sources
        self.record.extend(entries)
        self._weigh(shared)

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
        for at, typed in self._typed.items():
            if at < shared and typed != self._typed_at(seen[at]):
                return at
        return shared

    def _weigh(self, start: int) -> None:
        """Take down what the texts of the messages from a place on take, and their numbers."""
        texts: list[str | bytes] = []
        numbers: list[float] = []
        _sort(self.seen[start:], texts, numbers)
        self._texts += sum(map(getsizeof, texts))
        for at, seen in enumerate(self.seen[start:] if numbers else (), start):
            if typed := self._typed_at(seen):
                self._typed[at] = typed

    def _typed_at(self, seen: Any) -> str:
        """Return what tells a message with numbers from one that is merely equal."""
        numbers: list[float] = []
        _sort((getattr(self.format, "typed", _same)(seen),), [], numbers)
        return repr(numbers) if numbers else ""

    def _is_system(self, at: int) -> bool:
        entries = self.entries_at(at)
        return len(entries) == 1 and entries[0].role is MessageRole.SYSTEM

    def _changed_system(
        self, messages: Sequence[Any], seen: Sequence[Any], shared: int
    ) -> dict[int, tuple[Any, ConversationEntry] | None]:
        """System messages that differ, read anew; None for one that is a system message no more."""
        changed: dict[int, tuple[Any, ConversationEntry] | None] = {}
        for position, _ in self.record.pairing.system:
            at = bisect_right(self._firsts, position) - 1  # the message it was read from
            if at < shared and differ(self.seen[at], seen[at]):
                (twin,) = _twins(self.format, messages[at : at + 1], [at])
                entries = self.format.read(twin, at)
                alike = len(entries) == 1 and entries[0].role is MessageRole.SYSTEM
                changed[at] = (twin, entries[0]) if alike else None
        return changed

    def _swap(self, at: int, twin: Any, entry: ConversationEntry) -> None:
        self.seen[at] = self.format.peek([twin])[0]
        del self._places[id(self.entries_at(at)[0].source)]
        self._places[id(entry.source)] = at
        self.record.with_system(self._firsts[at], entry)

    def _forget_from(self, at: int) -> None:
        entries = self.record.entries[: self._firsts[at]]
        self.record = self.record.followed_by(entries)
        del self.seen[at:], self._firsts[at:]
        self._places = {twin: place for twin, place in self._places.items() if place < at}
        self.curated, self.between = Timeline(), Timeline()
        self.edits.clear()
        self._typed.clear()
        self._texts = 0
        self._weigh(0)

    def entries_at(self, at: int) -> list[ConversationEntry]:
        """Return the entries that a message was read as."""
        end = self._firsts[at + 1] if at + 1 < len(self._firsts) else len(self.record.entries)
        return self.record.entries[self._firsts[at] : end]

    def size_before(self, at: int) -> int:
        """Return the cheap size of all that was said before the unit a message stands in."""
        units = self.record.pairing.units
        place = bisect_right(units, self._firsts[at], key=attrgetter("start"))
        return units[place - 1].offset if place else 0

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
        if (
            known is None
            or known.original is not entry.original
            or (known, known.reason, known.action) != (entry, entry.reason, entry.action)
        ):
            self.edits[id(entry.original)] = known = entry
        return known

    def write(self, view: Sequence[ConversationEntry], messages: Sequence[Any]) -> list[Any]:
        """Return the messages of a view; an untouched one is the very message that was given."""
        written = self.format.write(view)
        if getattr(self.format, "immutable", False):
            return written
        place_of = self._places.get
        return [
            message if (at := place_of(id(message))) is None else messages[at]
            for message in written
        ]


def _twins(format: MessageFormat, messages: Sequence[Any], places: Sequence[int]) -> Sequence[Any]:
    """Return copies of messages that nobody else has; they read as the messages do."""
    if getattr(format, "immutable", False):
        return messages
    try:
        return [*map(getattr(format, "twin", deepcopy), messages)]
    except (ConversionError, TypeError, ValueError, RecursionError):
        for message, at in zip(messages, places, strict=True):
            format.read(message, at)  # where it cannot be read, this says so better
        raise


def _sort(values: Iterable[Any], texts: list[str | bytes], numbers: list[float]) -> None:
    """Sort what plain data is made of: texts, also those of images and files, and numbers."""
    for value in values:
        if value.__class__ is str:
            texts.append(value)
        elif isinstance(value, dict):
            _sort(value.values(), texts, numbers)
        elif isinstance(value, (list, tuple)):
            _sort(value, texts, numbers)
        elif isinstance(value, (str, bytes)):
            texts.append(value)
        elif isinstance(value, (int, float)):
            numbers.append(value)


def _same(seen: Any) -> Any:
    return seen
