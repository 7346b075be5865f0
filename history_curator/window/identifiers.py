"""Identifiers: the names, paths and ids an agent may need again after their source left the view.

Agents rarely look up prose again. They look up a path, an order number or a flag they used
before. Each stands under the key or the tool it came from, so that nobody has to guess what it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.formats import parse_json, parse_object

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

_RUN = re.compile(rf"[#~.\w@/+-]{{{SHORTEST},}}")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")
_ID = re.compile(r"#?[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*")
_HINT = re.compile(r"[\d/@]")
"""Every identifier in a text has one of these, and none a space."""
_NAMES_NUMBER = re.compile(r"id|number|code|zip|phone|pid|port|account|ref", re.IGNORECASE)
"""Keys under which a bare number means something."""
RESULT = "result"
"""The key of what a result holds that does not name its tool."""
Named = tuple[str, str]
"""The key or tool that a value came from, and the value."""


class Mentions(NamedTuple):
    """The identifiers of one entry, none of them twice."""

    used: tuple[Named, ...] = ()  # as arguments of calls
    found: tuple[Named, ...] = ()  # in a text

    def with_label(self, tool: str) -> Mentions:
        """Return the same of a result whose message does not name its tool."""
        found = [(tool if label == RESULT else label, value) for label, value in self.found]
        return Mentions(self.used, tuple(found))


def find_identifiers(entry: ConversationEntry) -> Mentions:
    """Return the identifiers of one entry.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R
        >>> find_identifiers(E(R.USER, "please change order #W5565470 in src/app.py"))
        Mentions(used=(), found=(('user', '#W5565470'), ('user', 'src/app.py')))
    """
    used: dict[str, str] = {}
    for call in entry.tool_calls or ():
        for label, value in _walk_values(parse_object(call.arguments), call.name):
            if len(value) >= SHORTEST - 1 and (_is_told(label, value) or value.isdigit()):
                used.setdefault(value, label)
    found: dict[str, str] = {}
    if entry.content and entry.role is not MessageRole.ASSISTANT:
        for label, value in _find_in_text(entry, entry.content[:SCANNED_CHARACTERS]):
            if len(used) + len(found) >= MOST_PER_ENTRY:
                break
            if value not in used and _is_told(label, value):
                found.setdefault(value, label)
    swapped = [tuple((label, value) for value, label in each.items()) for each in (used, found)]
    return Mentions(*swapped)


def rank_identifiers(mentions: Sequence[Mentions]) -> list[Named]:
    """Return identifiers, most useful first: used often and lately, arguments before finds."""
    scores: dict[str, float] = {}
    labels: dict[str, str] = {}
    decay, factor = 0.5 ** (1.0 / HALF_LIFE), 1.0
    for used, found in reversed(mentions):
        for named, weight in ((used, 1.0), (found, FOUND_WEIGHT)):
            for label, value in named:
                scores[value] = scores.get(value, 0.0) + weight * factor
                labels.setdefault(value, label)
        factor *= decay
    counts = Counter(label for each in mentions for named in each for label, _ in named)
    distinct = Counter(labels.values())

    def worth(value: str) -> float:  # a key whose values come again is worth more
        label = labels[value]
        repeats = max(0, counts[label] - distinct[label])
        return scores[value] * (repeats + 1) / (counts[label] + 2)

    return [(labels[value], value) for value in sorted(scores, key=worth, reverse=True)]


def _is_told(label: str, value: str) -> bool:
    """Whether a value means something under its label: no bare number, and no pair of words."""
    if value.isdigit():
        return _NAMES_NUMBER.search(label) is not None
    if "/" not in value or " " in value or value.count("/") > 1:
        return True
    return any(each in "._-" or each.isdigit() for each in value)


def _find_in_text(entry: ConversationEntry, text: str) -> Iterator[Named]:
    """Yield the values of a text under their keys where it is JSON, else under the speaker."""
    label = entry.tool_name or (RESULT if entry.role is MessageRole.TOOL else entry.role.value)
    if text.lstrip()[:1] in ("{", "["):
        try:
            values = parse_json(entry.content or "")
        except ValueError:
            values = None
        if values is not None:
            for key, value in _walk_values(values, label):
                if len(value) >= SHORTEST and " " not in value and _HINT.search(value):
                    yield key, value
            return
    for word in dict.fromkeys(text.split()):
        if len(word) < SHORTEST or not _HINT.search(word) or word.startswith("<"):
            continue
        for run in _RUN.findall(word[:_WORD]):
            for value in _list_values(run) if _HINT.search(run) else ():
                if SHORTEST <= len(value) <= LONGEST:
                    yield label, value


def _list_values(run: str) -> list[str]:
    """Return the path, the mail address, or the ids and numbers that a run of characters holds."""
    if "@" in run and _MAIL.fullmatch(run.rstrip(".")):
        return [run.rstrip(".")]
    if "/" in run:
        path = run.lstrip("#+").rstrip("/.@~+-#")
        return [path] if "/" in path else []
    return [value for value in _ID.findall(run) if _HINT.search(value)]


def _walk_values(value: object, label: str) -> Iterator[Named]:
    """Yield the short values of JSON data, each with the nearest key above it."""
    waiting: list[tuple[str, object]] = [(label, value)]
    count = 0
    while waiting and count < MOST_PER_ENTRY:
        label, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(reversed([(str(key), each) for key, each in value.items()]))
        elif isinstance(value, list):
            waiting.extend((label, each) for each in reversed(value))
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            text = value if isinstance(value, str) else repr(value)
            if len(text) <= LONGEST and "\n" not in text:
                count += 1
                yield label[:40], text
