"""Which earlier parts of a conversation matter for what is asked now."""

from __future__ import annotations

from history_curator.managers.relevance._entry_text import entry_text, searched_text, speaker
from history_curator.managers.relevance._finder import Finder, Signals
from history_curator.managers.relevance._index import LexicalIndex
from history_curator.managers.relevance._query import latest_question, query_at
from history_curator.managers.relevance._scorers import (
    EmbeddingScorer,
    HybridScorer,
    LexicalScorer,
    ScoredTexts,
    Scorer,
    fuse,
    resolve_scorer,
)
from history_curator.managers.relevance._select import rank, spread, take
from history_curator.managers.relevance._text import terms
from history_curator.seal._identifiers import identifiers_of, rank_identifiers

__all__ = [
    "EmbeddingScorer",
    "Finder",
    "HybridScorer",
    "LexicalIndex",
    "LexicalScorer",
    "ScoredTexts",
    "Scorer",
    "Signals",
    "entry_text",
    "fuse",
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
