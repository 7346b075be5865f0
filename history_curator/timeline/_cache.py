"""The conversations a curator has seen lately, found again by what they say or by their key."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from history_curator.formats import MessageFormat
from history_curator.timeline._conversation import Conversation

CACHE_BYTES = 64 * 2**20
"""How much a curator holds of the conversations it has seen, in bytes."""
_NAMED = 3
"""A conversation is found by its whole, and without its last message or two: hosts put a richer
question in the place of the last one, or try once more."""


Name = tuple[Hashable, ...]
"""The format and a key, or the format, a length and what the last message of a beginning says."""


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
        self._names: dict[Name, dict[int, Conversation]] = {}
        self._lengths: Counter[Hashable] = Counter()  # of the beginnings that have a name
        self._held: OrderedDict[int, tuple[Conversation, list[Name]]] = OrderedDict()
        self._size = 0

    @contextmanager
    def lend(
        self, format: MessageFormat, messages: Sequence[Any], key: Hashable = None
    ) -> Iterator[Conversation]:
        """Lend the conversation of these messages, up to date with them.

        Nobody else has it until it is given back.
        """
        seen = _seen(format, messages)
        names = _Names(format.name, seen, key)
        conversation, shared = self._find(format, seen, names)
        conversation.format = format
        conversation.follow(messages, seen, shared)
        try:
            yield conversation
        finally:
            self._keep(conversation, names.kept)

    def _find(
        self, format: MessageFormat, seen: Sequence[Any], names: _Names
    ) -> tuple[Conversation, int]:
        """The conversation, or a new one, and how many messages it shares with what is given."""
        if names.key is not None:
            found, _ = self._take(names.kept[0]) or (Conversation(format), [])
            return found, found.shared(seen)
        for length in range(len(seen), 0, -1):
            if length not in self._lengths:
                continue
            name = names.of(length)
            if name not in self._names:
                continue
            passed = []
            while (candidate := self._take(name)) is not None:
                shared = candidate[0].shared(seen)
                if shared >= length:
                    break
                passed.append(candidate)
            for other, known in passed:
                self._keep(other, known)
            if candidate is not None:
                return candidate[0], shared
        return Conversation(format), 0

    def _take(self, name: Name) -> tuple[Conversation, list[Name]] | None:
        with self._lock:
            candidates = self._names.get(name)
            if not candidates:
                return None
            number = next(reversed(candidates))
            return self._remove(number)

    def _remove(self, number: int) -> tuple[Conversation, list[Name]]:
        conversation, names = self._held.pop(number)
        self._size -= conversation.size
        for name in names:
            named = self._names[name]
            del named[number]
            if not named:
                del self._names[name]
                self._lengths[name[1]] -= 1
                if not self._lengths[name[1]]:
                    del self._lengths[name[1]]
        return conversation, names

    def _keep(self, conversation: Conversation, names: list[Name]) -> None:
        if conversation.size > self._limit or not names:
            return
        number, keyed = id(conversation), len(names[0]) == len(("format", "key"))
        with self._lock:
            for other, known in list(self._names.get(names[0], {}).items()):
                if keyed or known.seen == conversation.seen:  # one is enough of each
                    self._remove(other)
            self._held[number] = (conversation, names)
            self._size += conversation.size
            for name in names:
                if name not in self._names:
                    self._names[name] = {}
                    self._lengths[name[1]] += 1
                self._names[name][number] = conversation
            while self._size > self._limit:
                self._remove(next(iter(self._held)))


class _Names:
    """The names of one conversation: its key, or its beginnings."""

    def __init__(self, format: str, seen: Sequence[Any], key: Hashable) -> None:
        self.key = key
        self._format = format
        self._seen = seen
        self._known: dict[int, Name] = {}

    def of(self, length: int) -> Name:
        """Return the name of a beginning: its length and what its last message says."""
        name = self._known.get(length)
        if name is None:
            name = self._known[length] = (self._format, length, _print(self._seen[length - 1]))
        return name

    @property
    def kept(self) -> list[Name]:
        """What it is found by next time."""
        if self.key is not None:
            return [(self._format, self.key)]
        count = len(self._seen)
        return [self.of(length) for length in range(count, max(0, count - _NAMED), -1)]


def _seen(format: MessageFormat, messages: Sequence[Any]) -> list[Any]:
    """Return what the messages are made of; as they are where one cannot even be looked at."""
    try:
        return format.peek(messages)
    except Exception:  # noqa: BLE001 - reading it says what is wrong with it
        return list(messages)


def _print(value: Any, depth: int = 4) -> int:
    """Return a cheap fingerprint of plain data: its texts, and the length of the rest."""
    if value.__class__ is str or value.__class__ is int:
        return hash(value)
    if not depth:
        return 0
    if isinstance(value, dict):
        return hash(tuple([_print(item, depth - 1) for item in value.values()]))
    if isinstance(value, (list, tuple)):
        return hash((len(value), *[_print(item, depth - 1) for item in value[:4]]))
    return 0
