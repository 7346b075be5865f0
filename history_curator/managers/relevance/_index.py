"""A BM25 index that grows by appending, small enough to be scanned whole for every question.

Each text leaves the numbers of its terms, one after the other, in one long array: four bytes a
term, about a third of the text. There is no dictionary and there are no posting lists. A question
looks through the array with a table of the few numbers it wants, which takes well under a
millisecond for ten thousand messages, and works out from the hits alone how rare each term is. So
nothing is rebuilt when a text is added, and a question can be answered as of any earlier moment.

Full blocks of texts can be kept in files, see `Blocks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

from history_curator.managers.relevance._blocks import Blocks
from history_curator.managers.relevance._text import numbered, numpy, stems, words

Near = Mapping[str, Sequence[tuple[int, float]]]
"""For a term, the numbers of others that mean about the same, nearest first, and how near."""

MOST_NEAR = 12
"""Near terms of one term that count, of those that occur at all."""


class LexicalIndex:
    """BM25 over texts numbered in the order they were added.

    The scores are those of ``bm25s.BM25(method="lucene")`` over the same terms.

    Args:
        k1: how soon further occurrences of a term stop to count.
        b: how much a long text is held against it.
        folder: where full blocks of the index are kept; None keeps them in memory.

    Examples:
        >>> index = LexicalIndex()
        >>> index.extend(["the flight leaves on Monday", "I have a dog", "flights are cheap"])
        >>> [round(float(score), 2) for score in index.scores({"flight": 1.0})]
        [0.18, 0.0, 0.21]
    """

    def __init__(self, *, k1: float = 1.2, b: float = 0.75, folder: Any = None) -> None:
        self.k1 = k1
        self.b = b
        self._blocks = Blocks(folder)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return self._blocks.nbytes

    def extend(self, texts: Iterable[str]) -> None:
        """Append texts in order."""
        with self._lock:
            self._blocks.extend(texts, lambda text: numbered(stems(words(text))))

    def scores(
        self, query: Mapping[str, float], limit: int | None = None, near: Near | None = None
    ) -> Any:
        """Return one score per text as an array.

        Args:
            query: stemmed terms and their weights, as `terms` gives them.
            limit: look at the first ``limit`` texts only, as if no other had been added, so that
                what is said later does not change what an earlier question finds.
            near: terms that count as well, each as far as it is near; of a term and those near it
                the best match counts, and none counts as rarer than the term itself.
        """
        np = numpy()
        with self._lock:
            size = len(self) if limit is None else min(limit, len(self))
            if not size or not query:
                return np.zeros(size)
            groups = [
                [(number, 1.0), *(near or {}).get(term, ())]
                for term, number in zip(query, numbered(query), strict=True)
            ]
            asked = list(dict.fromkeys(number for group in groups for number, _ in group))
            wanted = np.array(asked, dtype=np.uint32)
            which, where, often, lengths = self._hits(wanted, size)
        norm = self.k1 * (1 - self.b + self.b * lengths / (float(lengths.mean()) or 1.0))
        found = np.bincount(which, minlength=len(wanted))
        rarity = np.log(1 + (size - found + 0.5) / (found + 0.5))
        match = often / (often + norm[where])
        first = np.concatenate(([0], np.cumsum(found)))
        place = {number: at for at, number in enumerate(asked)}
        total = np.zeros(size)
        for group, weight in zip(groups, query.values(), strict=True):
            best = np.zeros(size)
            most, left = rarity[place[group[0][0]]], MOST_NEAR + 1
            for number, factor in group:
                at = place[number]
                if left and found[at]:
                    left -= number != group[0][0]
                    part = slice(first[at], first[at + 1])
                    value = factor * min(rarity[at], most) * match[part]
                    best[where[part]] = np.maximum(best[where[part]], value)
            total += weight * best
        return total

    def _hits(self, wanted: Any, size: int) -> tuple[Any, Any, Any, Any]:
        """Return, ordered by term: which term, in which text, how often; and all lengths."""
        np = numpy()
        table = np.zeros(1 << 16, dtype=bool)
        table[wanted & 0xFFFF] = True
        order = np.argsort(wanted)
        known = wanted[order]
        keys, lengths, before = [], [], 0
        for ends, numbers in self._blocks.read(size):
            at = np.flatnonzero(table[numbers & 0xFFFF])
            near = np.minimum(np.searchsorted(known, numbers[at]), len(known) - 1)
            right = known[near] == numbers[at]
            text = np.searchsorted(ends, at[right], side="right") + before
            keys.append(order[near[right]].astype(np.int64) * size + text)
            lengths.append(np.diff(ends, prepend=0))
            before += len(ends)
        both, often = np.unique(np.concatenate(keys), return_counts=True)
        return both // size, both % size, often, np.concatenate(lengths)
