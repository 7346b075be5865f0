"""Prices of input tokens under a prompt cache: the library's own sheets, and genai-prices."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from history_curator.errors import ConfigurationError

_VENDOR = re.compile(r"^(?:[a-z]{2,6}\.)?anthropic\.|^[\w.-]*/|-v\d(?::\d)?$")
_SHRUNK = 0.1
"""A prompt that is smaller by less than this share still begins with the last one."""


@dataclass(frozen=True, slots=True)
class PriceSheet:
    """The prices of input tokens: that of plain ones, and factors on it for the prompt cache.

    Examples:
        >>> sheet = PriceSheet("mine", read=0.1, write=1.25, minimum=1024, input_per_million=3.0)
        >>> sheet.cost(tokens=1_000_000, prefix=0)
        3.75

    Attributes:
        read, write, output: factors for tokens read from the cache, written to it, and of answers.
        minimum: a shorter prefix is not cached.
        ttl: seconds of idleness a cached prefix survives; None where none is promised.
        input_per_million: at 1.0 a cost reads as "millions of tokens at full price".
        is_listed: whether the prices are USD, as genai-prices lists them.
    """

    name: str
    read: float = 1.0
    write: float = 1.0
    minimum: int = 0
    ttl: float | None = None
    input_per_million: float = 1.0
    output: float = 0.0
    is_listed: bool = False

    def cost(self, tokens: int, prefix: int, idle: float | None = None) -> float:
        """Return the price of a request whose first ``prefix`` tokens repeat the last request.

        ``idle`` is the time in seconds since the last answer; None counts as none.
        """
        is_cached = self.read < self.write and prefix >= self.minimum
        read = cached_tokens(prefix, tokens, idle, self.ttl) if is_cached else 0
        write = self.write if tokens >= self.minimum else 1.0
        return (read * self.read + (tokens - read) * write) * self.input_per_million / 1e6


def cached_tokens(held: int, prompt: int, idle: float | None, ttl: float | None) -> int:
    """Return the tokens of a prompt that are read from the cache.

    A prompt reads everything the last request left there, unless the lifetime has passed or the
    prompt shrank. On recorded sessions of Claude Code this gives 1.006 of the reported reads.
    """
    is_warm = idle is None or ttl is None or idle < ttl
    return min(held, prompt) if is_warm and prompt >= (1 - _SHRUNK) * held else 0


_SHEETS = {
    sheet.name: sheet
    for sheet in (
        PriceSheet("anthropic", 0.1, 1.25, 1024, ttl=300.0),
        PriceSheet("anthropic-1h", 0.1, 2.0, 1024, ttl=3600.0),
        PriceSheet("openai", 0.1, 1.25, 1024, ttl=1800.0),
        PriceSheet("gemini", 0.1, 1.0, 2048),
        PriceSheet("none"),
    )
}
_FAMILIES = {"claude": "anthropic", "gpt": "openai", "gemini": "gemini"}


def get_prices(pricing: str | PriceSheet) -> PriceSheet:
    """Return a sheet from its name, from a model's name, or as it is."""
    if isinstance(pricing, PriceSheet):
        return pricing
    sheet = _SHEETS.get(pricing) or find_list_prices(pricing)
    if sheet is _SHEETS["none"] and pricing != "none":
        raise ConfigurationError(
            f"there is no price sheet named {pricing!r}. Fix: one of {', '.join(_SHEETS)}, "
            "the name of a known model, or a PriceSheet of your own."
        )
    return sheet


@lru_cache(maxsize=256)
def find_list_prices(model: str) -> PriceSheet:
    """Return the list prices of a model by genai-prices, or else the sheet of its family."""
    family = next((name for part, name in _FAMILIES.items() if part in model.lower()), "none")
    try:
        from genai_prices import Usage, calc_price

        name = _VENDOR.sub("", model.removeprefix("us.").removeprefix("eu."))
        listed: Any = calc_price(Usage(input_tokens=1), name).model_price
    except (ImportError, LookupError):
        return _SHEETS[family]
    kinds = {"input": "input", "read": "cache_read", "write": "cache_write", "output": "output"}
    given = {kind: getattr(listed, f"{name}_mtok", None) for kind, name in kinds.items()}
    prices = {kind: float(getattr(p, "base", p)) for kind, p in given.items() if p is not None}
    base = prices.pop("input", 0.0) or 1.0
    factors = {"write": 1.0, **{kind: price / base for kind, price in prices.items()}}
    own: Any = {"name": model, "input_per_million": base, "is_listed": True, **factors}
    return replace(_SHEETS[family], **own)
