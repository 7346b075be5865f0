"""Which earlier parts of a conversation matter for what is asked now."""

from __future__ import annotations

from history_curator.managers.relevance._compose import entry_text, searched_text, speaker
from history_curator.managers.relevance._finder import Finder, Search, Signals, rank, spread, take
from history_curator.managers.relevance._index import LexicalIndex
from history_curator.managers.relevance._query import query_at
from history_curator.managers.relevance._scorers import (
    EmbeddingScorer,
    HybridScorer,
    LexicalScorer,
    ScoredTexts,
    Scorer,
    fuse,
    resolve_scorer,
)
from history_curator.managers.relevance._text import terms

__all__ = [
    "EmbeddingScorer",
    "Finder",
    "HybridScorer",
    "LexicalIndex",
    "LexicalScorer",
    "ScoredTexts",
    "Scorer",
    "Search",
    "Signals",
    "entry_text",
    "fuse",
    "query_at",
    "rank",
    "resolve_scorer",
    "searched_text",
    "speaker",
    "spread",
    "take",
    "terms",
]
