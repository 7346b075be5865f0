"""What a request costs when the provider remembers the prefix of the last one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

from history_curator.errors import ConfigurationError

__all__ = ["PriceSheet", "get_prices", "price_sheets"]


@dataclass(frozen=True, slots=True)
class PriceSheet:
    """How one provider charges for input tokens; factors are multiples of the plain input price.

    Example:
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
    """

    name: str
    read: float = 1.0
    write: float = 1.0
    minimum: int = 0
    step: int = 1
    input_per_million: float = 1.0
    about: str = ""

    def cached(self, prefix: int) -> int:
        """Return how many of ``prefix`` repeated tokens the provider reads from its cache."""
        if prefix < self.minimum or self.read >= self.write:
            return 0
        return prefix - prefix % self.step

    def cost(self, tokens: int, prefix: int) -> float:
        """Return the price of a request of ``tokens``, the first ``prefix`` of them repeated.

        The repetition is against the request before it. A request too short to be cached is
        charged at the plain price.
        """
        hit = self.cached(prefix)
        write = self.write if tokens >= self.minimum else 1.0
        return (hit * self.read + (tokens - hit) * write) * self.input_per_million / 1_000_000

    def at(self, input_per_million: float) -> PriceSheet:
        """Return the sheet with a real price per million input tokens."""
        return replace(self, input_per_million=input_per_million)


@lru_cache(maxsize=1)
def _sheets() -> dict[str, PriceSheet]:
    text = files("history_curator.lab").joinpath("prices.json").read_text(encoding="utf-8")
    return {name: PriceSheet(name=name, **row) for name, row in json.loads(text).items()}


def price_sheets() -> Mapping[str, PriceSheet]:
    """Return the sheets that ship with the library, by name."""
    return dict(_sheets())


def get_prices(pricing: str | PriceSheet | Mapping[str, object]) -> PriceSheet:
    """Return a sheet from its name, from a mapping of its fields, or as it is.

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
                f"a price sheet has the fields read, write, minimum, step, input_per_million: "
                f"{error}"
            ) from error
    sheets = _sheets()
    if pricing not in sheets:
        raise ConfigurationError(
            f"there is no price sheet named {pricing!r}. Fix: one of {', '.join(sheets)}, "
            "or a PriceSheet of your own."
        )
    return sheets[pricing]
