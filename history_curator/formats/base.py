"""What every wire format needs: its protocol, keys and copies of messages, JSON, careful reading."""

from __future__ import annotations

import json
import marshal
import re
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Protocol

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError, HistoryCuratorError, a_type, name_value

MAX_DEPTH = 100
"""How deep a value may be nested. Far above what any provider or tool uses, and far below what the
interpreter's stack holds, so that the answer is the same wherever we are called from."""

_PLAIN = frozenset((str, bool, type(None), bytes, bytearray))
_TEXTS = frozenset((str, type(None)))
_STR = frozenset((str,))
_TYPE_NAMES = {
    str: "a string", int: "a number", float: "a number", Mapping: "an object",
    list: "a list", tuple: "a list", bool: "true or false",
}  # fmt: skip
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_MARK_KEYS = ("cache_control", "cachePoint")
"""The key of a cache mark: on a block of Anthropic, or of a cache point of Bedrock."""
MARKS = "cache marks"
"""How long the cache marks of a result last, in its metadata; an empty list: none is written."""


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


def too_deep(index: int | None = None, field: str | None = None) -> ConversionError:
    """Return the error for a value that is nested too deeply."""
    problem = f"a value is nested more than {MAX_DEPTH} levels deep."
    return ConversionError(
        problem, index=index, field=field, fix="flatten it, or pass it as one JSON text."
    )


def unreadable(error: Exception, index: int | None) -> ConversionError:
    """Return the error for a value whose own methods fail, such as ``items()`` of a dict subclass."""
    problem = f"it cannot be read: {type(error).__name__}."
    return ConversionError(problem, index=index, fix="pass plain dicts, lists and texts.")


def copy_value(value: Any, depth: int = 0) -> Any:
    """Return a value with every mapping, list and text in it a plain one; the rest of it is shared."""
    kind = value.__class__
    if kind is str or value is None:
        return value
    if depth > MAX_DEPTH:
        raise too_deep()
    if isinstance(value, (dict, Mapping)):
        copy = dict(value) if kind is dict else _copy_mapping(value)
        for key, item in copy.items():
            if item.__class__ is not str:
                copy[key] = copy_value(item, depth + 1)
        return copy
    if isinstance(value, (list, tuple)):
        items = [copy_value(item, depth + 1) for item in value]
        if isinstance(value, list):
            return items
        return MessageGroup(items) if kind is MessageGroup else tuple(items)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) and kind is not bool:
        return int(value)
    return bytes(value) if kind is bytearray else value


def _copy_mapping(value: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return any mapping as a dict; one whose methods fail does so here, and nowhere else."""
    copy = dict(value.items())
    for key in value:
        if key not in value or len(value) != len(copy):
            raise KeyError(key)
        value[key], value.get(key)
    return copy


def as_plain(message: Any) -> Any:
    """Return a message itself if it is made of plain values alone, else a copy that is."""
    if message.__class__ is MessageGroup:
        return MessageGroup(map(as_plain, message))
    try:
        marshal.dumps(message)
    except ValueError:
        try:
            return copy_value(message)
        except ConversionError:  # too deep: whoever reads it can say in which field
            return message
    return message


def freeze(value: Any, depth: int = 0) -> Hashable:
    """Return a hashable that is equal for equal values of equal types only.

    Dicts, lists and tuples are looked into; so is the ``__dict__`` of any other object.
    """
    kind = value.__class__
    if kind is str or value is None:
        return value  # type: ignore[no-any-return]
    if depth > MAX_DEPTH:
        raise too_deep()
    try:
        if isinstance(value, Mapping):
            pairs = [(freeze(k, depth + 1), freeze(v, depth + 1)) for k, v in value.items()]
            return (kind, tuple(pairs))
        if isinstance(value, (list, tuple)):
            return (kind, tuple([freeze(item, depth + 1) for item in value]))
        if isinstance(value, (str, int)):
            return (kind, copy_value(value))
        fields = getattr(value, "__dict__", None)
        if isinstance(fields, dict) and not isinstance(value, type) and fields:
            return (kind, freeze(fields, depth + 1))
    except ConversionError:
        raise
    except Exception as error:
        raise unreadable(error, None) from error
    try:
        hash(value)
    except TypeError:
        return (kind, repr(value))
    return (kind, repr(value) if kind is float else value)


class MappingFormat:
    """A format whose messages are mappings: its keys, its copies and its errors."""

    read_message: Callable[[Any, Reading], tuple[ConversationEntry, ...]]
    """Reads a message that is made of plain values."""

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entries of one message, or of one group."""
        if not isinstance(message, (Mapping, MessageGroup)):
            problem = f"expected a mapping, got {type(message).__name__}."
            raise ConversionError(
                problem, index=index, fix="pass dicts; one list holds one kind of message."
            )
        try:
            plain = as_plain(message)
            entries = self.read_message(plain, Reading(index))
        except HistoryCuratorError:
            raise
        except Exception as error:
            raise unreadable(error, index) from error
        return entries if plain is message else tuple([replace(e, source=message) for e in entries])

    def key_of(self, message: Any) -> Hashable:
        """Return what a message says, exactly."""
        if message.__class__ is MessageGroup:
            return (MessageGroup, *map(self.key_of, message))
        if (
            message.__class__ is dict
            and _TEXTS.issuperset(map(type, message.values()))
            and _STR.issuperset(map(type, message))
        ):
            return tuple(message.items())
        try:
            return marshal.dumps(message, 0)  # no references, so that equal values are equal bytes
        except ValueError:
            return freeze(message)

    def snapshot(self, message: Any) -> Any:
        """Return a copy that shares its texts."""
        try:
            return copy_value(message)
        except HistoryCuratorError:
            raise
        except Exception as error:
            raise unreadable(error, None) from error


def count_untouched(entries: Sequence[ConversationEntry], position: int) -> int:
    """Return how many entries from a position on are exactly one untouched source message."""
    first = entries[position]
    if first.original is not None or first.source is None:
        return 0
    if first.span is None:
        return 1
    count = first.span[1]
    run = entries[position : position + count]
    is_whole = len(run) == count and all(
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

    def role_of(self, given: Any, roles: Mapping[str, MessageRole]) -> MessageRole:
        """Return the role that a name of these stands for."""
        if isinstance(given, str) and given in roles:
            return roles[given]
        problem = f"unknown role: {name_value(given)}." if given else "the message has no role."
        raise self.error(problem, "role", f"use one of {', '.join(roles)}.")

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
        if value.__class__ in _PLAIN:
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
        elif not (isinstance(value, (int, float)) and abs(value) <= sys.float_info.max):
            shown = "so large a number" if isinstance(value, int) else f"{value!r:.80}"
            problem = f"{shown} is nothing that JSON can carry."
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
    return str.__str__(kind) if isinstance(kind, str) else ""


def find_marks(blocks: Iterable[Any]) -> list[str]:
    """Return how long each cache mark of some blocks lasts: "5m" or "1h"."""
    marks = (as_mapping(block).get(key) for block in blocks for key in _MARK_KEYS)
    return ["1h" if mark.get("ttl") == "1h" else "5m" for mark in map(as_mapping, marks) if mark]


def without_mark(block: Any) -> Any:
    """Return a block without its cache mark; None for one that is nothing else."""
    if not find_marks([block]):
        return block
    return {key: block[key] for key in block if key not in _MARK_KEYS} or None


def arguments_text(arguments: Any) -> str:
    """Return arguments as JSON text; text is kept as it is, even when it is not JSON."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return "{}"
    try:
        return _ENCODER.encode(arguments)
    except RecursionError:
        raise too_deep() from None
    except (TypeError, ValueError):  # keys that JSON has no words for
        return repr(arguments)


def parse_json(text: str) -> Any:
    """Return what a JSON text says; NaN and the infinities are null.

    Raises:
        ValueError: when it is not JSON, or nested deeper than `MAX_DEPTH`.
    """
    if text.count("{") + text.count("[") > MAX_DEPTH:
        steps = (1 if char in "[{" else -1 for char in _BRACKET.findall(_STRING.sub("", text)))
        if max(accumulate(steps), default=0) > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    return _DECODER.decode(text)


def parse_object(text: str) -> dict[str, Any] | None:
    """Return the object that a JSON text says; None when it says anything else."""
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def free_input(arguments: str) -> str:
    """Return the free text that `Reading.free_text` made arguments of."""
    given = (parse_object(arguments) or {}).get("input")
    return given if isinstance(given, str) else ""
