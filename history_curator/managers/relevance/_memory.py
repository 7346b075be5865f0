"""What is remembered of a conversation between calls: indexed once, only appended to.

A memory is a cache and nothing else: building it anew from the same entries gives the same
selections. It is lent to one call at a time and found by everything it holds, never by a part of
it: two conversations that open alike have nothing in common but their opening.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from operator import is_
from threading import Lock
from typing import Any

from history_curator.managers.relevance._finder import Search, Signals
from history_curator.managers.relevance._scorers import Scorer
from history_curator.entries import ConversationEntry
from history_curator.window._identifiers import Mentions, identifiers_of

_CONVERSATIONS, _RESULTS = 16, 64
"""How many conversations are remembered, and results of each."""


class Memory:
    """One conversation, in the hands of one call.

    Attributes:
        entries: what was said.
        search: finds what matters for a question.
        made: results worth keeping for the next call, such as a recollection, by what they
            depend on. Only the latest few are kept.
    """

    def __init__(self, scorer: Scorer | None = None, signals: Signals | None = None) -> None:
        self.entries: Sequence[ConversationEntry] = ()
        self.made: OrderedDict[Hashable, Any] = OrderedDict()
        self.search = Search(scorer, signals)
        self._mentions: list[Mentions] = []

    def shared(self, entries: Sequence[ConversationEntry]) -> int:
        """How many leading entries are equal; 0 where what was indexed is not all among them."""
        known, indexed = self.entries, max(len(self.search), 1)
        if not indexed <= min(len(known), len(entries)):
            return 0
        # Conversations that open alike differ at the end: look there first.
        if not _same(known[indexed - 1], entries[indexed - 1]):
            return 0
        count = _shared(known, entries)
        return count if count >= indexed else 0

    def follow(self, entries: Sequence[ConversationEntry]) -> None:
        """Take over what is new. What was indexed is the beginning of these entries."""
        shared = _shared(self.entries, entries)
        if shared < len(self.entries):
            del self._mentions[shared:]
            self.made.clear()
        self.entries = tuple(entries)

    def mentions(self, limit: int) -> list[Mentions]:
        """Return the identifiers of each of the first `limit` entries."""
        for entry in self.entries[len(self._mentions) : limit]:
            self._mentions.append(identifiers_of(entry))
        return self._mentions[:limit]

    def keep(self, key: Hashable, value: Any) -> None:
        """Remember a result, and forget the oldest ones."""
        self.made[key] = value
        while len(self.made) > _RESULTS:
            self.made.popitem(last=False)


class Memories:
    """The latest conversations, each lent to one call at a time. Bounded.

    Examples:
        >>> from history_curator.entries import MessageRole
        >>> memories = Memories()
        >>> said = [ConversationEntry(MessageRole.USER, "hi")]
        >>> with memories.lend(said) as memory, memories.lend(said) as other:
        ...     memory is other
        False
    """

    def __init__(self, scorer: Scorer | None = None, signals: Signals | None = None) -> None:
        self._scorer = scorer
        self._signals = signals
        self._idle: list[Memory] = []
        self._lock = Lock()

    @contextmanager
    def lend(self, entries: Sequence[ConversationEntry]) -> Iterator[Memory]:
        """Lend the memory of a conversation, up to date with these entries.

        Nobody else has it until it is given back. Where none is idle, a new one is made; one
        whose use failed is not taken back.
        """
        memory = self._take(entries) or Memory(self._scorer, self._signals)
        memory.follow(entries)
        yield memory
        with self._lock:
            self._idle.append(memory)
            del self._idle[:-_CONVERSATIONS]

    def _take(self, entries: Sequence[ConversationEntry]) -> Memory | None:
        with self._lock:
            shared = [memory.shared(entries) for memory in self._idle]
            most = max(shared, default=0)
            return self._idle.pop(shared.index(most)) if most else None


def _shared(known: Sequence[ConversationEntry], given: Sequence[ConversationEntry]) -> int:
    """Return how many leading entries are equal."""
    if len(known) <= len(given) and all(map(is_, known, given)):
        return len(known)
    count = 0
    for mine, other in zip(known, given, strict=False):
        if not _same(mine, other):
            break
        count += 1
    return count


def _same(mine: ConversationEntry, other: ConversationEntry) -> bool:
    return mine is other or (mine.content == other.content and mine == other)
