"""Messages that need no reading."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from history_curator.errors import ConversionError
from history_curator.entries import ConversationEntry


class _Same:
    """A key that is equal for one and the same entry only: equal ones may differ in metadata."""

    __slots__ = ("entry",)

    def __init__(self, entry: Any) -> None:
        self.entry = entry

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.entry is self.entry

    def __hash__(self) -> int:
        return id(self.entry)


class EntryFormat:
    """Messages that are entries already."""

    name = "entries"
    immutable = True

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entry itself, bound to itself as its source."""
        if not isinstance(message, ConversationEntry):
            raise ConversionError(
                f"expected a ConversationEntry, got {type(message).__name__}.",
                index=index,
                fix="one list holds one kind of message.",
            )
        return (message,)

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return the entries."""
        return list(entries)

    def key_of(self, message: Any) -> Hashable:
        """Return a key that holds the entry itself: entries are frozen."""
        return _Same(message)

    def peek(self, messages: Sequence[Any]) -> list[Any]:
        """An entry is known by who it is: equal ones may differ in their metadata."""
        return [(id(message), message, message.content) for message in messages]

    def typed(self, seen: Any) -> Any:
        """Nothing: the same entry has the same numbers, there is no need to spell them out."""
        return None

    def snapshot(self, message: Any) -> Any:
        """Entries are frozen."""
        return message
