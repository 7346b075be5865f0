"""A record that grows: messages read once, grouped once, recognised again on the next call."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any

from history_curator.dialect import Dialect, differ
from history_curator.model import ConversationEntry, MessageRole
from history_curator.structure._body import Body
from history_curator.structure._pairing import Pairing
from history_curator.structure._shown import Shown

RECENT = 16
"""How many of the newest messages are looked at closely for edits in place."""


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
        "_blocks",
        "_glances",
        "_last",
        "_newest",
        "_older",
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
        self._blocks: set[int] = set()  # places of messages that can be edited inside
        self._last: Shown | None = None  # of the last view
        self._newest: list[Any] = []
        self._older: dict[int, Any] = {}

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
        for place, entries in enumerate(fresh, base):
            firsts.append(len(recorded))
            for entry in entries:
                add(entry)
                if entry.parts is not None:
                    self._blocks.add(place)
        self._watch(messages)

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
        self._older.pop(0, None)
        if len(self._newest) == len(self.messages):
            self._newest[0] = self.dialect.snapshot(message)
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
        self._blocks = {place for place in self._blocks if place < length}
        self._older = {place: seen for place, seen in self._older.items() if place < length}
        start = len(self.messages) - len(self._newest)
        del self.messages[length:], self._glances[length:], self.firsts[length:]
        del self._newest[max(0, length - start) :]
        if self.dialect is not None:
            now = self.messages[max(0, length - RECENT) : start]
            self._newest[:0] = map(self.dialect.snapshot, now)
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

    def verify(self, messages: Sequence[Any]) -> bool:
        """Whether all messages are the very objects given, unedited since they were read."""
        if self.dialect is None or getattr(self.dialect, "immutable", False):
            return True
        return (
            all(map(is_, self.messages, messages))
            and self.dialect.glance(messages) == self._glances
            and self._unedited(messages, range(len(messages)))
        )

    def write(
        self,
        view: list[ConversationEntry],
        messages: Sequence[Any],
        *,
        body: Body | None = None,
        lead: int = 0,
    ) -> list[Any] | None:
        """Return the messages of a view; None when some were edited since they were read.

        Replaced content is noticed wherever the view shows the message, and so is an edit inside
        content blocks; any other edit (of a name, an argument) in the newest messages. A message
        that is not in the view cannot make it wrong.

        Args:
            view: the entries.
            messages: what was given.
            body: what of the view is known from the last call, if anything is.
            lead: how many entries stand before the body.
        """
        dialect, recorded = self.dialect, self.messages
        assert dialect is not None
        if getattr(dialect, "immutable", False):
            return dialect.write(view)
        if body is not None:
            middle, around = body.shown(dialect, recorded), Shown()
            around.add([*view[:lead], *view[lead + len(body.entries) :]], dialect, recorded)
            if middle.alone and around.alone:
                return self._write_stretches(messages, middle, around, lead)
        return self._write_each(view, messages)

    def _write_stretches(
        self, messages: Sequence[Any], middle: Shown, around: Shown, lead: int
    ) -> list[Any] | None:
        """A view whose messages are what its entries show, wherever else they stand."""
        assert self.dialect is not None
        dialect, glances = self.dialect, self._glances
        if self._last is not middle and not self._last_unedited(messages, middle):
            return None
        written, outer = middle.gather(messages), around.gather(messages)
        if dialect.glance(written + outer) != middle.gather(glances) + around.gather(glances):
            return None
        if not self._unedited(messages, middle.blocks + around.blocks):
            return None
        for at, message in zip(middle.edited_at, dialect.write(middle.edited), strict=True):
            written[at] = message
        for at, message in zip(around.edited_at, dialect.write(around.edited), strict=True):
            outer[at] = message
        return [*outer[:lead], *written, *outer[lead:]]

    def _write_each(
        self, view: Sequence[ConversationEntry], messages: Sequence[Any]
    ) -> list[Any] | None:
        """A view in which what a message is written as depends on its neighbours."""
        assert self.dialect is not None
        read = [entry for entry in view if entry.source is not None]
        places = [entry.sequence for entry in read]
        given = [messages[place] for place in places]
        if not all(entry.source is message for entry, message in zip(read, given, strict=True)):
            return None
        if self.dialect.glance(given) != [self._glances[place] for place in places]:
            return None
        if not self._last_unedited(messages, Shown((place, place + 1) for place in places)):
            return None
        blocks = [entry.sequence for entry in read if entry.parts is not None]
        return self.dialect.write(view) if self._unedited(messages, blocks) else None

    def _last_unedited(self, messages: Sequence[Any], shown: Shown) -> bool:
        """Whether the last view's messages have their content still; some may leave the view now.

        Otherwise the lines would lie where they do for messages that nobody has any more.
        """
        assert self.dialect is not None
        last, self._last = self._last, shown
        return last is None or (
            self.dialect.glance(last.gather(messages)) == last.gather(self._glances)
        )

    def _watch(self, messages: Sequence[Any]) -> None:
        """Remember what the newest messages are made of; these were just read."""
        assert self.dialect is not None
        if len(messages) > RECENT:
            self._retire(len(self._newest), len(self.messages) - len(messages))
        self._newest += map(self.dialect.snapshot, messages[-RECENT:])

    def _retire(self, count: int, end: int) -> None:
        """Watch some of the newest messages no longer, unless they can be edited inside.

        Args:
            count: how many, from the first.
            end: the place behind the last message that is watched.
        """
        if self._blocks:
            for place, seen in enumerate(self._newest[:count], end - len(self._newest)):
                if place in self._blocks:
                    self._older[place] = seen
        del self._newest[:count]

    def _unedited(self, messages: Sequence[Any], others: Sequence[int]) -> bool:
        """Whether the newest messages, and others at some places, look as they did when read."""
        assert self.dialect is not None
        newest, snapshot = self._newest, self.dialect.snapshot
        start = len(self.messages) - len(newest)
        now = self.dialect.peek(messages[start : len(self.messages)])
        if differ(now, newest):
            for at, (new, old) in enumerate(zip(now, newest, strict=True)):
                if differ(new, old):
                    if not self._reads_the_same(messages[start + at], start + at):
                        return False
                    newest[at] = snapshot(messages[start + at])
        if len(newest) > RECENT:
            self._retire(len(newest) - RECENT, len(self.messages))
        return not others or self._others_unedited(
            messages, [place for place in others if place < start]
        )

    def _others_unedited(self, messages: Sequence[Any], places: Sequence[int]) -> bool:
        """The same for messages that are watched from the first time they are looked at."""
        assert self.dialect is not None
        known, snapshot = self._older, self.dialect.snapshot
        if len(known) > RECENT + 2 * len(places):
            known = self._older = {at: known[at] for at in places if at in known}
        for place, new in zip(
            places, self.dialect.peek([messages[place] for place in places]), strict=True
        ):
            if place not in known:
                known[place] = snapshot(messages[place])
            elif differ(new, known[place]):
                if not self._reads_the_same(messages[place], place):
                    return False
                known[place] = snapshot(messages[place])
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
