"""Scorers: how well each text of a conversation matches a query.

A scorer is a way of scoring; `Scorer.open` starts the memory of one conversation, which grows by
appending and is asked for scores as often as needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from history_curator.errors import ConfigurationError
from history_curator.managers.relevance._english import ABOUT_THE_TALK
from history_curator.managers.relevance._index import LexicalIndex
from history_curator.managers.relevance._soft import Vocabulary, has_vectors, soft_vectors
from history_curator.managers.relevance._text import numpy, stems, words

STANDS_OUT = 1.0
"""Standard deviations above the mean from which a similarity counts, where nothing else does."""

FAR_OUT = 2.0
"""The same beside words, which are right more often than a similarity that stands out little."""

DENSE = 0.4
"""What the best similarity counts in a fusion, against the best match of words."""

FAINT = 0.3
"""What a word counts by which a question speaks of the conversation itself."""

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

    Args:
        soft: whether words that mean about the same count as well, by static vectors; None does
            so where the package that carries them is installed (``history-curator[vectors]``).
        k1: how soon further occurrences of a word stop to count.
        b: how much a long text is held against it.
        folder: where full blocks of the index are kept, so that a long record takes no memory
            and is not indexed again after a restart; None keeps them in memory.

    Examples:
        >>> texts = LexicalScorer().open()
        >>> texts.add(["my dog is called Rex", "it rains"])
        >>> int(texts.scores({"dogs?": 1.0}, 2).argmax())
        0
    """

    def __init__(
        self, *, soft: bool | None = None, k1: float = 1.2, b: float = 0.75, folder: Any = None
    ) -> None:
        self.soft = has_vectors() if soft is None else soft
        self.k1 = k1
        self.b = b
        self.folder = folder

    def open(self) -> ScoredTexts:
        """Return an empty index for one conversation."""
        return _LexicalTexts(LexicalIndex(k1=self.k1, b=self.b, folder=self.folder), self.soft)


class _LexicalTexts:
    def __init__(self, index: LexicalIndex, soft: bool) -> None:
        self._index = index
        self._vocabulary = Vocabulary(soft_vectors()) if soft else None

    def __len__(self) -> int:
        return len(self._index)

    def add(self, texts: Sequence[str]) -> None:
        if self._vocabulary is not None:
            self._vocabulary.add(texts)
        self._index.extend(texts)

    def scores(self, query: Query, limit: int) -> Any:
        weights: dict[str, float] = {}
        near: dict[str, Sequence[tuple[int, float]]] = {}
        for text, weight in query.items():
            for word, term in zip(found := words(text), stems(found), strict=True):
                counts = weight * FAINT if word in ABOUT_THE_TALK else weight
                weights[term] = max(counts, weights.get(term, 0.0))
            if self._vocabulary is not None:
                near.update(self._vocabulary.near(text))
        return self._index.scores(weights, limit, near)


class EmbeddingScorer:
    """Similarity of embeddings, as far as it stands out; each text is embedded once.

    Args:
        embeddings: a LangChain ``Embeddings`` (``embed_documents``, ``embed_query``), a
            LlamaIndex ``BaseEmbedding`` (``get_text_embedding_batch``, ``get_query_embedding``),
            a model with ``encode``, or a function from texts to vectors.
        max_chars: only the head of a longer text is embedded; models read no further anyway.
        stands_out: standard deviations above the mean from which a similarity counts.

    Examples:
        >>> class Letters:
        ...     def embed_query(self, text):
        ...         return [text.count("a"), text.count("b")]
        ...
        ...     def embed_documents(self, texts):
        ...         return [self.embed_query(text) for text in texts]
        >>> texts = EmbeddingScorer(Letters()).open()
        >>> texts.add(["aaa", "bbb", "aab"])
        >>> int(texts.scores({"b": 1.0}, 3).argmax())
        1
    """

    def __init__(
        self, embeddings: Any, *, max_chars: int = 2_000, stands_out: float = STANDS_OUT
    ) -> None:
        if hasattr(embeddings, "embed_documents") and hasattr(embeddings, "embed_query"):
            self.embed_texts = embeddings.embed_documents
            self.embed_query = embeddings.embed_query
        elif hasattr(embeddings, "get_text_embedding_batch"):
            self.embed_texts = embeddings.get_text_embedding_batch
            self.embed_query = embeddings.get_query_embedding
        elif callable(embed := getattr(embeddings, "encode", embeddings)):
            self.embed_texts = embed
            self.embed_query = lambda text: embed([text])[0]
        else:
            raise ConfigurationError(
                f"scorer: {type(embeddings).__name__} embeds nothing. Fix: pass a LangChain "
                "Embeddings (embed_documents, embed_query), a LlamaIndex BaseEmbedding "
                "(get_text_embedding_batch, get_query_embedding) or a function from texts to "
                "vectors."
            )
        self.max_chars = max_chars
        self.stands_out = stands_out

    def open(self) -> ScoredTexts:
        """Return an empty memory for one conversation."""
        return _EmbeddedTexts(self)


class _EmbeddedTexts:
    def __init__(self, scorer: EmbeddingScorer) -> None:
        self._scorer = scorer
        self._rows: Any = ()
        self._queries: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, texts: Sequence[str]) -> None:
        if texts:
            heads = [text[: self._scorer.max_chars] or " " for text in texts]
            vectors = [_unit_vector(vector) for vector in self._scorer.embed_texts(heads)]
            if len(vectors) != len(heads):
                raise ValueError(f"{len(vectors)} embeddings for {len(heads)} texts")
            fresh = numpy().stack(vectors)
            self._rows = numpy().concatenate((self._rows, fresh)) if len(self) else fresh

    def scores(self, query: Query, limit: int) -> Any:
        np = numpy()
        if not limit or not len(self):
            return np.zeros(limit)
        matrix = self._rows[:limit]
        total = np.zeros(len(matrix))
        for text, weight in query.items():
            if text not in self._queries:
                self._queries = {text: _unit_vector(self._scorer.embed_query(text))}
            total += weight * (matrix @ self._queries[text])
        # Similarities are all alike; what tells is how far one stands out from the others.
        spread = float(total.std())
        if not spread:
            return np.maximum(total, 0.0)
        return np.maximum((total - total.mean()) / spread - self._scorer.stands_out, 0.0)


class HybridScorer:
    """Words and meaning together: the match of words, and less so the similarity.

    Each is taken relative to the best of the conversation. ``scorer="hybrid"`` lets a similarity
    count only as far as it stands out by two standard deviations, so that where meaning says
    little the ranking by words stays as it is.

    Examples:
        >>> texts = HybridScorer(LexicalScorer(), LexicalScorer(b=0.0)).open()
        >>> texts.add(["it rains", "my dog is called Rex"])
        >>> int(texts.scores({"dog": 1.0}, 2).argmax())
        1
    """

    def __init__(self, words: Scorer, meaning: Scorer, *, share: float = DENSE) -> None:
        self.words = words
        self.meaning = meaning
        self.share = share

    def open(self) -> ScoredTexts:
        """Return an empty memory for one conversation."""
        return _FusedTexts(self.words.open(), self.meaning.open(), self.share)


class _FusedTexts:
    def __init__(self, words: ScoredTexts, meaning: ScoredTexts, share: float) -> None:
        self._words = words
        self._meaning = meaning
        self._share = share

    def __len__(self) -> int:
        return min(len(self._words), len(self._meaning))

    def add(self, texts: Sequence[str]) -> None:
        # One may be ahead, where the other one failed before.
        known = len(self)
        for memory in (self._words, self._meaning):
            memory.add(texts[len(memory) - known :])

    def scores(self, query: Query, limit: int) -> Any:
        return fuse(
            self._words.scores(query, limit), self._meaning.scores(query, limit), self._share
        )


def fuse(words: Any, meaning: Any, share: float = DENSE) -> Any:
    """Return two score arrays as one, each relative to its best.

    Examples:
        >>> import numpy as np
        >>> fuse(np.array([4.0, 2.0, 0.0]), np.array([0.0, 9.0, 0.0])).tolist()
        [1.0, 0.9, 0.0]
    """
    first, second = (array / (float(array.max(initial=0.0)) or 1.0) for array in (words, meaning))
    return first + share * second


def resolve_scorer(scorer: Any, embeddings: Any = None, folder: Any = None) -> Scorer:
    """Return the scorer meant by a name, an embedding model, or a scorer itself."""
    if scorer is None:
        return LexicalScorer(folder=folder)
    if isinstance(scorer, str) and scorer in ("lexical", "soft"):
        return LexicalScorer(soft=scorer == "soft", folder=folder)
    if isinstance(scorer, str) and scorer in ("embeddings", "hybrid"):
        if embeddings is None:
            raise ConfigurationError(
                f"scorer={scorer!r} needs embeddings=…: a LangChain Embeddings, a LlamaIndex "
                "BaseEmbedding or a function from texts to vectors."
            )
        if scorer == "embeddings":
            return EmbeddingScorer(embeddings)
        words = LexicalScorer(folder=folder)
        return HybridScorer(words, EmbeddingScorer(embeddings, stands_out=FAR_OUT))
    if isinstance(scorer, str):
        raise ConfigurationError(
            f"scorer={scorer!r} is unknown. Fix: 'lexical', 'soft', 'embeddings', 'hybrid', an "
            "embedding model or a Scorer."
        )
    return scorer if isinstance(scorer, Scorer) else EmbeddingScorer(scorer)


def _unit_vector(values: Any) -> Any:
    np = numpy()
    vector = np.asarray(values, dtype=np.float32)
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
