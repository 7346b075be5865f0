"""Cap a text at a number of tokens: head and tail stay, and what stays is tokenised once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from history_curator.tokens._shorten import shorten_tokens

if TYPE_CHECKING:
    from history_curator.tokens import TokenCounter

__all__ = ["cap_text"]

_SPARSE = 3
"""Characters a token, about, of the densest common text. Most have more."""
_TRIES = 64


def cap_text(
    text: str, max_tokens: int, counter: TokenCounter, marker: str
) -> tuple[str, int | None] | None:
    r"""Return a text with its middle left out, and its tokens where they are known.

    None when the text has no more than ``max_tokens``. The marker has to begin and end with a
    newline: between a letter or digit and a space, and before a single space, it changes no token
    beside it, so head, marker and tail add up. Where the text offers no such place nearby, it is
    cut anyway and its tokens are left to be counted.

    Example:
        >>> from history_curator.tokens import HeuristicCounter
        >>> counter = HeuristicCounter()
        >>> text, _ = cap_text("word " * 400, 60, counter, "\n[…]\n")
        >>> text.startswith("word word"), "[…]" in text, counter.count(text) <= 60
        (True, True, True)
    """
    if len(text) <= max_tokens * _SPARSE and counter.count(text) <= max_tokens:
        return None
    if _adds_up(counter):
        found = _ends(text, max_tokens, counter, marker)
        if found is not None:
            head, tail, spent, marked = found
            if _exceeds(counter, text[head:tail], max_tokens - spent):
                return text[:head] + marker + text[tail:], spent + marked
            return None
    if not _exceeds(counter, text, max_tokens):
        return None
    return shorten_tokens(text, max_tokens, counter, keep="both", marker=marker), None


def _exceeds(counter: TokenCounter, text: str, limit: int) -> bool:
    exceeds: Callable[[str, int], bool] | None = getattr(counter, "exceeds", None)
    return counter.count(text) > limit if exceeds is None else exceeds(text, limit)


def _adds_up(counter: TokenCounter) -> bool:
    """Whether counts of pieces are the count of the whole: a tokenizer's are, an estimate's not."""
    return bool(getattr(counter, "exact", False)) and getattr(counter, "factor", 1.0) == 1.0


def _ends(
    text: str, max_tokens: int, counter: TokenCounter, marker: str
) -> tuple[int, int, int, int] | None:
    """Where the head ends and the tail begins, what both cost, and what the marker does."""
    measure: Callable[[str], int] = getattr(counter, "measure", counter.count)
    marked = measure(marker)
    left = max_tokens - marked
    if left <= 0:
        return None
    head, spent = 0, 0
    while (left // 2 - spent) * 20 > left:
        cut = _cut_before(text, head, head + (left // 2 - spent) * _SPARSE)
        tokens = 0 if cut is None else measure(text[head:cut])
        if cut is None or spent + tokens > left // 2:
            break
        head, spent = cut, spent + tokens
    tail = len(text)
    while (left - spent) * 20 > left:
        cut = _cut_behind(text, tail - (left - spent) * _SPARSE, tail)
        tokens = 0 if cut is None else measure(text[cut:tail])
        if cut is None or spent + tokens > left:
            break
        tail, spent = cut, spent + tokens
    if not 0 < head < tail < len(text):
        return None
    return head, tail, spent, marked


def _cut_before(text: str, start: int, stop: int) -> int | None:
    """The last place in a stretch that lies behind a letter or digit and before a space."""
    at = min(stop, len(text)) + 1
    for _ in range(_TRIES):
        at = text.rfind(" ", start + 1, at)
        if at < 0:
            return None
        if text[at - 1].isalpha() or text[at - 1] in "0123456789":
            return at
    return None


def _cut_behind(text: str, start: int, stop: int) -> int | None:
    """The first place in a stretch that lies before a single space."""
    at = max(start, 1) - 1
    for _ in range(_TRIES):
        at = text.find(" ", at + 1, stop)
        if at < 0:
            return None
        if not text[at - 1].isspace() and text[at + 1 : at + 2].strip():
            return at
    return None
