"""Scorers: how well each text of a conversation matches a query.

A scorer is a way of scoring; `Scorer.open` starts the memory of one conversation, which grows by
appending and is asked for scores as often as needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from history_curator.errors import ConfigurationError
from history_curator.relevance._index import LexicalIndex
from history_curator.relevance._text import numpy, terms

__all__ = [
    "EmbeddingScorer",
    "HybridScorer",
    "LexicalScorer",
    "Query",
    "ScoredTexts",
    "Scorer",
    "fuse_ranks",
    "resolve_scorer",
]

STANDS_OUT = 0.5
"""Standard deviations above the mean from which a similarity counts."""

RANK_CONSTANT = 10.0
"""How much the first ranks weigh in a fusion: a smaller constant, more."""

Query = Mapping[str, float]
"""Texts and how much each of them counts, the question itself with 1.0."""


class ScoredTexts(Protocol):
    """The texts of one conversation, ready to be scored."""

    def __len__(self) -> int: ...

    def add(self, texts: Sequence[str]) -> None:
        """Append texts in order."""

    def scores(self, query: Query, limit: int) -> Any:
        """Return an array with one score, zero or more, for each of the first `limit` texts."""


@runtime_checkable
class Scorer(Protocol):
    """Anything that opens the memory of a conversation."""

    def open(self) -> ScoredTexts:
        """Return an empty memory for one conversation."""


class LexicalScorer:
    """BM25 over stemmed words: no model, no network, deterministic.

    Example:
        >>> texts = LexicalScorer().open()
        >>> texts.add(["my dog is called Rex", "it rains"])
        >>> int(texts.scores({"dogs?": 1.0}, 2).argmax())
        0
    """

    def __init__(self, *, k1: float = 1.2, b: float = 0.6) -> None:
        self.k1 = k1
        self.b = b

    def open(self) -> ScoredTexts:
        """Return an empty index for one conversation."""
        return _LexicalTexts(LexicalIndex(k1=self.k1, b=self.b))


class _LexicalTexts:
    def __init__(self, index: LexicalIndex) -> None:
        self._index = index

    def __len__(self) -> int:
        return len(self._index)

    def add(self, texts: Sequence[str]) -> None:
        self._index.extend(texts)

    def scores(self, query: Query, limit: int) -> Any:
        weights: dict[str, float] = {}
        for text, weight in query.items():
            for term in terms(text):
                weights[term] = max(weight, weights.get(term, 0.0))
        return self._index.scores(weights, limit)


class EmbeddingScorer:
    """Similarity of embeddings, as far as it stands out; each text is embedded once.

    Args:
        embeddings: a LangChain ``Embeddings`` (``embed_documents``, ``embed_query``) or a
            LlamaIndex ``BaseEmbedding`` (``get_text_embedding_batch``, ``get_query_embedding``).
        max_chars: only the head of a longer text is embedded; models read no further anyway.

    Example:
        >>> class Letters:
        ...     def embed_query(self, text):
        ...         return [text.count("a"), text.count("b")]
        ...
        ...     def embed_documents(self, texts):
        ...         return [self.embed_query(text) for text in texts]
        >>> texts = EmbeddingScorer(Letters()).open()
        >>> texts.add(["aaa", "bbb"])
        >>> int(texts.scores({"b": 1.0}, 2).argmax())
        1
    """

    def __init__(self, embeddings: Any, *, max_chars: int = 2_000) -> None:
        if hasattr(embeddings, "embed_documents") and hasattr(embeddings, "embed_query"):
            self.embed_texts = embeddings.embed_documents
            self.embed_query = embeddings.embed_query
        elif hasattr(embeddings, "get_text_embedding_batch"):
            self.embed_texts = embeddings.get_text_embedding_batch
            self.embed_query = embeddings.get_query_embedding
        else:
            raise ConfigurationError(
                f"scorer: {type(embeddings).__name__} embeds nothing. Fix: pass a LangChain "
                "Embeddings (embed_documents, embed_query) or a LlamaIndex BaseEmbedding "
                "(get_text_embedding_batch, get_query_embedding)."
            )
        self.max_chars = max_chars

    def open(self) -> ScoredTexts:
        """Return an empty memory for one conversation."""
        return _EmbeddedTexts(self)


class _EmbeddedTexts:
    def __init__(self, scorer: EmbeddingScorer) -> None:
        self._scorer = scorer
        self._vectors: list[Any] = []
        self._queries: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._vectors)

    def add(self, texts: Sequence[str]) -> None:
        if texts:
            heads = [text[: self._scorer.max_chars] or " " for text in texts]
            vectors = [_unit_vector(vector) for vector in self._scorer.embed_texts(heads)]
            if len(vectors) != len(heads):
                raise ValueError(f"{len(vectors)} embeddings for {len(heads)} texts")
            self._vectors.extend(vectors)

    def scores(self, query: Query, limit: int) -> Any:
        np = numpy()
        if not limit or not self._vectors:
            return np.zeros(limit)
        matrix = np.stack(self._vectors[:limit])
        total = np.zeros(len(matrix))
        for text, weight in query.items():
            if text not in self._queries:
                self._queries = {text: _unit_vector(self._scorer.embed_query(text))}
            total += weight * (matrix @ self._queries[text])
        # Similarities are all alike; what tells is how far one stands out from the others.
        spread = float(total.std())
        if not spread:
            return np.maximum(total, 0.0)
        return np.maximum((total - total.mean()) / spread - STANDS_OUT, 0.0)


class HybridScorer:
    """Rank fusion of several scorers: what any of them finds near the top comes near the top.

    Example:
        >>> texts = HybridScorer(LexicalScorer(), LexicalScorer(b=0.0)).open()
        >>> texts.add(["it rains", "my dog is called Rex"])
        >>> int(texts.scores({"dog": 1.0}, 2).argmax())
        1
    """

    def __init__(self, *scorers: Scorer, constant: float = RANK_CONSTANT) -> None:
        if len(scorers) < 2:
            raise ConfigurationError("HybridScorer needs at least two scorers to fuse.")
        self.scorers = scorers
        self.constant = constant

    def open(self) -> ScoredTexts:
        """Return an empty memory for one conversation."""
        return _FusedTexts([scorer.open() for scorer in self.scorers], self.constant)


class _FusedTexts:
    def __init__(self, memories: Sequence[ScoredTexts], constant: float) -> None:
        self._memories = memories
        self._constant = constant

    def __len__(self) -> int:
        return min(map(len, self._memories))

    def add(self, texts: Sequence[str]) -> None:
        # A memory may be ahead, where another one failed before.
        known = len(self)
        for memory in self._memories:
            memory.add(texts[len(memory) - known :])

    def scores(self, query: Query, limit: int) -> Any:
        return fuse_ranks([m.scores(query, limit) for m in self._memories], self._constant)


def fuse_ranks(scores: Sequence[Any], constant: float = RANK_CONSTANT) -> Any:
    """Return the reciprocal rank fusion of several score arrays; a zero score has no rank.

    Example:
        >>> import numpy as np
        >>> fused = fuse_ranks([np.array([3.0, 1.0, 0.0]), np.array([0.0, 9.0, 8.0])])
        >>> [int(position) for position in fused.argsort()[::-1]]
        [1, 0, 2]
    """
    np = numpy()
    total = np.zeros(len(scores[0]))
    for array in scores:
        order = np.argsort(-array, kind="stable")
        ranks = np.empty(len(array))
        ranks[order] = np.arange(1, len(array) + 1)
        total += np.where(array > 0, 1.0 / (constant + ranks), 0.0)
    return total


def resolve_scorer(scorer: Any, embeddings: Any = None) -> Scorer:
    """Return the scorer meant by a name, an embedding model, or a scorer itself."""
    if isinstance(scorer, str) and scorer == "lexical":
        return LexicalScorer()
    if isinstance(scorer, str) and scorer in ("embeddings", "hybrid"):
        if embeddings is None:
            raise ConfigurationError(
                f"scorer={scorer!r} needs embeddings=…: a LangChain Embeddings or a LlamaIndex "
                "BaseEmbedding."
            )
        embedded = EmbeddingScorer(embeddings)
        return embedded if scorer == "embeddings" else HybridScorer(LexicalScorer(), embedded)
    if isinstance(scorer, str):
        raise ConfigurationError(
            f"scorer={scorer!r} is unknown. Fix: 'lexical', 'embeddings', 'hybrid', an embedding "
            "model or a Scorer."
        )
    return scorer if isinstance(scorer, Scorer) else EmbeddingScorer(scorer)


def _unit_vector(values: Any) -> Any:
    np = numpy()
    vector = np.asarray(values, dtype=np.float32)
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
