"""The conversations a curator has seen lately, found again by what they say or by their key."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from history_curator.dialects import Dialect
from history_curator.timeline._conversation import Conversation

CACHE_BYTES = 64 * 2**20
"""How much a curator holds of the conversations it has seen, in bytes."""
_NAMED = 3
"""A conversation is found by its whole, and without its last message or two: hosts put a richer
question in the place of the last one, or try once more."""


class Conversations:
    """Conversations seen lately, each lent to one call at a time. Bounded in bytes.

    It never decides what a view is: a conversation that is not here, or is lent to somebody else,
    is read anew. One is found by its key, or where all its messages are those at the beginning of
    what is given; nothing else of it is looked at before.

    Args:
        limit: bytes held, about.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._lock = Lock()
        self._names: dict[Hashable, dict[int, Conversation]] = {}
        self._held: OrderedDict[int, tuple[Conversation, list[Hashable]]] = OrderedDict()
        self._size = 0

    @contextmanager
    def lend(
        self, dialect: Dialect, messages: Sequence[Any], key: Hashable = None
    ) -> Iterator[Conversation]:
        """Lend the conversation of these messages, up to date with them.

        Nobody else has it until it is given back.
        """
        seen = _seen(dialect, messages)
        conversation, shared = self._find(dialect, seen, key)
        conversation.dialect = dialect
        conversation.follow(messages, seen, shared)
        try:
            yield conversation
        finally:
            self._keep(conversation, key)

    def _find(
        self, dialect: Dialect, seen: Sequence[Any], key: Hashable
    ) -> tuple[Conversation, int]:
        """The conversation, or a new one, and how many messages it shares with what is given."""
        if key is not None:
            found = self._take((dialect.name, key)) or Conversation(dialect)
            return found, found.shared(seen)
        for length in range(len(seen), 0, -1):
            name = _name(dialect, seen, length)
            if name not in self._names:
                continue
            passed: list[Conversation] = []
            while (candidate := self._take(name)) is not None:
                shared = candidate.shared(seen)
                if shared >= length:
                    break
                passed.append(candidate)
            for other in passed:
                self._keep(other, None)
            if candidate is not None:
                return candidate, shared
        return Conversation(dialect), 0

    def _take(self, name: Hashable) -> Conversation | None:
        with self._lock:
            candidates = self._names.get(name)
            if not candidates:
                return None
            number = next(reversed(candidates))
            return self._remove(number)

    def _remove(self, number: int) -> Conversation:
        conversation, names = self._held.pop(number)
        self._size -= conversation.size
        for name in names:
            named = self._names[name]
            del named[number]
            if not named:
                del self._names[name]
        return conversation

    def _keep(self, conversation: Conversation, key: Hashable) -> None:
        if conversation.size > self._limit:
            return
        dialect, seen = conversation.dialect, conversation.seen
        lengths = range(len(seen), max(0, len(seen) - _NAMED), -1)
        names: list[Hashable] = [_name(dialect, seen, length) for length in lengths]
        if key is not None:
            names = [(dialect.name, key)]
        number = id(conversation)
        with self._lock:
            for name in names[:1]:  # one is enough of each
                for other in [
                    other
                    for other, known in self._names.get(name, {}).items()
                    if key is not None or known.seen == seen
                ]:
                    self._remove(other)
            self._held[number] = (conversation, names)
            self._size += conversation.size
            for name in names:
                self._names.setdefault(name, {})[number] = conversation
            while self._size > self._limit:
                self._remove(next(iter(self._held)))


def _seen(dialect: Dialect, messages: Sequence[Any]) -> list[Any]:
    """Return what the messages are made of; as they are where one cannot even be looked at."""
    try:
        return dialect.peek(messages)
    except Exception:  # noqa: BLE001 - reading it says what is wrong with it
        return list(messages)


def _name(dialect: Dialect, seen: Sequence[Any], length: int) -> Hashable:
    """Return a name for a beginning: its length and what its last message says."""
    return dialect.name, length, _print(seen[length - 1])


def _print(value: Any, depth: int = 4) -> int:
    """Return a cheap fingerprint of plain data: its texts, and the length of the rest."""
    if value.__class__ in (str, int):
        return hash(value)
    if not depth:
        return 0
    if isinstance(value, dict):
        return hash(tuple([_print(item, depth - 1) for item in value.values()]))
    if isinstance(value, (list, tuple)):
        return hash((len(value), *[_print(item, depth - 1) for item in value[:4]]))
    return 0
