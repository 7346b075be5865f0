"""Counting tokens: exactly with tiktoken, or conservatively without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.formats import find_format, read_entries
from history_curator.tokens.base import MessageCounter, TokenCounter
from history_curator.tokens.estimate import (
    Usage,
    UsageAnchor,
    available_tokens,
    entry_time,
    parse_time,
    read_usage,
)
from history_curator.tokens.heuristic_counter import HeuristicCounter
from history_curator.tokens.models import ModelFamily, find_family, window_margin
from history_curator.tokens.tiktoken_counter import TiktokenCounter
from history_curator.tokens.truncate import Keep, shorten, shorten_tokens

__all__ = [
    "HeuristicCounter", "Keep", "MessageCounter", "ModelFamily", "TiktokenCounter", "TokenCounter",
    "Usage", "UsageAnchor", "available_tokens", "count_tokens", "entry_time",
    "find_family", "get_counter", "parse_time", "read_usage", "shorten", "shorten_tokens",
    "window_margin",
]  # fmt: skip

DEFAULT_ENCODING = "o200k_base"


def get_counter(spec: str | TokenCounter | None = None) -> TokenCounter:
    """Return the counter for an encoding, a model, ``"heuristic"``, or the counter given.

    The same name gives the same counter, so a text is tokenised once in the whole process. An
    unknown name or an object that does not count is a `ConfigurationError`.
    """
    if spec is None or isinstance(spec, str):
        return _named_counter(spec or DEFAULT_ENCODING)
    methods = ("count", "count_entry", "count_tools")
    missing = [method for method in methods if not callable(getattr(spec, method, None))]
    missing += [field for field in ("name", "priming") if not hasattr(spec, field)]
    if missing:
        raise ConfigurationError(
            f"counter: {type(spec).__name__} has no {', '.join(missing)}. "
            "Fix: pass an encoding, a model name or an object with all of TokenCounter."
        )
    return spec


@lru_cache(maxsize=32)
def _named_counter(name: str) -> TokenCounter:
    return HeuristicCounter() if name == "heuristic" else TiktokenCounter(name)


def count_tokens(
    messages: Sequence[Any],
    counter: str | TokenCounter | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> int:
    """Return what a request costs: messages of any format, tool schemas and the priming."""
    resolved = get_counter(counter)
    total = sum(map(resolved.count_entry, read_entries(messages, find_format(messages))))
    return total + resolved.count_tools(tools) + resolved.priming
