"""The words in which earlier parts come back: marked, so that nobody takes them for a request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from history_curator.model import ConversationEntry, MessageRole
from history_curator.relevance._entry_text import entry_text, speaker
from history_curator.tokens import TokenCounter

__all__ = [
    "IDENTIFIERS_HEAD",
    "RECOLLECTION_HEAD",
    "RECOLLECTION_TAIL",
    "identifier_note",
    "marked_entry",
    "quote",
    "quote_cost",
    "recollection",
]

RECOLLECTION_HEAD = "[Recollection: earlier parts of this conversation that may matter now]"
RECOLLECTION_TAIL = "[End of recollection]"
IDENTIFIERS_HEAD = "[Identifiers from earlier parts of this conversation, no longer shown]"

_LABEL = 7
"""Tokens of a label without its speaker: brackets, a place of up to six digits, a line end."""


def quote(entries: Iterable[ConversationEntry], start: int) -> str:
    """Return a unit word for word, each entry with its speaker and its place in the record."""
    return "\n".join(
        f"[{start + offset}] {speaker(entry)}: {entry_text(entry)}"
        for offset, entry in enumerate(entries)
    )


def quote_cost(entries: Iterable[ConversationEntry], counter: TokenCounter) -> int:
    """Return the most a quote costs, from counts that are known already."""
    return sum(
        counter.count(entry_text(entry)) + counter.count(speaker(entry)) + _LABEL
        for entry in entries
    )


def recollection(quotes: Sequence[str], before: ConversationEntry) -> ConversationEntry:
    """Return the block of quotes as one marked user entry, to stand at another entry."""
    return marked_entry(
        "\n".join((RECOLLECTION_HEAD, *quotes, RECOLLECTION_TAIL)),
        before=before,
        origin="recollection",
        reason=f"{len(quotes)} earlier parts that match the latest question",
    )


def identifier_note(
    ranked: Iterable[str], room: int, counter: TokenCounter, before: ConversationEntry
) -> ConversationEntry | None:
    """Return the best identifiers that fit `room` tokens as one marked user entry.

    An identifier that is part of one already listed is visible and not repeated.
    """
    room -= counter.count(IDENTIFIERS_HEAD) + 4
    listed: list[str] = []
    text = ""
    for value in ranked:
        if room < 3:
            break
        if value in text:
            continue
        cost = counter.count(value) + 1
        if cost <= room:
            room -= cost
            listed.append(value)
            text += value + "\n"
    if not listed:
        return None
    return marked_entry(
        f"{IDENTIFIERS_HEAD}\n{text}".rstrip("\n"),
        before=before,
        origin="note",
        reason=f"{len(listed)} identifiers from parts that are no longer shown",
    )


def marked_entry(
    text: str, *, before: ConversationEntry, origin: str, reason: str
) -> ConversationEntry:
    """Return an invented user entry that every later step keeps and reports.

    It takes the sequence of the entry it stands before, so that the order holds where a provider
    wants the two joined.
    """
    return ConversationEntry(
        role=MessageRole.USER,
        content=text,
        sequence=before.sequence,
        pinned=True,
        origin=origin,
        action="inserted",
        reason=reason,
    )
