"""Texts whose pieces add up, so that no piece is tokenised twice: one that is capped, and lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from history_curator.entries import ConversationEntry
from history_curator.tokens._shorten import shorten_tokens

if TYPE_CHECKING:
    from history_curator.tokens import TokenCounter

__all__ = ["cap_text", "count_lines", "keep_count"]

_SPARSE = 3
"""Characters a token, about, of the densest common text. Most have more."""
_CAREFUL = 0.97
"""Of what is left, by how it was so far, so much is taken at once."""
_TRIES = 64


def cap_text(
    text: str, max_tokens: int, counter: TokenCounter, marker: str
) -> tuple[str, int | None] | None:
    r"""Return a text with its middle left out, and its tokens where they are known.

    None when the text has no more than ``max_tokens``. The marker has to begin and end with a
    newline: between a letter or digit and a space, and before a single space, it changes no token
    beside it, so head, marker and tail add up. Where the text offers no such place nearby, it is
    cut anyway and its tokens are left to be counted.

    Examples:
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


def count_lines(lines: Sequence[str], counter: TokenCounter) -> int | None:
    r"""Return the tokens of lines joined by newlines, from those of each; None where unknown.

    Each is counted with its newline, and remembered. A token ends there, unless the next line is
    blank or indented, or begins with a slash where this one ends with neither letter nor digit:
    those are counted together.

    Examples:
        >>> from history_curator.tokens import TiktokenCounter
        >>> counter, lines = TiktokenCounter("o200k_base"), ["read(src/a.py)", "said: done"]
        >>> count_lines(lines, counter) == counter.count("\n".join(lines))
        True
    """
    if not _adds_up(counter):
        return None
    joined = list(lines[:1])
    for line in lines[1:]:
        starts = line[:1]
        if not starts or starts.isspace() or (starts == "/" and not joined[-1][-1:].isalnum()):
            joined[-1] = f"{joined[-1]}\n{line}"
        else:
            joined.append(line)
    return sum(counter.count(f"{line}\n") for line in joined[:-1]) + counter.count(joined[-1])


def keep_count(entry: ConversationEntry, text: int | None, counter: TokenCounter) -> None:
    """Let a counter know what the text of an entry costs, if that is known."""
    count_known = getattr(counter, "count_known", None)
    if text is not None and count_known is not None and entry.parts is None:
        count_known(entry, text)


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

    def first(taken: int, size: int) -> str | None:
        cut = _cut_before(text, taken, taken + size)
        return None if cut is None else text[taken:cut]

    def last(taken: int, size: int) -> str | None:
        end = len(text) - taken
        cut = _cut_behind(text, end - size, end)
        return None if cut is None else text[cut:end]

    head, spent = _taken(left // 2, first, measure)
    behind, also = _taken(left - spent, last, measure)
    tail, spent = len(text) - behind, spent + also
    if not 0 < head < tail < len(text):
        return None
    return head, tail, spent, marked


def _taken(
    room: int, stretch: Callable[[int, int], str | None], measure: Callable[[str], int]
) -> tuple[int, int]:
    """Return how many characters of a text fill a room, nearly, and their tokens.

    The first half is taken as if the text were dense; the rest by what that showed.
    """
    taken = spent = 0
    size = room * _SPARSE // 2
    for _ in range(6):
        piece = stretch(taken, size)
        if piece is None:
            break
        tokens = measure(piece)
        if spent + tokens <= room:
            taken, spent = taken + len(piece), spent + tokens
        if (room - spent) * 20 <= room:
            break
        size = int((room - spent) * len(piece) / max(1, tokens) * _CAREFUL)
    return taken, spent


def _cut_before(text: str, start: int, stop: int) -> int | None:
    """The last place in a stretch behind a letter or digit and before a space or a newline."""
    at = min(stop, len(text)) + 1
    for _ in range(_TRIES):
        at = max(text.rfind(" ", start + 1, at), text.rfind("\n", start + 1, at))
        if at < 0:
            return None
        if text[at - 1].isalpha() or text[at - 1] in "0123456789":
            return at
    return None


def _cut_behind(text: str, start: int, stop: int) -> int | None:
    """The first place in a stretch before a single space, or before a letter that begins a line."""
    at = max(start, 1) - 1
    for _ in range(_TRIES):
        places = (text.find(" ", at + 1, stop), text.find("\n", at + 1, stop))
        at = min((place for place in places if place >= 0), default=-1)
        if at < 0:
            return None
        follows = text[at + 1 : at + 2]
        if text[at] == "\n":
            if at + 1 < stop and follows.isalpha():
                return at + 1
        elif not text[at - 1].isspace() and follows.strip():
            return at
    return None
