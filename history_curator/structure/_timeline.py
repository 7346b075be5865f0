"""A record that grows: messages read once, grouped once, recognised again on the next call."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from operator import is_, itemgetter
from typing import Any

from history_curator.dialect import Dialect, differ
from history_curator.model import ConversationEntry, MessageRole
from history_curator.structure._body import Body, messages_of
from history_curator.structure._pairing import Pairing


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
        self.firsts = array("L")
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
        self._glances.extend(dialect.glance(messages))
        recorded, firsts, add = self.entries, self.firsts, self.add_entry
        for entries in fresh:
            firsts.append(len(recorded))
            for entry in entries:
                add(entry)

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
        self._prints.pop(0, None)
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
        self._prints = {place: seen for place, seen in self._prints.items() if place < length}
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
        self,
        view: Sequence[ConversationEntry],
        messages: Sequence[Any],
        recent: int = 16,
        *,
        body: Body | None = None,
        lead: int = 0,
    ) -> bool:
        """Whether the view's messages are the very objects given, unedited since they were read.

        Replaced content is noticed wherever the view shows it, and so is an edit inside content
        blocks; any other edit (of a name, an argument) in its newest `recent` entries. A message
        that is not in the view cannot make it wrong.

        Args:
            view: the entries.
            messages: what was given.
            recent: how many of the newest are looked at closely.
            body: what of the view is known from the last call, if anything is.
            lead: how many entries stand before the body.
        """
        dialect = self.dialect
        if dialect is None or getattr(dialect, "immutable", False):
            return True
        if body is None:
            sources, places, blocks = messages_of(view)
        else:
            sources, places, blocks = body.trace()
            more = messages_of([*view[:lead], *view[lead + len(body.entries) :]])
            blocks = [*blocks, *(len(places) + at for at in more[2])]
            sources, places = [*sources, *more[0]], [*places, *more[1]]
        if not all(map(is_, sources, _gather(messages, places))):
            return False
        if dialect.glance(sources) != _gather(self._glances, places):
            return False
        older = [at for at in blocks if at < len(places) - recent] if blocks else ()
        shown = [entry for entry in view[-recent:] if entry.source is not None]
        return self._unedited(
            [*(entry.source for entry in shown), *(sources[at] for at in older)],
            [*(entry.sequence for entry in shown), *(places[at] for at in older)],
        )

    def _unedited(self, sources: list[Any], places: list[int]) -> bool:
        """Whether messages look as they did when they were first looked at."""
        assert self.dialect is not None
        known, snapshot = self._prints, self.dialect.snapshot
        if not known.keys() >= set(places):
            if len(known) > 16 + len(places):
                known = self._prints = {at: known[at] for at in places if at in known}
            for place, source in zip(places, sources, strict=True):
                if place not in known:
                    known[place] = snapshot(source)
        now = self.dialect.peek(sources)
        then = list(map(known.__getitem__, places))
        if not differ(now, then):
            return True
        for place, source, new, old in zip(places, sources, now, then, strict=True):
            if differ(new, old):
                if not self._reads_the_same(source, place):
                    return False
                known[place] = snapshot(source)
        return True

    def _reads_the_same(self, message: Any, place: int) -> bool:
        """Whether an edit changed nothing that is read, such as an id or a mark of the caller's.

        Nothing else may have been made of the message: copies hold what it held then.
        """
        assert self.dialect is not None
        start = self.firsts[place]
        end = self.firsts[place + 1] if place + 1 < len(self.firsts) else len(self.entries)
        known, now = self.entries[start:end], self.dialect.read(message, place)
        if len(known) != len(now) or any(map(_may_have_copies, known)):
            return False
        return not differ(known, list(now)) and not any(
            differ(one.metadata, other.metadata) for one, other in zip(known, now, strict=True)
        )


def _may_have_copies(entry: ConversationEntry) -> bool:
    """Whether the ladder or a rule may have made shortened or repaired copies of an entry."""
    return (
        entry.role is MessageRole.TOOL
        or entry.tool_calls is not None
        or entry.checked.__class__ is dict
    )


def _gather(items: Sequence[Any], places: list[int]) -> list[Any]:
    """The items at these places, at C speed."""
    return list(itemgetter(*places)(items)) if len(places) > 1 else [items[at] for at in places]
