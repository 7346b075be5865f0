"""Shorten text from the head, the tail or the middle; a text that fits is returned untouched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from history_curator.tokens.base import TokenCounter

Keep = Literal["head", "tail", "both"]
"""Which end of a text survives: its head, its tail, or both with the middle left out."""

MAX_CHARS = 32_768
"""Longest text given to a tokenizer at once; tiktoken panics at 999,999 characters of whitespace."""
_DENSE = 3
"""Characters a token, about, of the densest common text. Most have more."""
# Greedy from one start, or of fixed width: none of them takes more than linear time.
_WORD_END = re.compile(r".*\S(?= )", re.DOTALL)
_LINE_END = re.compile(r".*[^\W\d_](?=\n)", re.DOTALL)
_HEAD_END = re.compile(r".*(?:[^\W\d_]|[0-9])(?=[ \n])", re.DOTALL)
_TAIL_START = re.compile(r"(?<=\S)(?= \S)|\n(?=[^\W\d_])")


def shorten(text: str, max_chars: int, keep: Keep = "both", marker: str = "…") -> str:
    """Return ``text`` in at most ``max_chars`` characters, ``marker`` where text was left out.

    A limit too small for the marker cuts plainly, without it.

    Examples:
        >>> shorten("abcdefghij", 5), shorten("abcdefghij", 5, keep="tail")
        ('ab…ij', '…ghij')
    """
    if len(text) <= max_chars:
        return text
    if len(marker) >= max_chars:
        marker = ""
    return _join_ends(text, max(0, max_chars - len(marker)), keep, marker)


def shorten_tokens(
    text: str,
    max_tokens: int,
    counter: TokenCounter,
    keep: Keep = "both",
    marker: str = "…",
) -> str:
    """Return ``text`` in at most ``max_tokens`` tokens, as ``counter`` counts them.

    Tokenises a small multiple of ``max_tokens``, however long the text is. The result fills the
    limit closely, not always to the last token.
    """
    if max_tokens <= 0:
        return "" if text else text
    if not _exceeds(counter, text, max_tokens):
        return text
    if marker and counter.count(marker) >= max_tokens:
        marker = ""
    # Regula falsi on the count: `fitting` always fits, `too_many` never does.
    fitting, too_many = 0, len(text)
    guess = min(too_many - 1, max_tokens * 4)
    for _ in range(12):
        if not fitting < guess < too_many:
            break
        tokens = counter.count(_join_ends(text, guess, keep, marker))
        if tokens > max_tokens:
            too_many = guess
        else:
            fitting = guess
            if tokens >= max_tokens * 0.98:
                break
        proportional = int(guess * max_tokens / max(tokens, 1))
        guess = max(fitting + 1, min(proportional, guess * 4, too_many - 1))
    return _join_ends(text, fitting, keep, marker) if fitting else marker


def cap_text(
    text: str, cap: int, counter: TokenCounter, marker: str
) -> tuple[str, int | None] | None:
    """Return a text with its middle left out, and its tokens where they are known.

    None when the text has no more than ``cap`` tokens. The marker has to begin and end with a
    newline: between a letter or digit and a space, and before a single space, it changes no token
    beside it, so head, marker and tail add up. Where the text offers no such boundary nearby, or
    counts are estimates, it is cut anyway and its tokens are left to be counted.
    """
    if len(text) <= cap * _DENSE and counter.count(text) <= cap:
        return None
    adds_up = getattr(counter, "exact", False) and getattr(counter, "factor", 1.0) == 1.0
    marker_tokens = counter.count(marker) if adds_up else cap
    available = cap - marker_tokens
    head, head_tokens = _fill(text, available // 2, counter, from_end=False)
    tail, tail_tokens = _fill(text, available - head_tokens, counter, from_end=True)
    if 0 < head < len(text) - tail < len(text):
        middle = text[head : len(text) - tail]
        if not _exceeds(counter, middle, cap - head_tokens - tail_tokens):
            return None
        short = text[:head] + marker + text[len(text) - tail :]
        return short, head_tokens + marker_tokens + tail_tokens
    if not _exceeds(counter, text, cap):
        return None
    return shorten_tokens(text, cap, counter, keep="both", marker=marker), None


def split_for_tokenizer(text: str, max_chars: int = MAX_CHARS) -> Iterator[tuple[str, bool]]:
    """Yield a text in pieces of at most ``max_chars``, each with whether the cut after it is exact.

    An exact cut lies between a non-space character and U+0020, or between a letter and a newline,
    and changes no count. Where there is none, the cut may add one token.
    """
    start = 0
    while len(text) - start > max_chars:
        stop = start + max_chars
        middle = start + max_chars // 2 - 1
        found = _WORD_END.match(text, middle, stop) or _LINE_END.match(text, middle, stop)
        stop = found.end() if found else stop
        yield text[start:stop], found is not None
        start = stop
    yield text[start:], True


def _join_ends(text: str, chars: int, keep: Keep, marker: str) -> str:
    """Return so many characters of a text with a marker in place of the rest."""
    if keep == "head":
        return text[:chars] + marker
    if keep == "tail":
        return marker + text[len(text) - chars :]
    tail = chars // 2
    return text[: chars - tail] + marker + text[len(text) - tail :]


def _exceeds(counter: TokenCounter, text: str, limit: int) -> bool:
    exceeds: Callable[[str, int], bool] | None = getattr(counter, "exceeds", None)
    return counter.count(text) > limit if exceeds is None else exceeds(text, limit)


def _fill(text: str, available: int, counter: TokenCounter, *, from_end: bool) -> tuple[int, int]:
    """Return how many characters of one end of a text nearly fill so many tokens, and their tokens.

    The first half is taken as if the text were dense, the rest by the density of the first.
    """
    chars = tokens = 0
    size = available * _DENSE // 2
    for _ in range(6 if available > 0 else 0):
        if from_end:
            end = len(text) - chars
            found = _TAIL_START.search(text, max(end - size, 1), end + 1)
            piece = text[found.end() : end] if found else ""
        else:
            found = _HEAD_END.match(text, chars, chars + size + 1)
            piece = found[0] if found else ""
        if not piece:
            break
        piece_tokens = counter.count(piece)
        if tokens + piece_tokens <= available:
            chars, tokens = chars + len(piece), tokens + piece_tokens
        if (available - tokens) * 20 <= available:
            break
        size = int((available - tokens) * len(piece) / max(1, piece_tokens) * 0.97)
    return chars, tokens
