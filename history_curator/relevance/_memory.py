"""What is remembered of a conversation between calls: read once, indexed once, only appended to.

A memory is a cache and nothing else: building it anew from the same entries gives the same
selections.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from operator import is_
from threading import Lock, RLock
from typing import Any

from history_curator.model import ConversationEntry
from history_curator.relevance._entry_text import searched_text
from history_curator.relevance._identifiers import Mentions, identifiers_of
from history_curator.relevance._scorers import LexicalScorer, Query, ScoredTexts, Scorer
from history_curator.relevance._text import numpy
from history_curator.structure import Timeline

__all__ = ["Memories", "Memory"]


class Memory:
    """One conversation.

    Attributes:
        timeline: its entries, grouped into units.
        tools: whether a tool was called so far.
        lock: held while the memory is read or extended.
        made: results worth keeping for the next call, such as a recollection, by what they
            depend on. Only the latest few are kept.
    """

    def __init__(self, scorer: Scorer | None = None) -> None:
        self.timeline = Timeline()
        self.tools = False
        self.lock = RLock()
        self.made: OrderedDict[Hashable, Any] = OrderedDict()
        self._texts: ScoredTexts = (scorer or LexicalScorer()).open()
        self._words: ScoredTexts | None = None
        self._mentions: list[Mentions] = []
        self._starts: array[int] = array("q")
        self._offsets: array[int] = array("q")

    def follow(self, entries: Sequence[ConversationEntry]) -> bool:
        """Take over what is new; False when these entries contradict what was indexed."""
        known = self.timeline.entries
        if len(entries) < len(known) or not all(map(is_, known, entries)):
            shared = _shared(known, entries)
            if shared < max(len(self._texts), 1):
                return False
            if shared < len(known):
                del self._mentions[shared:]
                self.made.clear()
                self._words = None
            # The view is made of the entries given now, so the timeline has to hold these.
            self.timeline, self.tools = Timeline(), False
            del self._starts[:], self._offsets[:]
            known = self.timeline.entries
        for entry in entries[len(known) :]:
            self.timeline.add_entry(entry)
            self.tools = self.tools or bool(entry.tool_calls)
        return True

    def scores(self, query: Query, limit: int) -> Any:
        """Return one score for each of the first `limit` entries."""
        return _scored(self._texts, self.timeline.entries, query, limit)

    def lexical_scores(self, query: Query, limit: int) -> Any:
        """Return the scores of the words alone, for when the scorer fails."""
        entries = self.timeline.entries
        if self._words is None:
            self._words = LexicalScorer().open()
        return _scored(self._words, entries, query, limit)

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
    """The latest conversations, found again by their first entries. Bounded."""

    def __init__(self, scorer: Scorer | None = None, size: int = 16) -> None:
        self._scorer = scorer
        self._size = size
        self._known: OrderedDict[Hashable, Memory] = OrderedDict()
        self._lock = Lock()

    def open(self, entries: Sequence[ConversationEntry]) -> Memory:
        """Return the memory of a conversation, up to date with these entries."""
        key = tuple((entry.role, entry.content) for entry in entries[:3])
        with self._lock:
            memory = self._known.get(key)
        if memory is not None:
            with memory.lock:
                if memory.follow(entries):
                    with self._lock:
                        self._known[key] = memory
                        self._known.move_to_end(key)
                    return memory
        memory = Memory(self._scorer)
        memory.follow(entries)
        with self._lock:
            self._known[key] = memory
            self._known.move_to_end(key)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        return memory


def _scored(
    texts: ScoredTexts, entries: Sequence[ConversationEntry], query: Query, limit: int
) -> Any:
    texts.add([searched_text(entry) for entry in entries[len(texts) : limit]])
    scores = texts.scores(query, limit)
    if len(scores) != limit:
        raise ValueError(f"the scorer returned {len(scores)} scores for {limit} texts")
    return scores


def _shared(known: Sequence[ConversationEntry], given: Sequence[ConversationEntry]) -> int:
    """Return how many leading entries are equal."""
    count = 0
    for mine, other in zip(known, given, strict=False):
        if mine is not other and mine != other:
            break
        count += 1
    return count
