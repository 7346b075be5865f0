"""Identifiers: the names, paths and ids an agent may need again after their source left the view.

What an agent looks up again is rarely prose; it is a path, an order number, a flag it used
before. A line per identifier keeps dozens of exchanges usable for the price of one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from history_curator.entries import ConversationEntry, MessageRole

__all__ = ["HALF_LIFE", "Mentions", "identifiers_of", "rank_identifiers"]

SHORTEST, LONGEST = 4, 120
HALF_LIFE = 100
"""Entries after which a mention counts half."""
FOUND = 0.1
"""A mention found in a text, against one used as the argument of a call."""
MOST = 100
"""Identifiers taken from one entry at most."""
READ = 50_000
"""Characters of one entry looked at."""

_PATH = r"(?:[~.\w@-]*/)+[\w.@-]*\w"
_ID = r"#?\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z_])[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*\b"
_NUMBER = r"\b\d{5,20}\b"
_MAIL = r"\b[\w.+-]+@[\w-]+\.[\w.]+\b"
_FOUND = re.compile(f"{_PATH}|{_ID}|{_NUMBER}")
_FOUND_WITH_MAIL = re.compile(f"{_MAIL}|{_FOUND.pattern}")
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


NO_MENTIONS = Mentions()


def identifiers_of(entry: ConversationEntry) -> Mentions:
    """Return the identifiers of one entry.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R
        >>> identifiers_of(E(R.USER, "please change order #W5565470 in src/app.py"))
        Mentions(used=(), found=('#W5565470', 'src/app.py'))
    """
    calls = entry.tool_calls or ()
    used = dict.fromkeys(value for call in calls for value in _leaves(call.arguments))
    found: dict[str, None] = {}
    if entry.content and entry.role is not MessageRole.ASSISTANT:
        spoken = entry.content[:READ].split()
        hinted = [word for word in spoken if len(word) > SHORTEST and _HINT.search(word)]
        words = " ".join(dict.fromkeys(hinted))
        pattern = _FOUND_WITH_MAIL if "@" in words else _FOUND
        for value in pattern.findall(words):
            if SHORTEST < len(value) <= LONGEST and value not in used:
                found[value] = None
                if len(used) + len(found) >= MOST:
                    break
    return Mentions(tuple(used), tuple(found)) if used or found else NO_MENTIONS


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
            scores[value] = scores.get(value, 0.0) + FOUND * factor
        factor *= decay
    return sorted(scores, key=scores.__getitem__, reverse=True)


def _leaves(arguments: str) -> Iterable[str]:
    try:
        waiting = [json.loads(arguments)]
    except ValueError:
        return
    count = 0
    while waiting and count < MOST:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            text = value if isinstance(value, str) else json.dumps(value)
            if SHORTEST <= len(text) <= LONGEST and "\n" not in text:
                count += 1
                yield text
