"""A record that grows: messages read once, grouped once, recognised again on the next call."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from history_curator.dialect import Dialect, differ
from history_curator.errors import ConversionError
from history_curator.model import ConversationEntry, MessageRole
from history_curator.structure._body import Body
from history_curator.structure._pairing import Pairing
from history_curator.structure._shown import Shown
from history_curator.structure._watch import Watch


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
        "_watch",
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
        self.firsts = array("L")
        self.pairing = Pairing()
        self.pinned: list[int] = []
        self.memory: dict[str, Any] = {}
        self._watch: Watch | None = None
        if dialect is not None and not getattr(dialect, "immutable", False):
            self._watch = Watch(dialect, self.messages)

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
        if index == entry.sequence:
            index = entry.sequence  # One number less to hold.
        unit = self.pairing.add(entry, index)
        if entry.pinned and unit is not None and unit not in self.pinned:
            self.pinned.append(unit)

    def extend(self, messages: Sequence[Any]) -> None:
        """Read and record further messages."""
        dialect = self.dialect
        assert dialect is not None
        read, base = dialect.read, len(self.messages)
        # All are read before one is recorded: an error leaves everything as it was.
        fresh = [read(message, base + offset) for offset, message in enumerate(messages)]
        self.messages.extend(messages)
        recorded, firsts, add = self.entries, self.firsts, self.add_entry
        for entries in fresh:
            firsts.append(len(recorded))
            for entry in entries:
                add(entry)
        if self._watch is not None:
            inside = (
                place for place, entries in enumerate(fresh, base) if _has_inside(entries, dialect)
            )
            self._watch.extend(messages, inside)

    def swap_first(self, message: Any) -> bool:
        """Put a new system message in the place of the first one.

        Prompt templates make a new system message for every call; the rest is the same history.
        """
        assert self.dialect is not None
        system = self.pairing.system
        if not system or system[0][0] != 0 or list(self.firsts[1:2]) not in ([1], []):
            return False
        entries = self.dialect.read(message, 0)
        if len(entries) != 1 or entries[0].role is not system[0][1].role:
            return False
        self.messages[0] = message
        if self._watch is not None:
            self._watch.swap_first(message, inside=_has_inside(entries, self.dialect))
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
        del self.messages[length:]
        if self._watch is not None and not self._watch.truncate(length, self._reread):
            return False
        del self.firsts[length:]
        self.entries = self.entries[:restart]  # a report may still hold the longer list
        self.pinned = [unit for unit in self.pinned if unit < len(self.pairing.units)]
        for entry in again:
            self.add_entry(entry)
        return True

    def shared_prefix(self, messages: Sequence[Any]) -> int:
        """How many leading messages are equal.

        Lists compare at C speed, identical objects without looking at them. Equal is not yet
        identical, and identical is not yet unedited: `write` looks at what reaches the view.
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

    def verify(self, messages: Sequence[Any]) -> bool:
        """Whether all messages are the very objects given, unedited since they were read."""
        return self._watch is None or self._watch.all_unedited(messages, self._reread)

    def write(
        self,
        view: list[ConversationEntry],
        messages: Sequence[Any],
        dialect: Dialect,
        *,
        body: Body | None = None,
        lead: int = 0,
    ) -> list[Any] | None:
        """Return the messages of a view; None when some were edited since they were read.

        Replaced content is noticed wherever this view or the last one shows the message, and an
        edit inside content blocks wherever this one does; any other edit (of a name, an argument)
        in the newest messages.

        Args:
            view: the entries.
            messages: what was given.
            dialect: writes them; another object than the one that read them, perhaps.
            body: what of the view is known from the last call, if anything is.
            lead: how many entries stand before the body.
        """
        watch, recorded, reread = self._watch, self.messages, self._reread
        if watch is None:
            return dialect.write(view)
        if body is not None:
            middle, around = body.shown(dialect, recorded), Shown()
            around.add([*view[:lead], *view[lead + len(body.entries) :]], dialect, recorded)
            if middle.one_to_one and around.one_to_one:
                given = watch.unedited(messages, middle.runs + around.runs, body, reread)
                return None if given is None else _write(given, middle, around, lead, dialect)
        read = [entry for entry in view if entry.source is not None]
        if any(_source(entry, recorded) is not entry.source for entry in read):
            return None
        runs = [(entry.sequence, entry.sequence + 1) for entry in read]
        given = watch.unedited(messages, runs, None, reread)
        return None if given is None else dialect.write(view)

    def _reread(self, message: Any, place: int, *, edited: bool) -> bool:
        """Whether a message still reads as it did, and so does what was made of it.

        An edit may have changed nothing that is read, such as an id or a mark of the caller's;
        but shortened and repaired copies hold what the message held then.
        """
        assert self.dialect is not None
        known = self._entries_of(place)
        if edited and any(map(_may_have_copies, known)):
            return False
        try:
            now = self.dialect.read(message, place)
        except ConversionError:
            return False
        return not differ(known, list(now)) and not any(
            differ(one.metadata, other.metadata) for one, other in zip(known, now, strict=True)
        )

    def _entries_of(self, place: int) -> list[ConversationEntry]:
        """What the message at a place was read as."""
        start = self.firsts[place]
        end = self.firsts[place + 1] if place + 1 < len(self.firsts) else len(self.entries)
        return self.entries[start:end]


def _write(
    given: list[Any], middle: Shown, around: Shown, lead: int, dialect: Dialect
) -> list[Any]:
    """The messages of a view of which each is written alone: those given, and copies.

    Args:
        given: the messages at the places of the middle, then those around it.
        middle: the body of the view.
        around: what stands before and behind it.
        lead: how many of these stand before it.
        dialect: writes the copies.
    """
    count = middle.count
    for at, message in zip(middle.edited_at, dialect.write(middle.edited), strict=True):
        given[at] = message
    for at, message in zip(around.edited_at, dialect.write(around.edited), strict=True):
        given[count + at] = message
    return [*given[count : count + lead], *given[:count], *given[count + lead :]]


def _source(entry: ConversationEntry, recorded: Sequence[Any]) -> Any:
    """The message at the place an entry says it was read from."""
    return recorded[entry.sequence] if 0 <= entry.sequence < len(recorded) else None


def _has_inside(entries: Sequence[ConversationEntry], dialect: Dialect) -> bool:
    """Whether the message of entries can be edited inside its content."""
    return any(entry.parts is not None for entry in entries) or not dialect.alone(entries)


def _may_have_copies(entry: ConversationEntry) -> bool:
    """Whether the ladder or a rule may have made shortened or repaired copies of an entry."""
    return (
        entry.role is MessageRole.TOOL
        or entry.tool_calls is not None
        or entry.checked.__class__ is dict
    )
