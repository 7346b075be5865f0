"""Counting tokens: exactly with tiktoken, or conservatively without it."""

from __future__ import annotations

from history_curator.tokens._calibration import Calibration, Prediction
from history_curator.tokens._count import count_tokens, get_counter, window_margin
from history_curator.tokens._families import ModelFamily, find_family
from history_curator.tokens._heuristic import HeuristicCounter
from history_curator.tokens._media import ImageFormula, claude, gemini, patches, tiles
from history_curator.tokens._protocol import TokenCounter
from history_curator.tokens._reports import Report, Reports
from history_curator.tokens._shorten import Keep, shorten, shorten_tokens
from history_curator.tokens._tiktoken import TiktokenCounter
from history_curator.tokens.estimate import (
    UsageAnchor,
    available_tokens,
    cache_lifetime,
    entry_time,
    idle_seconds,
    is_cache_cold,
    parse_time,
)
from history_curator.tokens.usage import Usage, read_usage

__all__ = [
    "Calibration",
    "HeuristicCounter",
    "ImageFormula",
    "Keep",
    "ModelFamily",
    "Prediction",
    "Report",
    "Reports",
    "TiktokenCounter",
    "TokenCounter",
    "Usage",
    "UsageAnchor",
    "available_tokens",
    "cache_lifetime",
    "claude",
    "count_tokens",
    "entry_time",
    "find_family",
    "gemini",
    "get_counter",
    "idle_seconds",
    "is_cache_cold",
    "parse_time",
    "patches",
    "read_usage",
    "shorten",
    "shorten_tokens",
    "tiles",
    "window_margin",
]

from history_curator.tokens._cap import cap_text
