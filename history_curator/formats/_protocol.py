"""A format reads one kind of message into entries and writes entries back."""

from __future__ import annotations

import marshal
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

from history_curator.formats._fields import MAX_DEPTH, too_deep
from history_curator.entries import ConversationEntry

__all__ = [
    "MessageFormat",
    "Gathered",
    "GatheringFormat",
    "copied",
    "differ",
    "freeze",
    "key_of_dict",
]


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

    def key_of(self, message: Any) -> Hashable:
        """Return what a message says, exactly: equal keys read and write the same.

        An edit in place gives another key. 1, 1.0 and True differ.
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


_TEXTS = frozenset((str, type(None)))


def key_of_dict(message: Any) -> Hashable:
    """Return the key of a message that is a mapping; see `MessageFormat.key_of`."""
    if message.__class__ is dict and _TEXTS.issuperset(map(type, message.values())):
        return tuple(message.items())
    try:
        return marshal.dumps(message, 0)  # without references, so that equal values are equal bytes
    except ValueError:
        return freeze(message)


def freeze(value: Any, depth: int = 0) -> Hashable:
    """Return a hashable that is equal for equal values of equal types only.

    Dicts, lists and tuples are looked into; an object that cannot be hashed by what it holds, such
    as an instance of a class, is looked into where it has a ``__dict__``.

    Raises:
        ConversionError: for a value nested deeper than any provider takes.
    """
    kind = value.__class__
    if kind is str or value is None:
        return value  # type: ignore[no-any-return]
    if depth > MAX_DEPTH:
        raise too_deep()
    if isinstance(value, Mapping):
        items = [(freeze(key, depth + 1), freeze(item, depth + 1)) for key, item in value.items()]
        return (kind, tuple(items))
    if isinstance(value, (list, tuple)):
        return (kind, tuple([freeze(item, depth + 1) for item in value]))
    if kind in (int, float, bool, bytes):
        return (kind, repr(value) if kind is float else value)
    if kind is bytearray:
        return (kind, bytes(value))
    fields = getattr(value, "__dict__", None)
    if isinstance(fields, dict) and not isinstance(value, type) and fields:
        return (kind, freeze(fields, depth + 1))
    try:
        hash(value)
    except TypeError:
        return (kind, repr(value))
    return (kind, value)


class GatheredDicts:
    """What a format can do whose messages are mappings, some of them gathered to one."""

    def key_of(self, message: Any) -> Hashable:
        """Return what a message says, exactly."""
        if message.__class__ is Gathered:
            return (Gathered, *map(key_of_dict, message))
        return key_of_dict(message)

    def peek(self, messages: Sequence[Any]) -> list[Any]:
        """Return the messages as dicts."""
        return [
            message if message.__class__ in (dict, Gathered) else dict(message)
            for message in messages
        ]

    def twin(self, message: Any) -> Any:
        """Return a copy of the message that shares its texts."""
        return copied(message if message.__class__ in (dict, Gathered) else dict(message))
