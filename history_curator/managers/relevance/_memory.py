"""What is remembered of a conversation between calls: read once, indexed once, only appended to.

A memory is a cache and nothing else: building it anew from the same entries gives the same
selections. It is lent to one call at a time and found by everything it holds, never by a part of
it: two conversations that open alike have nothing in common but their opening.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter, is_
from threading import Lock
from typing import Any

from history_curator.managers.relevance._compose import label, quote_cost
from history_curator.managers.relevance._finder import Search, Signals
from history_curator.managers.relevance._scorers import Scorer
from history_curator.managers.relevance._text import numpy
from history_curator.model import ConversationEntry
from history_curator.seal._identifiers import Mentions, identifiers_of
from history_curator.timeline import Timeline
from history_curator.tokens import TokenCounter

__all__ = ["Memories", "Memory"]


class Memory:
    """One conversation, in the hands of one call.

    Attributes:
        timeline: its entries, grouped into units.
        calls: how many entries so far call a tool.
        search: finds what matters for a question.
        made: results worth keeping for the next call, such as a recollection, by what they
            depend on. Only the latest few are kept.
    """

    def __init__(self, scorer: Scorer | None = None, signals: Signals | None = None) -> None:
        self.timeline = Timeline()
        self.calls = 0
        self.made: OrderedDict[Hashable, Any] = OrderedDict()
        self.search = Search(scorer, signals)
        self._mentions: list[Mentions] = []
        self._starts: array[int] = array("q")
        self._offsets: array[int] = array("q")
        self._counter = ""
        self._costs: array[int] = array("i")
        self._labels: dict[int, int] = {}

    def shared(self, entries: Sequence[ConversationEntry]) -> int:
        """How many leading entries are equal; 0 where what was indexed is not all among them."""
        known, indexed = self.timeline.entries, max(len(self.search), 1)
        if not indexed <= min(len(known), len(entries)):
            return 0
        # Conversations that open alike differ at the end: look there first.
        if not _same(known[indexed - 1], entries[indexed - 1]):
            return 0
        count = _shared(known, entries)
        return count if count >= indexed else 0

    def follow(self, entries: Sequence[ConversationEntry]) -> None:
        """Take over what is new. What was indexed is the beginning of these entries."""
        known = self.timeline.entries
        if len(entries) < len(known) or not all(map(is_, known, entries)):
            shared = _shared(known, entries)
            if shared < len(known):
                del self._mentions[shared:]
                self.made.clear()
            # Of a unit that is not the newest of the shared part, nothing changes any more.
            units = bisect_left(self.timeline.pairing.units, shared, key=attrgetter("start"))
            del self._costs[max(0, units - 1) :]
            # The view is made of the entries given now, so the timeline has to hold these.
            self.timeline, self.calls = Timeline(), 0
            del self._starts[:], self._offsets[:]
            known = self.timeline.entries
        fresh = entries[len(known) :]
        self.timeline.extend(fresh)
        self.calls += sum(bool(entry.tool_calls) for entry in fresh)

    def costs(self, position: int, counter: TokenCounter) -> tuple[int, int]:
        """Return what it costs to quote a unit, and its label; each is counted once."""
        units = self.timeline.pairing.units
        if self._counter != counter.name:
            self._counter = counter.name
            del self._costs[:]
            self._labels.clear()
        if position >= len(self._costs):
            self._costs.extend([-1] * (len(units) - len(self._costs)))
        unit, cost = units[position], self._costs[position]
        if cost < 0:
            cost = self._costs[position] = quote_cost(unit.entries, counter)
        digits = len(str(unit.start))
        price = self._labels.get(digits)
        if price is None:
            price = self._labels[digits] = counter.count(label(unit.start).rstrip())
        return cost, price

    def layout(self, cut: int) -> tuple[Any, Any]:
        """Return, for each unit before the cut, where it starts and its cheap size, as arrays."""
        np = numpy()
        for unit in self.timeline.pairing.units[len(self._starts) :]:
            self._starts.append(unit.start)
            self._offsets.append(unit.offset)
        offsets = np.array(self._offsets[: cut + 1])
        return np.array(self._starts[:cut]), np.diff(offsets)

    def mentions(self, limit: int) -> list[Mentions]:
        """Return the identifiers of each of the first `limit` entries."""
        for entry in self.timeline.entries[len(self._mentions) : limit]:
            self._mentions.append(identifiers_of(entry))
        return self._mentions[:limit]

    def keep(self, key: Hashable, value: Any) -> Any:
        """Remember a result, forget the oldest ones, and return it."""
        self.made[key] = value
        while len(self.made) > 64:
            self.made.popitem(last=False)
        return value


class Memories:
    """The latest conversations, each lent to one call at a time. Bounded.

    Examples:
        >>> from history_curator.model import MessageRole
        >>> memories = Memories()
        >>> said = [ConversationEntry(MessageRole.USER, "hi")]
        >>> with memories.lend(said) as memory, memories.lend(said) as other:
        ...     memory is other
        False
    """

    def __init__(
        self, scorer: Scorer | None = None, size: int = 16, *, signals: Signals | None = None
    ) -> None:
        self._scorer = scorer
        self._signals = signals
        self._size = size
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
            del self._idle[: -self._size]

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
