"""Speakers: who said what, and whom a question is about."""

from __future__ import annotations

import re
from array import array
from typing import Any

from history_curator.managers.relevance._english import SHORT_FORMS, STOPWORDS
from history_curator.managers.relevance._text import numpy
from history_curator.entries import ConversationEntry, MessageRole

NAMED = 1.75
"""What the messages of the one speaker count whom the question names."""
MEANT = 1.6
"""The same where there are no names and the question says I or you."""
OFTEN = 0.05
"""Of the messages: how many have to start with a name for it to be a speaker's."""

_LABEL = re.compile(r"\s*(?:\[[^\]\n]*\]\s*)?([A-Z][\w'’-]{1,30})(?: [A-Z][\w'’-]{0,30})?:\s")
_WORD = re.compile(r"\w+")
_USER = re.compile(r"\b(?:i|my|me|mine|myself)\b", re.IGNORECASE)
_ASSISTANT = re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE)
_YOU_SAID = re.compile(
    r"\b(?:did|have|had)\s+you\b"
    r"|\byou(?:['’]ve| have| had| once)?\s+(?:\w{2,}ed|said|gave|told|wrote|thought|made)\b"
    r"|\byour\s+(?:\w+\s+)?(?:advice|answers?|explanations?|opinions?|recommendations?|suggestions?)\b",
    re.IGNORECASE,
)
_POLITE = re.compile(r"\b(?:can|could|would|will)\s+you\b", re.IGNORECASE)
_UNNAMED = 0
_MOST = 255


class Speakers:
    """Who said each message of a conversation."""

    def __init__(self) -> None:
        self._who = array("B")
        self._user = array("B")
        self._names: dict[str, int] = {}

    def add(self, entry: ConversationEntry) -> None:
        """Append one message."""
        name = _first_name(entry)
        number = _UNNAMED
        if name and (name in self._names or len(self._names) < _MOST):
            number = self._names.setdefault(name, len(self._names) + 1)
        self._who.append(number)
        self._user.append(entry.role is MessageRole.USER)

    def factors(self, question: str, limit: int) -> Any:
        """Return what each of the first messages counts for a question; None when all the same.

        With names, the messages of the one speaker named count more, also where a short form of
        the name is used. Without, "I" means the user, "you" and what you said the assistant.
        """
        np = numpy()
        who = np.array(self._who[:limit])
        often = np.bincount(who, minlength=len(self._names) + 1) >= max(2, OFTEN * limit)
        names = {name: number for name, number in self._names.items() if often[number]}
        if names:
            named = _named(question, names)
            return np.where(who == named.pop(), NAMED, 1.0) if len(named) == 1 else None
        role = _role_meant(question)
        if role is None:
            return None
        user = np.array(self._user[:limit]) == (role is MessageRole.USER)
        return np.where(user, MEANT, 1.0)


def _named(question: str, names: dict[str, int]) -> set[int]:
    """Return which of the speakers a question names; Mel is Melanie where no other name fits."""
    said = set(_WORD.findall(question))
    named = {names[word.lower()] for word in said if word.lower() in names}
    for word in said:
        short = word.lower()
        if word.istitle() and short not in names and short not in STOPWORDS:
            fits = {number for name, number in names.items() if _is_short_for(short, name)}
            named |= fits if len(fits) == 1 else set()
    return named


def _is_short_for(one: str, other: str) -> bool:
    short, name = sorted((one, other), key=len)
    return len(short) > 1 and (name.startswith(short) or short in SHORT_FORMS.get(name, ()))


def _role_meant(question: str) -> MessageRole | None:
    asked = _POLITE.sub(" ", question)
    if _YOU_SAID.search(asked):
        return MessageRole.ASSISTANT
    if _USER.search(asked):
        return MessageRole.USER
    return MessageRole.ASSISTANT if _ASSISTANT.search(asked) else None


def _first_name(entry: ConversationEntry) -> str | None:
    if entry.role is MessageRole.TOOL:
        return None
    if entry.name:
        found = _WORD.search(entry.name)
        return found[0].lower() if found else None
    label = _LABEL.match((entry.content or "")[:160])
    return label[1].lower() if label else None
