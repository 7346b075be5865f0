"""What is being asked right now."""

from __future__ import annotations

import re
from collections.abc import Sequence

from history_curator.managers.relevance._scorers import Query
from history_curator.managers.relevance._text import words
from history_curator.entries import ConversationEntry, MessageRole

_SENTENCE = re.compile(r"[^.!?\n]*\?")
_GOES_ON = re.compile(
    r"\s*(?:and|but|or|so|also|then|(?:what|how) about|what else|anything else|why(?: not)?\?)\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:(?:it|its|they|them|their|he|him|his|she|her|there|then|ones?)\b"
    r"|(?:that|this|those|these)(?!\s+\w))",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[\w,] )[A-Z]\w+")
_FEW = 2
"""Words: no more of them, and even a question is no whole one."""
_SHORT = 5
"""Words with a meaning of their own, up to which a message may lean on the one before."""
_CONTEXT = 0.5
"""What the message before counts, against the question itself."""
_MAX_CHARS = 4_000
_MAX_CONTEXT = 400


def leans(said: str) -> bool:
    """Whether a message means little without what was said before it.

    Examples:
        >>> [leans(said) for said in ("yes", "And who paid for it?", "Who paid for Ann's trip?")]
        [True, True, False]
    """
    count = len(words(said))
    if count > _SHORT:
        return False
    if _GOES_ON.match(said):
        return True
    whole = count and "?" in said and len(said.split()) > _FEW
    return not whole or bool(_POINTS_BACK.search(said) and not _NAME.search(said))


def query_at(entries: Sequence[ConversationEntry], position: int, said: str | None = None) -> Query:
    """Return the query of the user entry at a position, or of what is about to be said there.

    A message that leans on the last turn ("yes, the second one", "and when was that?") is read
    with it: what the user said before, and what the assistant asked last, count half.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R
        >>> query_at([E(R.ASSISTANT, "Noted. Which airport?"), E(R.USER, "Oslo")], 1)
        {'Which airport?': 0.5, 'Oslo': 1.0}
    """
    said = ((entries[position].content if said is None else said) or "")[-_MAX_CHARS:]
    query: dict[str, float] = {}
    if leans(said):
        for text in _last_turn(entries, position):
            query[text] = _CONTEXT
    query[said] = 1.0
    return query


def _last_turn(entries: Sequence[ConversationEntry], position: int) -> list[str]:
    """Return what the assistant asked last, and what the user had said before that."""
    found: list[str] = []
    answered = False
    for earlier in range(position - 1, -1, -1):
        entry = entries[earlier]
        if entry.is_real_user:
            found.append((entry.content or "")[-_MAX_CONTEXT:].strip())
            break
        if entry.role is MessageRole.ASSISTANT and entry.content and not answered:
            answered = True
            asked = _SENTENCE.findall(entry.content[-_MAX_CHARS:])
            found.extend(asked[-1:])
    return [text.strip() for text in found if text.strip()]
