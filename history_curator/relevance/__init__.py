"""Which earlier parts of a conversation matter for what is asked now."""

from __future__ import annotations

from history_curator.relevance._entry_text import entry_text, searched_text, speaker
from history_curator.relevance._identifiers import identifiers_of, rank_identifiers
from history_curator.relevance._index import LexicalIndex
from history_curator.relevance._query import latest_question, query_at
from history_curator.relevance._scorers import (
    EmbeddingScorer,
    HybridScorer,
    LexicalScorer,
    ScoredTexts,
    Scorer,
    fuse_ranks,
    resolve_scorer,
)
from history_curator.relevance._select import rank, spread, take
from history_curator.relevance._text import terms

__all__ = [
    "EmbeddingScorer",
    "HybridScorer",
    "LexicalIndex",
    "LexicalScorer",
    "ScoredTexts",
    "Scorer",
    "entry_text",
    "fuse_ranks",
    "identifiers_of",
    "latest_question",
    "query_at",
    "rank",
    "rank_identifiers",
    "resolve_scorer",
    "searched_text",
    "speaker",
    "spread",
    "take",
    "terms",
]
