"""The MessageFormat protocol, and what every format needs: keys, copies, careful reading of fields."""

from __future__ import annotations

import json
import marshal
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from history_curator.entries import ConversationEntry
from history_curator.errors import ConversionError, HistoryCuratorError, a_type
from history_curator.formats.json_text import (
    MAX_DEPTH,
    arguments_text,
    too_deep,
)

_PLAIN = frozenset((str, int, bool, type(None), bytes, bytearray))
_TEXTS = frozenset((str, type(None)))
_STR = frozenset((str,))
_TYPE_NAMES = {
    str: "a string", int: "a number", float: "a number", Mapping: "an object",
    list: "a list", tuple: "a list", bool: "true or false",
}  # fmt: skip


class MessageGroup(tuple[Any, ...]):
    """Several messages that are read as one, such as the output items of one answer."""

    __slots__ = ()


class MessageFormat(Protocol):
    """How messages of one kind become entries and come back.

    A message may become several entries, marked by `ConversationEntry.span`: an Anthropic user
    message with two tool results and a text is three. A format may have a method
    ``gather(messages)``, which returns the messages with those that only make sense together as
    one `MessageGroup`; the methods below take such a group for a message.
    """

    name: str

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entries of one message, each with `source=message` and `sequence=index`."""

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return messages: the very objects of untouched entries, patched copies of edited ones."""

    def key_of(self, message: Any) -> Hashable:
        """Return what a message says, exactly: equal keys read and write the same."""

    def snapshot(self, message: Any) -> Any:
        """Return a copy of a message that reads as it does, and that no edit in place reaches."""


def unreadable(error: Exception, index: int | None) -> ConversionError:
    """Return the error for a value whose own methods fail, such as ``items()`` of a dict subclass."""
    problem = f"it cannot be read: {type(error).__name__}."
    return ConversionError(problem, index=index, fix="pass plain dicts, lists and texts.")


def copy_value(value: Any, depth: int = 0) -> Any:
    """Return a value with every dict, list and tuple in it copied; the rest of it is shared."""
    kind = value.__class__
    if kind is str or value is None:
        return value
    if depth > MAX_DEPTH:
        raise too_deep()
    if isinstance(value, dict):
        copy = dict(value)
        for key, item in copy.items():
            if item.__class__ is not str:
                copy[key] = copy_value(item, depth + 1)
        return copy
    if isinstance(value, (list, tuple)):
        items = [copy_value(item, depth + 1) for item in value]
        if isinstance(value, list):
            return items
        return MessageGroup(items) if kind is MessageGroup else tuple(items)
    return bytes(value) if kind is bytearray else value


def key_of_dict(message: Any) -> Hashable:
    """Return the key of a message that is a mapping; see `MessageFormat.key_of`."""
    if (
        message.__class__ is dict
        and _TEXTS.issuperset(map(type, message.values()))
        and _STR.issuperset(map(type, message))
    ):
        return tuple(message.items())
    try:
        return marshal.dumps(message, 0)  # without references, so that equal values are equal bytes
    except ValueError:
        return freeze(message)


def freeze(value: Any, depth: int = 0) -> Hashable:
    """Return a hashable that is equal for equal values of equal types only.

    Dicts, lists and tuples are looked into; so is the ``__dict__`` of any other object.
    """
    kind = value.__class__
    if kind is str or value is None:
        return value  # type: ignore[no-any-return]
    if depth > MAX_DEPTH:
        raise too_deep()
    if isinstance(value, Mapping):
        try:
            pairs = list(value.items())
        except Exception as error:
            raise unreadable(error, None) from error
        return (kind, tuple([(freeze(k, depth + 1), freeze(v, depth + 1)) for k, v in pairs]))
    if isinstance(value, (list, tuple)):
        return (kind, tuple([freeze(item, depth + 1) for item in value]))
    fields = getattr(value, "__dict__", None)
    if isinstance(fields, dict) and not isinstance(value, type) and fields:
        return (kind, freeze(fields, depth + 1))
    try:
        hash(value)
    except TypeError:
        return (kind, repr(value))
    return (kind, repr(value) if kind is float else value)


class MappingFormat:
    """A format whose messages are mappings: its keys, its copies and its errors."""

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entries of one message, or of one group."""
        try:
            return self.read_message(message, Reading(index))
        except HistoryCuratorError:
            raise
        except Exception as error:
            raise unreadable(error, index) from error

    def read_message(self, message: Any, reading: Reading) -> tuple[ConversationEntry, ...]:
        """Read a message; an error that is not ours is turned into one."""
        raise NotImplementedError

    def key_of(self, message: Any) -> Hashable:
        """Return what a message says, exactly."""
        if message.__class__ is MessageGroup:
            return (MessageGroup, *map(key_of_dict, message))
        return key_of_dict(message)

    def snapshot(self, message: Any) -> Any:
        """Return a copy that shares its texts."""
        is_other_mapping = isinstance(message, Mapping) and not isinstance(message, dict)
        return copy_value(dict(message) if is_other_mapping else message)


def count_untouched(entries: Sequence[ConversationEntry], position: int) -> int:
    """Return how many entries from a position on are exactly one untouched source message."""
    first = entries[position]
    if first.original is not None or first.source is None:
        return 0
    if first.span is None:
        return 1
    place, count = first.span
    run = entries[position : position + count]
    is_whole = not place and len(run) == count
    is_whole = is_whole and all(
        entry.source is first.source and entry.original is None and entry.span == (step, count)
        for step, entry in enumerate(run)
    )
    return count if is_whole else 0


class Reading:
    """One message being read: where it stands, and what had to be repaired to read it."""

    __slots__ = ("counts", "index", "known", "repairs")

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.repairs: list[str] = []
        self.known: frozenset[str] = frozenset()  # fields that its format takes
        self.counts: Counter[tuple[str, str]] = Counter()  # of calls without ids of their own

    @property
    def note(self) -> str | None:
        """The repairs, in words for a person."""
        return "; ".join(dict.fromkeys(self.repairs)) or None

    def error(self, problem: str, field: str | None, fix: str) -> ConversionError:
        """Return an error that names the message and the field."""
        return ConversionError(problem, index=self.index, field=field, fix=fix)

    def require(self, value: Any, types: Any, field: str) -> Any:
        """Return a value if it is of these types, or raise an error that says which it may be of."""
        if isinstance(value, types):
            return value
        wanted = [_TYPE_NAMES[each] for each in (types if isinstance(types, tuple) else (types,))]
        fix = f"make it {' or '.join(dict.fromkeys(wanted))}."
        raise self.error(f"it is {a_type(value)}.", field, fix)

    def text_of(self, value: Any, field: str) -> str:
        """Return an id or a name; an empty text where there is none."""
        found: str = self.require("" if value is None else value, str, field)
        return found

    def list_of(self, value: Any, field: str) -> Sequence[Any]:
        """Return a value that has to be a list; an empty one in place of nothing."""
        found: Sequence[Any] = self.require(value or (), (list, tuple), field)
        return found

    def check_json(self, value: Any, field: str, depth: int = 0) -> None:
        """Raise an error for a value that JSON cannot carry (bytes can be), or that is too deep."""
        if value.__class__ in _PLAIN or isinstance(value, (str, int)):
            return
        if depth > MAX_DEPTH:
            raise too_deep(self.index, field)
        if isinstance(value, Mapping):
            for key, item in value.items():
                self.require(key, str, f"{field}, a key")
                self.check_json(item, field, depth + 1)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.check_json(item, field, depth + 1)
        elif not (isinstance(value, float) and math.isfinite(value)):
            problem = f"{value!r:.80} is nothing that JSON can carry."
            raise self.error(problem, field, "make it a text, a number, a list or an object.")

    def arguments(self, value: Any, field: str) -> str:
        """Return arguments that should have been JSON text as such."""
        if isinstance(value, str):
            return value
        self.repairs.append(f"{field}: the arguments were {a_type(value)}, not text")
        self.check_json(value, field)
        return arguments_text(value)

    def object_text(self, value: Any, field: str) -> str:
        """Return the text of arguments that are an object."""
        if value is None:
            self.repairs.append(f"{field}: a call without arguments")
        return arguments_text(self.require({} if value is None else value, Mapping, field))

    def free_text(self, value: Any, field: str) -> str:
        """Return the arguments of a tool that takes free text: an object that holds it."""
        return json.dumps({"input": self.require(value, str, field)}, ensure_ascii=False)


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_text(value: Any) -> str | None:
    """Return a text as it is, anything else as None."""
    return value if isinstance(value, str) else None


def type_of(block: Any) -> str:
    """Return the type that a block or an item names, an empty text where it names none."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    return kind if isinstance(kind, str) else ""


MARKS = "cache marks"
"""How long the cache marks of a result last, in its metadata; an empty list: none is written."""


def find_marks(blocks: Iterable[Any]) -> list[str]:
    """Return how long each cache mark of some blocks lasts: "5m" or "1h"."""
    marks = (as_mapping(as_mapping(block).get(_mark_key(block))) for block in blocks)
    return ["1h" if mark.get("ttl") == "1h" else "5m" for mark in marks if mark]


def _mark_key(block: Any) -> str:
    """Return the key of the mark: of a block of Anthropic, or of a cache point of Bedrock."""
    return "cache_control" if "cache_control" in as_mapping(block) else "cachePoint"


def without_mark(block: Any) -> Any:
    """Return a block without its cache mark; None for one that is nothing else."""
    if not find_marks([block]):
        return block
    return {key: block[key] for key in block if key != _mark_key(block)} or None
