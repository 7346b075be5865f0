"""What a request costs when the provider remembers the prefix of the last one, for a while."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

from history_curator.errors import ConfigurationError

__all__ = ["PriceSheet", "get_prices", "price_sheets", "sheet_for"]


@dataclass(frozen=True, slots=True)
class PriceSheet:
    """How one provider charges for input tokens; factors are multiples of the plain input price.

    Examples:
        >>> sheet = PriceSheet("mine", read=0.1, write=1.25, minimum=1024, input_per_million=3.0)
        >>> sheet.cost(tokens=1_000_000, prefix=0)
        3.75
        >>> round(sheet.cost(tokens=1_000_000, prefix=1_000_000), 6)
        0.3

    Attributes:
        name: what tables call it.
        read: factor for tokens found in the cache.
        write: factor for tokens that are not, and are written to it.
        minimum: a shorter prefix is not cached.
        step: the cached prefix is a multiple of this many tokens.
        input_per_million: price of a million plain input tokens. At 1.0 a cost reads as
            "millions of tokens at full price", which compares policies without naming a model.
        about: one line for people.
        ttl: seconds of idleness a cached prefix survives; None when it is not known or promised,
            and time is then left out of every cost.
        output_per_million: price of a million output tokens; None when the sheet names no model.
        breakpoints: how many marks a request may carry; 0 where the provider takes none.
        lookback: content blocks before a mark that are searched for an earlier one; None for all.
        as_of: the day the figures were read.
    """

    name: str
    read: float = 1.0
    write: float = 1.0
    minimum: int = 0
    step: int = 1
    input_per_million: float = 1.0
    about: str = ""
    ttl: float | None = None
    output_per_million: float | None = None
    breakpoints: int = 0
    lookback: int | None = None
    as_of: str = ""

    def survives(self, idle: float | None) -> bool:
        """Return whether what was cached is still there after ``idle`` seconds."""
        return idle is None or self.ttl is None or idle < self.ttl

    def cached(self, prefix: int, idle: float | None = None) -> int:
        """Return how many of ``prefix`` repeated tokens the provider reads from its cache.

        Args:
            prefix: tokens that repeat the request before.
            idle: seconds since that request; None when nobody knows, and then none have passed.
        """
        if prefix < self.minimum or self.read >= self.write or not self.survives(idle):
            return 0
        return prefix - prefix % self.step

    def cost(self, tokens: int, prefix: int, idle: float | None = None) -> float:
        """Return the price of a request of ``tokens``, the first ``prefix`` of them repeated.

        The repetition is against the request before it, ``idle`` seconds ago. A request too short
        to be cached is charged at the plain price.
        """
        hit = self.cached(prefix, idle)
        write = self.write if tokens >= self.minimum else 1.0
        return (hit * self.read + (tokens - hit) * write) * self.input_per_million / 1_000_000

    def at(self, input_per_million: float) -> PriceSheet:
        """Return the sheet with a real price per million input tokens."""
        return replace(self, input_per_million=input_per_million)

    def lasting(self, ttl: float) -> PriceSheet:
        """Return the sheet for another time to live, with what a write costs then.

        Raises:
            ConfigurationError: when the provider sells no such cache.
        """
        if ttl == self.ttl:
            return self
        longer = _sheets().get(f"{self.name.partition('/')[0]}-{round(ttl / 3600)}h")
        if longer is None or longer.ttl != ttl:
            raise ConfigurationError(
                f"{self.name} keeps nothing for {ttl:g} seconds. "
                f"Fix: {'leave the ttl out' if self.ttl is None else f'use {self.ttl:g}'}."
            )
        return replace(self, write=longer.write, ttl=longer.ttl)


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    text = files("history_curator.caching").joinpath("prices.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


@lru_cache(maxsize=1)
def _sheets() -> dict[str, PriceSheet]:
    return {name: PriceSheet(name=name, **row) for name, row in _data()["sheets"].items()}


def price_sheets() -> Mapping[str, PriceSheet]:
    """Return the sheets that ship with the library, by name."""
    return dict(_sheets())


_VENDOR = re.compile(r"^(?:(?:[a-z]{2,4}\.)?anthropic\.|[\w.-]+/|models/)+")
_VERSION = re.compile(r"(?:-\d{8}|-\d{4}-\d{2}-\d{2}|-latest)?(?:-v\d+)?(?:[:@\[].*)?$")
_FAMILIES = (
    ("claude", "anthropic"),
    ("gpt-5.6", "openai"),
    ("gpt", "openai-free-write"),
    ("gemini", "gemini"),
)


@lru_cache(maxsize=256)
def sheet_for(model: str | None) -> PriceSheet | None:
    """Return the sheet of a model, found by its name; None for a name nobody here knows.

    A vendor before the name and a date or version after it do not matter. A model that is not on
    the list, of a family that is, gets the family's factors and no price:
    ``output_per_million`` is None then.

    Examples:
        >>> sheet_for("us.anthropic.claude-sonnet-4-5-20250929-v1:0").input_per_million
        3
        >>> sheet_for("claude-opus-4-6").minimum, sheet_for("claude-opus-4-6").ttl
        (4096, 300)
        >>> sheet_for("my-own-model") is None
        True
    """
    name = _VENDOR.sub("", (model or "").lower())
    for known, row in _data()["models"].items():
        if name.startswith(known) and _VERSION.fullmatch(name, len(known)):
            fields = {key: value for key, value in row.items() if key != "sheet"}
            return replace(_sheets()[row["sheet"]], name=f"{row['sheet']}/{known}", **fields)
    for start, sheet in _FAMILIES:
        if name.startswith(start):
            return _sheets()[sheet]
    return None


def get_prices(pricing: str | PriceSheet | Mapping[str, object]) -> PriceSheet:
    """Return a sheet from its name, a model's name, a mapping of its fields, or as it is.

    Raises:
        ConfigurationError: naming the sheets there are.
    """
    if isinstance(pricing, PriceSheet):
        return pricing
    if isinstance(pricing, Mapping):
        try:
            return PriceSheet(**{"name": "custom", **pricing})  # type: ignore[arg-type]
        except TypeError as error:
            raise ConfigurationError(
                f"a price sheet has the fields {', '.join(PriceSheet.__slots__)}: {error}"
            ) from error
    sheet = _sheets().get(pricing) or sheet_for(pricing)
    if sheet is None:
        raise ConfigurationError(
            f"there is no price sheet named {pricing!r}. Fix: one of {', '.join(_sheets())}, "
            "the name of a known model, or a PriceSheet of your own."
        )
    return sheet
