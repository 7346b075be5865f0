"""Resolve counters by name, count whole requests, and say how much of a window they may fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.tokens._heuristic import HeuristicCounter
from history_curator.tokens._protocol import TokenCounter
from history_curator.tokens._tiktoken import TiktokenCounter

DEFAULT = "o200k_base"
_METHODS = ("count", "count_entry", "count_tools")


def get_counter(spec: str | TokenCounter | None = None) -> TokenCounter:
    """Return the counter for an encoding, a model, ``"heuristic"``, or the counter given.

    The same name gives the same counter, so its cache is shared by the whole process.

    Examples:
        >>> get_counter("gpt-4o") is get_counter("gpt-4o")
        True

    Raises:
        ConfigurationError: for a name nobody knows or an object that does not count.
    """
    if spec is None:
        return _named(DEFAULT)
    if isinstance(spec, str):
        return _named(spec)
    missing = [method for method in _METHODS if not callable(getattr(spec, method, None))]
    missing += [field for field in ("name", "priming") if not hasattr(spec, field)]
    if missing:
        raise ConfigurationError(
            f"counter: {type(spec).__name__} has no {', '.join(missing)}. "
            "Fix: pass an encoding, a model name or an object with all of TokenCounter."
        )
    return spec


@lru_cache(maxsize=32)
def _named(name: str) -> TokenCounter:
    return HeuristicCounter() if name == "heuristic" else TiktokenCounter(name)


def count_tokens(
    messages: Sequence[Any],
    counter: str | TokenCounter | None = DEFAULT,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> int:
    """Return what a request costs: its messages, its tool schemas and the priming.

    This is the arithmetic the budget of a curator uses. Takes messages of any format, and
    entries.

    Examples:
        >>> count_tokens([{"role": "user", "content": "hello"}], counter="heuristic") >= 8
        True
    """
    from history_curator.formats import detect, read_entries

    resolved = get_counter(counter)
    total = sum(map(resolved.count_entry, read_entries(messages, detect(messages))))
    return total + resolved.count_tools(tools) + resolved.priming


def window_margin(window: int) -> int:
    """Tokens of a window to leave free: counters and providers differ by a few percent.

    Examples:
        >>> window_margin(100_000)
        5000
    """
    return window - int(window * 0.95)
