"""A format reads one kind of message into entries and writes entries back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from history_curator.formats._fields import MAX_DEPTH, too_deep
from history_curator.entries import ConversationEntry

__all__ = ["MessageFormat", "Gathered", "GatheringFormat", "copied", "differ"]


class Gathered(tuple[Any, ...]):
    """Several messages that are one to the core, such as the output items of one answer."""

    __slots__ = ()


class MessageFormat(Protocol):
    """How messages of one kind become entries and come back.

    A message may become several entries (an Anthropic user message with two tool results and a
    text is three), marked by `ConversationEntry.span`. Reading never changes the message. What had
    to be read as something else than it is, is named in `ConversationEntry.repairs`. A format
    whose messages cannot be edited in place may say so with ``immutable = True``. What is given is
    passed through `gathered` before it is read: see `GatheringFormat`.
    """

    name: str

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entries of one message, each with `source=message` and `sequence=index`.

        Raises:
            ConversionError: naming the index, the field and the fix.
        """

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return messages; untouched entries come back as the very objects they came from.

        What was gathered comes back gathered; `scattered` makes single messages of it again.
        """

    def peek(self, messages: Sequence[Any]) -> list[Any]:
        """Return what each message is made of, as it is now: plain data, nothing copied."""

    def twin(self, message: Any) -> Any:
        """Return a copy of a message that reads as it does, and that no edit in place reaches.

        Two messages are the same in everything that is read or written if and only if `peek` shows
        the same of both.
        """


class GatheringFormat(MessageFormat, Protocol):
    """A format some of whose messages only make sense together.

    The reasoning, the text and the calls of one answer of OpenAI Responses are items of a list.
    """

    def gather(self, messages: Sequence[Any]) -> Sequence[Any]:
        """Return the messages with those that only make sense together as one `Gathered`.

        To be called once on a whole conversation; the methods below take what it returns. It
        returns the list it was given when there is nothing to gather. The answer depends on the
        content of the messages alone.
        """


def copied(value: Any, depth: int = 0) -> Any:
    """Return a value with every dict, list and tuple in it copied; the rest of it is shared.

    Raises:
        ConversionError: for a value nested deeper than any provider takes.
    """
    kind = value.__class__
    if kind is str or value is None:
        return value
    if depth > MAX_DEPTH:
        raise too_deep()
    if isinstance(value, dict):
        made = dict(value)
        for key, item in made.items():
            if item.__class__ is not str:
                made[key] = copied(item, depth + 1)
        return made
    if isinstance(value, list):
        return [copied(item, depth + 1) for item in value]
    if isinstance(value, tuple):
        items = [copied(item, depth + 1) for item in value]
        return Gathered(items) if kind is Gathered else tuple(items)
    return bytes(value) if kind is bytearray else value


def differ(one: Any, other: Any) -> bool:
    """Return whether values differ, also where comparing them is an error."""
    try:
        return bool(one != other)
    except Exception:  # noqa: BLE001 - whatever a caller's values raise
        return True


class GatheredDicts:
    """What a format can do whose messages are mappings, some of them gathered to one."""

    def peek(self, messages: Sequence[Any]) -> list[Any]:
        """Return the messages as dicts."""
        return [
            message if message.__class__ in (dict, Gathered) else dict(message)
            for message in messages
        ]

    def twin(self, message: Any) -> Any:
        """Return a copy of the message that shares its texts."""
        return copied(message if message.__class__ in (dict, Gathered) else dict(message))
