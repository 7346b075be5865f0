"""Shorten text from the head, the tail or the middle; a text that fits is returned untouched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from history_curator.tokens.base import TokenCounter

Keep = Literal["head", "tail", "both"]
"""Which end of a text survives: its head, its tail, or both with the middle left out."""

MAX_CHARS = 32_768
"""Longest text given to a tokenizer at once; tiktoken panics at 999,999 characters of whitespace."""
# Greedy from one start, or of fixed width: none of them takes more than linear time.
_WORD_END = re.compile(r".*\S(?= )", re.DOTALL)
_LINE_END = re.compile(r".*[^\W\d_](?=\n)", re.DOTALL)
# Words that may have been cut: half a number is another number.
_LAST_WORD, _FIRST_WORD = re.compile(r"\s\S{0,32}\Z"), re.compile(r"\A\S{0,32}(?=\s)")


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
    return marker.join(_cut_ends(text, max(0, max_chars - len(marker)), keep))


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
        return ""
    if not _exceeds(text, max_tokens, counter):
        return text
    if marker and counter.count(marker) >= max_tokens:
        marker = ""
    # Regula falsi on the count: `fitting` always fits, `too_many` never does.
    fitting, too_many = 0, len(text)
    guess = min(too_many - 1, max_tokens * 4)
    for _ in range(12):
        if not fitting < guess < too_many:
            break
        tokens = counter.count(_join_words(text, guess, keep, marker))
        if tokens > max_tokens:
            too_many = guess
        else:
            fitting = guess
            if tokens >= max_tokens * 0.98:
                break
        proportional = int(guess * max_tokens / max(tokens, 1))
        guess = max(fitting + 1, min(proportional, guess * 4, too_many - 1))
    return _join_words(text, fitting, keep, marker) if fitting else marker


def split_for_tokenizer(text: str, max_chars: int = MAX_CHARS) -> Iterator[str]:
    """Yield a text in pieces of at most ``max_chars``, cut where no count changes.

    That is between a non-space character and U+0020, or between a letter and a newline. Where there
    is no such place, the cut may add one token.
    """
    start = 0
    while len(text) - start > max_chars:
        stop = start + max_chars
        middle = start + max_chars // 2 - 1
        found = _WORD_END.match(text, middle, stop) or _LINE_END.match(text, middle, stop)
        stop = found.end() if found else stop
        yield text[start:stop]
        start = stop
    yield text[start:]


def _join_words(text: str, chars: int, keep: Keep, marker: str) -> str:
    """Return so many characters of a text, less a cut word, with a marker in place of the rest."""
    head, tail = _cut_ends(text, chars, keep)
    return _LAST_WORD.sub("", head) + marker + _FIRST_WORD.sub("", tail)


def _cut_ends(text: str, chars: int, keep: Keep) -> tuple[str, str]:
    """Return the two ends of a text that are kept, so many characters together."""
    tail = {"head": 0, "tail": chars, "both": chars // 2}[keep]
    return text[: chars - tail], text[len(text) - tail :]


def _exceeds(text: str, limit: int, counter: TokenCounter) -> bool:
    """Return whether a text has more tokens, tokenising little more than those."""
    at_once, total = max(2_048, 8 * limit), 0
    for piece in split_for_tokenizer(text, min(at_once, MAX_CHARS)) if len(text) > at_once else ():
        total += counter.count(piece) - 1  # a cut adds one at most
        if total > limit:
            return True
    return counter.count(text) > limit
