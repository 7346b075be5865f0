"""What is being asked right now."""

from __future__ import annotations

import re
from collections.abc import Sequence

from history_curator.model import ConversationEntry, MessageRole
from history_curator.relevance._scorers import Query
from history_curator.relevance._text import words

__all__ = ["latest_question", "query_at"]

_SENTENCE = re.compile(r"[^.!?\n]*\?")
_SHORT = 5
_CONTEXT = 0.5
_MAX_CHARS = 4_000


def latest_question(entries: Sequence[ConversationEntry]) -> int | None:
    """Return the position of the latest entry said by the user, or None."""
    for position in range(len(entries) - 1, -1, -1):
        if entries[position].is_real_user:
            return position
    return None


def query_at(entries: Sequence[ConversationEntry], position: int, said: str | None = None) -> Query:
    """Return the query of the user entry at a position, or of what is about to be said there.

    A short reply ("yes, the second one") means little without the question it answers, so the
    assistant's last question then counts as well, with less weight.

    Example:
        >>> from history_curator.model import ConversationEntry as E, MessageRole as R
        >>> query_at([E(R.ASSISTANT, "Noted. Which airport?"), E(R.USER, "Oslo")], 1)
        {'Which airport?': 0.5, 'Oslo': 1.0}
    """
    said = ((entries[position].content if said is None else said) or "")[-_MAX_CHARS:]
    query: dict[str, float] = {}
    if len(words(said)) <= _SHORT:
        for earlier in range(position - 1, -1, -1):
            entry = entries[earlier]
            if entry.role is MessageRole.ASSISTANT and entry.content:
                asked = _SENTENCE.findall(entry.content[-_MAX_CHARS:])
                if asked:
                    query[asked[-1].strip()] = _CONTEXT
                break
            if entry.is_real_user:
                break
    query[said] = 1.0
    return query
