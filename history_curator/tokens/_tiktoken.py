"""Exact counts with tiktoken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.tokens._base import CachingCounter, counting
from history_curator.tokens._encodings import ENCODINGS, load_encoding
from history_curator.tokens._families import FAMILIES, ModelFamily, find_family
from history_curator.tokens._heuristic import estimate
from history_curator.tokens._media import ImageFormula

_ESTIMATED = " estimated"


class TiktokenCounter(CachingCounter):
    """Counts with a tiktoken encoding, exactly; with a factor for models of other families.

    Takes the name of an encoding or of a model. The encoding is loaded at the first count, from
    a local copy where there is one. Without any, counts are conservative estimates: `exact` is
    False, `name` ends in ``estimated``, and one warning says so.

    Guaranteed: no text makes it raise (special tokens are counted as plain text), and no text
    makes it slow: a piece without a split point is cut, which may over-count by a token per
    32,768 characters.

    Args:
        encoding: an encoding such as ``"o200k_base"`` or a model such as ``"gpt-4o"``.
        factor: multiplies every count; by default what the model's family needs.
        tool_factor: multiplies tool schemas and calls further.
        image: tokens of an image by its size; by default the formula of the model's family.
        media: tokens of a kind of media that gives none: ``{"audio": 800}``.
        max_entries, max_chars: how many counts are remembered, and characters of what they are
            known by: a text of up to 64 characters itself, otherwise 16 bytes.

    Examples:
        >>> counter = TiktokenCounter("o200k_base")
        >>> counter.count("<|endoftext|>") > 1
        True
    """

    __slots__ = ("_encode", "_exact", "_options", "encoding")

    def __init__(
        self,
        encoding: str = "o200k_base",
        *,
        factor: float | None = None,
        tool_factor: float | None = None,
        image: ImageFormula | None = None,
        media: Mapping[str, int] | None = None,
        max_entries: int = 100_000,
        max_chars: int = 32_000_000,
    ) -> None:
        known = encoding in ENCODINGS
        family = ModelFamily(encoding, "", encoding) if known else find_family(encoding)
        if family is None:
            raise ConfigurationError(
                f"counter: {encoding!r} is neither an encoding ({', '.join(ENCODINGS)}) nor a "
                f"model of a known family ({', '.join(each.name for each in FAMILIES)}). "
                "Fix: use one of these, such as o200k_base; in Python "
                'TiktokenCounter("o200k_base", factor=1.2) counts conservatively.'
            )
        self.encoding = family.encoding
        factor = family.factor if factor is None else factor
        tool_factor = family.tool_factor if tool_factor is None else tool_factor
        named = [encoding if known else f"{self.encoding}:{family.name}"]
        if factor != family.factor:
            named.append(f"×{factor:g}")
        if tool_factor != family.tool_factor:
            named.append(f"tools×{tool_factor:g}")
        named += counting(image, media)
        shared: dict[str, Any] = {
            "factor": factor,
            "tool_factor": tool_factor,
            "media": media,
            "max_entries": max_entries,
            "max_chars": max_chars,
        }
        super().__init__(" ".join(named), image=image or family.image, **shared)
        self._options = {"encoding": encoding, "image": image, **shared}
        self._encode: Callable[[str], list[int]] | None = None
        self._exact: bool | None = None

    @property
    def model(self) -> str | None:
        """The model it was made for; None for an encoding."""
        given: str = self._options["encoding"]
        return None if given in ENCODINGS else given

    @property
    def exact(self) -> bool:
        """Whether the encoding is at hand; loads it."""
        if self._exact is None:
            self._encode = load_encoding(self.encoding)
            if self._encode is None:
                self._name = f"{self._name.removesuffix(_ESTIMATED)}{_ESTIMATED}"
            self._exact = self._encode is not None
        return self._exact

    @property
    def name(self) -> str:
        """The stable name counts are cached under; ``… estimated`` without the encoding."""
        if self._exact is None:
            self._exact = self.exact
        return self._name

    def _count_text(self, text: str) -> int:
        encode = self._encode if self.exact else None
        if encode is None:
            return estimate(text)
        try:
            return len(encode(text))
        except BaseException as error:
            # The Rust side panics with a BaseException of its own; everything else is not ours.
            if type(error).__name__ != "PanicException":
                raise
            return max(estimate(text), len(text.encode("utf-8", "replace")))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(TiktokenCounter, **self._options), ()
