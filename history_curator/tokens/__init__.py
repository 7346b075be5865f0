"""Counting tokens: exactly with tiktoken, or conservatively without it."""

from __future__ import annotations

from history_curator.tokens._count import count_tokens, get_counter
from history_curator.tokens._families import ModelFamily, find_family
from history_curator.tokens._heuristic import HeuristicCounter
from history_curator.tokens._images import ImageFormula, claude, gemini, patches, tiles
from history_curator.tokens._protocol import TokenCounter
from history_curator.tokens._tiktoken import TiktokenCounter
from history_curator.tokens._window import window_margin

__all__ = [
    "HeuristicCounter",
    "ImageFormula",
    "ModelFamily",
    "TiktokenCounter",
    "TokenCounter",
    "claude",
    "count_tokens",
    "find_family",
    "gemini",
    "get_counter",
    "patches",
    "tiles",
    "window_margin",
]
