"""Cut a long text where cutting cannot change its token count."""

from __future__ import annotations

from collections.abc import Iterator

PIECE = 32_768
"""Longest text handed to a tokenizer at once.

Far below the run of 999,999 whitespace characters at which tiktoken's regex engine panics.
"""

_TRIES = 64
_REACH = 160
_DIGITS = frozenset("0123456789")


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


def spliceable(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Cuts near `start` and `end` between which a marker can stand without changing other tokens.

    The first lies at or before `start`, behind a letter or a digit and before a space; the second
    at or after `end`, before a single space. Such places are token boundaries in the text, and
    stay so when what is between them becomes a marker that begins and ends with a newline. None
    where the text offers none nearby.
    """
    first = start + 1
    for _ in range(_TRIES):
        first = text.rfind(" ", max(1, start - _REACH), first)
        if first < 0:
            return None
        if text[first - 1].isalpha() or text[first - 1] in _DIGITS:
            break
    else:
        return None
    second = end - 1
    for _ in range(_TRIES):
        second = text.find(" ", second + 1, end + _REACH)
        if second < 0:
            return None
        if not text[second - 1].isspace() and text[second + 1 : second + 2].strip():
            return first, second
    return None
