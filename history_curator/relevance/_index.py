"""A BM25 index that grows by appending: a new text costs O(its length), a query O(its postings)."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

from history_curator.relevance._text import numpy, terms

__all__ = ["LexicalIndex"]


class LexicalIndex:
    """BM25 over texts numbered in the order they were added.

    The scores are those of ``bm25s.BM25(method="lucene")`` over the same terms. Unlike bm25s,
    which weighs every posting when the corpus is indexed, the weights are worked out for the
    postings a query touches, so that nothing has to be rebuilt when a text is added.

    Example:
        >>> index = LexicalIndex()
        >>> index.extend(["the flight leaves on Monday", "I have a dog", "flights are cheap"])
        >>> [round(float(score), 2) for score in index.scores({"flight": 1.0})]
        [0.18, 0.0, 0.21]
    """

    def __init__(self, *, k1: float = 1.2, b: float = 0.6) -> None:
        self.k1 = k1
        self.b = b
        self._where: dict[str, array[int]] = {}
        self._often: dict[str, array[int]] = {}
        self._lengths: array[int] = array("i")
        self._total = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, text: str) -> None:
        """Append one text."""
        counts = Counter(terms(text))
        length = sum(counts.values())
        with self._lock:
            number = len(self._lengths)
            for term, times in counts.items():
                where = self._where.get(term)
                if where is None:
                    where = self._where[term] = array("i")
                    self._often[term] = array("i")
                where.append(number)
                self._often[term].append(times)
            self._lengths.append(length)
            self._total += length

    def extend(self, texts: Iterable[str]) -> None:
        """Append texts in order."""
        for text in texts:
            self.add(text)

    def scores(self, query: Mapping[str, float], limit: int | None = None) -> Any:
        """Return one score per text as an array.

        Args:
            query: stemmed terms and their weights, as `terms` gives them.
            limit: look at the first ``limit`` texts only, as if no other had been added, so that
                what is said later does not change what an earlier question finds.
        """
        np = numpy()
        with self._lock:
            size = len(self) if limit is None else min(limit, len(self))
            out = np.zeros(size)
            if not size:
                return out
            lengths = np.array(self._lengths[:size] if size < len(self) else self._lengths)
            average = float(lengths.sum()) / size or 1.0
            norm = self.k1 * (1 - self.b + self.b * lengths / average)
            for term, weight in query.items():
                posting = self._where.get(term)
                if posting is None:
                    continue
                where = np.array(posting)
                often = np.array(self._often[term])
                if size < len(self):
                    seen = int(np.searchsorted(where, size))
                    where, often = where[:seen], often[:seen]
                found = len(where)
                idf = math.log(1 + (size - found + 0.5) / (found + 0.5))
                out[where] += weight * idf * often / (often + norm[where])
        return out

    def rarity(self, term: str) -> int:
        """Return in how many texts a term occurs."""
        return len(self._where.get(term, ()))
