"""A dialect reads one kind of message into entries and writes entries back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from history_curator.model import ConversationEntry

__all__ = ["Dialect", "copied", "differ"]


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

    def alone(self, entries: Sequence[ConversationEntry]) -> bool:
        """Return whether each entry is written as one message, whatever stands beside it.

        An untouched one as the very message it came from.
        """

    def glance(self, messages: Sequence[Any]) -> list[Any]:
        """Return one object per message whose identity changes when the content is replaced.

        Runs over the whole view on every call, so it must not do more than pick it up.
        """

    def peek(self, messages: Sequence[Any]) -> list[Any]:
        """Return what each message is made of, as it is now: plain data, nothing copied."""

    def snapshot(self, message: Any) -> Any:
        """Return what `peek` shows of a message, for good: edits in place do not reach it."""


def copied(value: Any) -> Any:
    """Return a value with every dict, list and tuple in it copied; the rest of it is shared."""
    if value.__class__ is str:
        return value
    if isinstance(value, dict):
        return {key: item if item.__class__ is str else copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(copied, value))
    if isinstance(value, tuple):
        return tuple(map(copied, value))
    return value


def differ(one: Any, other: Any) -> bool:
    """Return whether values differ, also where comparing them is an error."""
    try:
        return bool(one != other)
    except Exception:  # noqa: BLE001 - whatever a caller's values raise
        return True
