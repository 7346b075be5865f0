"""A dialect reads one kind of message into entries and writes entries back."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from history_curator.model import ConversationEntry

__all__ = ["Dialect", "write_each"]


class Dialect(Protocol):
    """How messages of one kind become entries and come back.

    A message may become several entries (an Anthropic user message with two tool results and a
    text is three), marked by `ConversationEntry.span`. Reading never changes the message. A dialect
    whose messages cannot be edited in place may say so with ``immutable = True``.
    """

    name: str

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entries of one message, each with `source=message` and `sequence=index`.

        Raises:
            ConversionError: naming the index, the field and the fix.
        """

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return messages; untouched entries come back as the very objects they came from."""

    def glance(self, messages: Sequence[Any]) -> list[Any]:
        """Return one object per message whose identity changes when the content is replaced.

        Runs over the whole view on every call, so it has to be a C-speed gather.
        """

    def fingerprint(self, message: Any) -> Hashable:
        """Return everything `read` looks at, to notice an edit inside nested values."""


def write_each(entries: Sequence[ConversationEntry], rebuild: Any) -> list[Any]:
    """Write one message per entry: the source where untouched, else ``rebuild(entry)``."""
    return [
        entry.source if entry.original is None and entry.source is not None else rebuild(entry)
        for entry in entries
    ]
