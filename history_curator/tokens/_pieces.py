"""Cut a long text where cutting cannot change its token count."""

from __future__ import annotations

from collections.abc import Iterator

PIECE = 32_768
"""Longest text handed to a tokenizer at once.

Far below the run of 999,999 whitespace characters at which tiktoken's regex engine panics.
"""

_TRIES = 64


def pieces(text: str, size: int = PIECE) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces of at most ``size`` characters, and whether each cut is exact.

    A cut between a non-space character and U+0020, or between a letter and a newline, is always
    a token boundary. Where a window offers neither, the cut is made anyway and may count one
    token too many.
    """
    start, end = 0, len(text)
    while end - start > size:
        cut, exact = _cut(text, start, start + size)
        yield text[start:cut], exact
        start = cut
    yield text[start:], True


def _cut(text: str, start: int, stop: int) -> tuple[int, bool]:
    earliest = start + (stop - start) // 2
    at = stop
    for _ in range(_TRIES):
        at = text.rfind(" ", earliest, at)
        if at <= start:
            break
        if not text[at - 1].isspace():
            return at, True
    at = stop
    for _ in range(_TRIES):
        at = text.rfind("\n", earliest, at)
        if at <= start:
            break
        if text[at - 1].isalpha():
            return at, True
    return stop, False
