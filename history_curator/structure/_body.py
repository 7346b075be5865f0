"""The part of a view that only grows, with what was worked out about it so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from history_curator.dialect import Dialect
from history_curator.model import ConversationEntry


class Body:
    """The entries of a view that stay as they are while its lines do: all but the newest unit.

    Entries are only ever added, so where their messages stand and what they are written as is
    worked out once for each, however often the view is asked for.

    Attributes:
        key: names the lines; a body is of use while they have that name.
        counted: position of the first unit that is not in it yet.
        head: how many of its entries stand before the cut line.
        entries: what it shows.
        tokens: what they cost.
    """

    __slots__ = (
        "_alone",
        "_blocks",
        "_edited",
        "_edited_at",
        "_messages",
        "_places",
        "_sources",
        "_traced",
        "counted",
        "entries",
        "head",
        "key",
        "tokens",
    )

    def __init__(self, key: object = None, counted: int = 0) -> None:
        self.key = key
        self.counted = counted
        self.head = 0
        self.entries: list[ConversationEntry] = []
        self.tokens = 0
        self._sources: list[Any] = []
        self._places: list[int] = []
        self._blocks: list[int] = []
        self._traced = 0
        self._alone = True
        self._messages: list[Any] = []
        self._edited: list[ConversationEntry] = []
        self._edited_at: list[int] = []

    def add(self, form: tuple[int, Sequence[ConversationEntry]]) -> None:
        """Add a unit in one of its forms: what it costs, and its entries."""
        self.tokens += form[0]
        self.entries.extend(form[1])

    def trace(self) -> tuple[list[Any], list[int], list[int]]:
        """Return what `messages_of` does for all of it; only what was added is looked at."""
        if self._traced < len(self.entries):
            sources, places, blocks = messages_of(self.entries[self._traced :])
            self._blocks += [len(self._places) + at for at in blocks]
            self._sources += sources
            self._places += places
            self._traced = len(self.entries)
        return self._sources, self._places, self._blocks

    def write(self, dialect: Dialect) -> list[Any] | None:
        """The messages of the body; None when some can only be written with their neighbours.

        Untouched messages are those that were given; edited ones come from the dialect every time,
        which knows who may have changed them since.
        """
        known = len(self._messages)
        added = self.entries[known:]
        if added and self._alone:
            self._alone = dialect.alone(added)
            if self._alone:
                for entry, message in zip(added, dialect.write(added), strict=True):
                    if message is not entry.source:
                        self._edited_at.append(len(self._messages))
                        self._edited.append(entry)
                    self._messages.append(message)
        if not self._alone:
            return None
        messages = self._messages[:]
        for at, message in zip(self._edited_at, dialect.write(self._edited), strict=True):
            messages[at] = message
        return messages


def messages_of(
    entries: Sequence[ConversationEntry],
) -> tuple[list[Any], list[int], list[int]]:
    """Return the messages that entries were read from and still show.

    With them: where they stand among the messages given, and which of them are made of blocks.
    """
    sources: list[Any] = []
    places: list[int] = []
    blocks: list[int] = []
    for entry in entries:
        # A cleared result shows nothing of its message.
        if entry.source is not None and (entry.seldom is None or entry.action != "cleared"):
            if entry.parts is not None:
                blocks.append(len(places))
            sources.append(entry.source)
            places.append(entry.sequence)
    return sources, places, blocks
