"""Shorten text from the head, the tail or the middle, by characters or by tokens.

Both functions are deterministic, return a text that already fits untouched (so they are
idempotent), and never return more than they were asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from history_curator.tokens import TokenCounter

Keep = Literal["head", "tail", "both"]
"""Which end of a text survives: its head, its tail, or both with the middle left out."""

_ROUNDS = 12
_CLOSE_ENOUGH = 0.98


def shorten(text: str, max_chars: int, keep: Keep = "both", marker: str = "…") -> str:
    """Return ``text`` in at most ``max_chars`` characters, ``marker`` where text was left out.

    A limit too small for the marker cuts plainly, without it.

    Examples:
        >>> shorten("abcdefghij", 5)
        'ab…ij'
        >>> shorten("abcdefghij", 5, keep="tail")
        '…ghij'
    """
    if len(text) <= max_chars:
        return text
    if max_chars <= 0:
        return ""
    if len(marker) >= max_chars:
        return _join(text, max_chars, keep, "")
    return _join(text, max_chars - len(marker), keep, marker)


def shorten_tokens(
    text: str,
    max_tokens: int,
    counter: TokenCounter,
    keep: Keep = "both",
    marker: str = "…",
) -> str:
    """Return ``text`` in at most ``max_tokens`` tokens, as ``counter`` counts them.

    Tokenises a small multiple of ``max_tokens``, however long the text is. What is kept fills
    the limit closely, not always to the last token.

    Examples:
        >>> from history_curator.tokens import HeuristicCounter
        >>> counter = HeuristicCounter()
        >>> counter.count(shorten_tokens("word " * 500, 20, counter)) <= 20
        True
    """
    if max_tokens <= 0:
        return "" if text else text
    exceeds: Callable[[str, int], bool] | None = getattr(counter, "exceeds", None)
    over = exceeds(text, max_tokens) if exceeds else counter.count(text) > max_tokens
    if not over:
        return text
    measure: Callable[[str], int] = getattr(counter, "measure", counter.count)
    if marker and measure(marker) >= max_tokens:
        marker = ""
    kept = _fitting(text, max_tokens, measure, keep, marker)
    return _join(text, kept, keep, marker) if kept else marker


def _fitting(
    text: str, max_tokens: int, measure: Callable[[str], int], keep: Keep, marker: str
) -> int:
    """Return how many characters may be kept: regula falsi on the count, safe at every step."""
    low, high = 0, len(text)
    guess = min(high - 1, max_tokens * 4)
    for _ in range(_ROUNDS):
        if guess <= low or guess >= high:
            break
        tokens = measure(_join(text, guess, keep, marker))
        if tokens <= max_tokens:
            low = guess
            if tokens >= max_tokens * _CLOSE_ENOUGH:
                break
        else:
            high = guess
        wanted = int(guess * max_tokens / max(tokens, 1))
        guess = max(low + 1, min(wanted, guess * 4, high - 1))
    return low


def _join(text: str, kept: int, keep: Keep, marker: str) -> str:
    """Return ``kept`` characters of ``text`` with ``marker`` in place of the rest."""
    if keep == "head":
        return text[:kept] + marker
    if keep == "tail":
        return marker + text[len(text) - kept :]
    tail = kept // 2
    return text[: kept - tail] + marker + text[len(text) - tail :]
