"""A record that grows: messages read once, grouped once, recognised again on the next call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter, is_
from typing import Any

from history_curator.dialect import Dialect
from history_curator.model import ConversationEntry
from history_curator.structure._pairing import Pairing

_source = attrgetter("source")
_sequence = attrgetter("sequence")


class Timeline:
    """The read form of one conversation, extended in place when the conversation grows.

    It is a cache and nothing else: building it anew from the same messages gives the same
    entries, units and grid.

    Attributes:
        messages: the message objects read so far (held, so that their ids stay theirs).
        entries: everything recorded, in order.
        firsts: for each message, the position of its first entry.
        pairing: the units.
        memory: what the seal remembers of its last view, to save work.
        pinned: positions of the units that hold a pinned entry.
    """

    __slots__ = (
        "_glances",
        "_prints",
        "dialect",
        "entries",
        "firsts",
        "memory",
        "messages",
        "pairing",
        "pinned",
    )

    def __init__(self, dialect: Dialect | None = None) -> None:
        self.dialect = dialect
        self.messages: list[Any] = []
        self.entries: list[ConversationEntry] = []
        self.firsts: list[int] = []
        self.pairing = Pairing()
        self.pinned: list[int] = []
        self.memory: dict[str, Any] = {}
        self._glances: list[Any] = []
        self._prints: dict[int, Any] = {}

    @classmethod
    def of(cls, entries: Iterable[ConversationEntry]) -> Timeline:
        """A timeline of entries that need no reading."""
        timeline = cls()
        for entry in entries:
            timeline.add_entry(entry)
        return timeline

    def add_entry(self, entry: ConversationEntry) -> None:
        """Record one more entry."""
        index = len(self.entries)
        self.entries.append(entry)
        unit = self.pairing.add(entry, index)
        if entry.pinned and unit is not None and unit not in self.pinned:
            self.pinned.append(unit)

    def extend(self, messages: Sequence[Any]) -> None:
        """Read and record further messages."""
        dialect = self.dialect
        assert dialect is not None
        base = len(self.messages)
        fresh = [
            (message, dialect.read(message, base + offset))
            for offset, message in enumerate(messages)
        ]
        for message, entries in fresh:
            self.firsts.append(len(self.entries))
            self.messages.append(message)
            for entry in entries:
                self.add_entry(entry)
        self._glances.extend(dialect.glance(messages))

    def swap_first(self, message: Any) -> bool:
        """Put a new system message in the place of the first one.

        Prompt templates make a new system message for every call; the rest is the same history.
        """
        assert self.dialect is not None
        system = self.pairing.system
        if not system or system[0][0] != 0 or self.firsts[1:2] not in ([1], []):
            return False
        entries = self.dialect.read(message, 0)
        if len(entries) != 1 or entries[0].role is not system[0][1].role:
            return False
        self._prints.pop(id(self.messages[0]), None)
        self.messages[0], self._glances[0] = message, self.dialect.glance([message])[0]
        self.entries = [entries[0], *self.entries[1:]]
        system[0] = (0, entries[0])
        return True

    def truncate(self, length: int) -> bool:
        """Forget the messages from position `length` on. False when that is not possible."""
        at = self.firsts[length] if length < len(self.firsts) else len(self.entries)
        restart = self.pairing.rollback(self.entries, at)
        if restart is None:
            return False
        again = self.entries[restart:at]
        for message in self.messages[length:]:
            self._prints.pop(id(message), None)
        del self.messages[length:], self._glances[length:], self.firsts[length:]
        self.entries = self.entries[:restart]  # a report may still hold the longer list
        self.pinned = [unit for unit in self.pinned if unit < len(self.pairing.units)]
        for entry in again:
            self.add_entry(entry)
        return True

    def shared_prefix(self, messages: Sequence[Any]) -> int:
        """How many leading messages are equal.

        Lists compare at C speed, identical objects without looking at them. Equal is not yet
        identical, and identical is not yet unedited: `verify` looks at what reaches the view.
        """
        known = len(self.messages)
        if known <= len(messages) and self.messages == messages[:known]:
            return known
        count = 0
        for mine, given in zip(self.messages, messages, strict=False):
            if mine is not given:
                break
            count += 1
        return count

    def verify(
        self, view: Sequence[ConversationEntry], messages: Sequence[Any], recent: int = 32
    ) -> bool:
        """Whether the view's messages are the very objects given, unedited since they were read.

        Replaced content is noticed in the whole view, and so is an edit inside content blocks;
        any other edit (of a name, an argument) in its newest `recent` entries. A message that is
        not in the view cannot make it wrong.
        """
        dialect = self.dialect
        if dialect is None or getattr(dialect, "immutable", False):
            return True
        shown = [entry for entry in view if entry.source is not None]
        sources = list(map(_source, shown))
        places = list(map(_sequence, shown))
        if not all(map(is_, sources, map(messages.__getitem__, places))):
            return False
        if dialect.glance(sources) != list(map(self._glances.__getitem__, places)):
            return False
        known, fingerprint = self._prints, dialect.fingerprint
        fresh = True
        prints: dict[int, Any] = {}
        newest = len(shown) - recent
        for place, entry in enumerate(shown):
            if place < newest and entry.parts is None:
                continue
            key = id(entry.source)
            now = prints[key] = fingerprint(entry.source)
            if known.get(key, now) != now:
                fresh = False
        self._prints = prints
        return fresh
