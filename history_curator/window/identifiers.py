"""Identifiers: the names, paths and ids an agent may need again after their source left the view.

Agents rarely look up prose again. They look up a path, an order number or a flag they used
before. A line per identifier keeps dozens of exchanges usable for the price of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.formats import parse_object

HALF_LIFE = 100
"""Entries after which a mention counts half."""
SHORTEST, LONGEST = 5, 120
FOUND_WEIGHT = 0.1
"""A mention found in a text, against one used as the argument of a call."""
MOST_PER_ENTRY = 100
SCANNED_CHARACTERS = 50_000
"""Characters of one entry that are looked at."""
_WORD = 400
"""Characters of one word that are looked at; no identifier is as long."""

_RUN = re.compile(r"[#~.\w@/+-]+")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")
_ID = re.compile(r"#?[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*")
_HINT = re.compile(r"[\d/@]")
"""Every identifier has one of these, and none a space."""


class Mentions(NamedTuple):
    """The identifiers of one entry, none of them twice.

    Attributes:
        used: arguments of calls.
        found: found in a text.
    """

    used: tuple[str, ...] = ()
    found: tuple[str, ...] = ()


def find_identifiers(entry: ConversationEntry) -> Mentions:
    """Return the identifiers of one entry.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R
        >>> find_identifiers(E(R.USER, "please change order #W5565470 in src/app.py"))
        Mentions(used=(), found=('#W5565470', 'src/app.py'))
    """
    used = dict.fromkeys(
        value for call in entry.tool_calls or () for value in _short_values(call.arguments)
    )
    found: dict[str, None] = {}
    if entry.content and entry.role is not MessageRole.ASSISTANT:
        for value in _values_in_text(entry.content[:SCANNED_CHARACTERS]):
            if len(used) + len(found) >= MOST_PER_ENTRY:
                break
            if value not in used:
                found[value] = None
    return Mentions(tuple(used), tuple(found))


def rank_identifiers(mentions: Sequence[Mentions], half_life: float = HALF_LIFE) -> list[str]:
    """Return identifiers, most useful first: used often and lately, arguments before finds.

    Args:
        mentions: the mentions of each entry, in order, up to the place the ranking is for.
        half_life: entries after which a mention counts half.
    """
    scores: dict[str, float] = {}
    decay = 0.5 ** (1.0 / half_life)
    factor = 1.0
    for used, found in reversed(mentions):
        for value in used:
            scores[value] = scores.get(value, 0.0) + factor
        for value in found:
            scores[value] = scores.get(value, 0.0) + FOUND_WEIGHT * factor
        factor *= decay
    return sorted(scores, key=scores.__getitem__, reverse=True)


def _values_in_text(text: str) -> Iterator[str]:
    for word in dict.fromkeys(text.split()):
        if len(word) < SHORTEST or not _HINT.search(word):
            continue
        for run in _RUN.findall(word[:_WORD]):
            for value in _values_in_run(run):
                if SHORTEST <= len(value) <= LONGEST:
                    yield value


def _values_in_run(run: str) -> Iterator[str]:
    """Yield the path, the mail address, or the ids and numbers that a run of characters holds."""
    if "@" in run and _MAIL.fullmatch(run.rstrip(".")):
        yield run.rstrip(".")
    elif "/" in run:
        path = run.lstrip("#+").rstrip("/.@~+-#")
        if "/" in path:
            yield path
    else:
        for value in _ID.findall(run):
            digits = value.lstrip("#")
            if digits.isdigit():
                if 5 <= len(digits) <= 20:
                    yield digits
            elif any(map(str.isdigit, value)):
                yield value


def _short_values(arguments: str) -> Iterator[str]:
    """Yield the short values in the JSON arguments of a call."""
    waiting: list[object] = [parse_object(arguments)]
    count = 0
    while waiting and count < MOST_PER_ENTRY:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            text = value if isinstance(value, str) else repr(value)
            if SHORTEST - 1 <= len(text) <= LONGEST and "\n" not in text:
                count += 1
                yield text
