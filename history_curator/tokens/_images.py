"""What an image costs: the providers' published formulas."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["ImageFormula", "claude", "gemini", "image_detail", "patches", "tiles"]


class ImageFormula(Protocol):
    """Tokens of an image of ``width`` × ``height`` pixels; the worst case when unknown."""

    def __call__(self, width: int | None, height: int | None, *, detail: str | None = None) -> int:
        """Return the tokens."""


@dataclass(frozen=True, slots=True)
class tiles:  # noqa: N801 - reads as a function, is a class so that counters can be pickled
    """OpenAI's 512-pixel tiles: fit into 2048², short side to 768, base + tokens per tile.

    Examples:
        >>> tiles(85, 170)(1024, 1024)
        765
        >>> tiles(85, 170)(1024, 1024, detail="low")
        85
    """

    base: int
    tile: int

    def __call__(self, width: int | None, height: int | None, *, detail: str | None = None) -> int:
        """Return the tokens."""
        if detail == "low":
            return self.base
        if not width or not height:
            return self.base + self.tile * 8
        scale = min(1.0, 2048 / max(width, height))
        scale *= min(1.0, 768 / (min(width, height) * scale))
        across = max(1, math.ceil(round(width * scale, 6) / 512))
        down = max(1, math.ceil(round(height * scale, 6) / 512))
        return self.base + self.tile * across * down


@dataclass(frozen=True, slots=True)
class patches:  # noqa: N801 - see `tiles`
    """OpenAI's 32-pixel patches, at most 1536 of them, times a factor of the model.

    Examples:
        >>> patches(1.0)(1024, 1024)
        1024
    """

    factor: float
    most: int = 1536

    def __call__(self, width: int | None, height: int | None, *, detail: str | None = None) -> int:
        """Return the tokens."""
        if not width or not height:
            return math.ceil(self.most * self.factor)
        count = math.ceil(width / 32) * math.ceil(height / 32)
        return math.ceil(min(count, self.most) * self.factor)


def claude(width: int | None, height: int | None, *, detail: str | None = None) -> int:
    """Return what an image costs with Claude: 28-pixel patches, at most about 1568."""
    if not width or not height:
        return 1568
    return min(1568, math.ceil(width / 28) * math.ceil(height / 28))


def gemini(width: int | None, height: int | None, *, detail: str | None = None) -> int:
    """Return what an image costs with Gemini: 258, or 258 per 768-pixel tile when larger."""
    if not width or not height:
        return 258 * 4
    if max(width, height) <= 384:
        return 258
    return 258 * math.ceil(width / 768) * math.ceil(height / 768)


def image_detail(raw: Any) -> str | None:
    """Return the ``detail`` an OpenAI image block asks for."""
    if not isinstance(raw, Mapping):
        return None
    inner = raw.get("image_url")
    detail = inner.get("detail") if isinstance(inner, Mapping) else raw.get("detail")
    return detail if isinstance(detail, str) else None
