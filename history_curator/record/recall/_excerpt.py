"""What an answer looks like: labels of ours at the start of a line, and quoted lines.

Every line of what was said starts with ``> ``, so a line that does not is ours, whatever the
quoted text holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from history_curator.managers.relevance._compose import entry_text, speaker
from history_curator.entries import ConversationEntry, quote
from history_curator.tokens import TokenCounter, shorten_tokens

_LINES = re.compile(r"\s*(\d{1,9})\s*(?:(-|–|\.\.|:|,|to)\s*(\d{1,9})?)?\s*")
_LONG_LINE = 2_000
_AROUND = 60
"""Tokens set aside for what surrounds an excerpt beside its label."""


def label_of(entry: ConversationEntry, position: int) -> str:
    """Return who said an entry, and its place in the record, from 1."""
    return f"{speaker(entry)}, message {position + 1}"


def quoted_lines(entry: ConversationEntry) -> list[str]:
    """Return the lines of an entry, each marked as quoted."""
    return quote(entry_text(entry)).split("\n")


def excerpt(label: str, lines: Sequence[str], wanted: Any, room: int, counter: TokenCounter) -> str:
    """Return the wanted of these quoted lines under a label, as many as fit, and how to get the others.

    Which are wanted is said from 1, as models write ranges.
    """
    total = len(lines)
    first, last = _line_range(wanted, total)
    if first > total:
        return f"[{label}] has {total} lines; line {first} does not exist."
    left = room - counter.count(label) - _AROUND
    taken: list[str] = []
    for line in lines[first - 1 : last]:
        left -= counter.count(line) + 1
        if left < 0:
            break
        taken.append(line)
    if not taken:
        left = room - counter.count(label) - _AROUND
        taken = [shorten_tokens(lines[first - 1], max(left, 1), counter, keep="head")]
    end = first + len(taken) - 1
    shown = f"lines {first}-{end} of {total}" if (first, end) != (1, total) else "whole"
    more = f'\n[More: lines="{end + 1}-{last}"]' if end < last else ""
    return f"[{label}, {shown}]\n" + "\n".join(taken) + more


def passage(label: str, lines: Sequence[str], query: str, room: int, counter: TokenCounter) -> str:
    """Return the stretch of quoted lines that matches a query best, within a room."""
    from history_curator.managers.relevance import terms

    whole = "\n".join((f"[{label}]", *lines))
    if len(whole) <= room * 8 and counter.count(whole) <= room:
        return whole
    wanted = set(terms(query))
    short = [line[:_LONG_LINE] for line in lines]
    hits = [len(wanted.intersection(terms(line))) for line in short]
    best = max(range(len(short)), key=lambda number: (hits[number], -number))
    room -= counter.count(label) + 20
    left = room - counter.count(short[best]) - 1
    first, last = best, best + 1
    while left > 0 and (first > 0 or last < len(short)):
        upward = first > 0 and (last >= len(short) or best - first < last - best)
        left -= counter.count(short[first - 1] if upward else short[last]) + 1
        if left < 0:
            break
        first, last = (first - 1, last) if upward else (first, last + 1)
    body = shorten_tokens("\n".join(short[first:last]), max(room, 1), counter, keep="head")
    return f"[{label}, lines {first + 1}-{last} of {len(short)}]\n{body}"


def _line_range(wanted: Any, total: int) -> tuple[int, int]:
    """Read a line range as models write it; anything unreadable means everything."""
    if isinstance(wanted, (list, tuple)) and wanted:
        wanted = "-".join(str(number) for number in wanted[:2])
    match = _LINES.fullmatch(str(wanted)) if wanted is not None else None
    if match is None:
        return 1, total
    first = max(1, int(match[1]))
    if match[2] is None:
        return first, min(first, total)
    last = int(match[3]) if match[3] else total
    return first, min(max(first, last), total)
