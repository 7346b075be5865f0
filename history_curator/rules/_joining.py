"""Join a run of entries into one without losing a word, an image or a thought."""

from __future__ import annotations

from collections.abc import Sequence

from history_curator.entries import ContentPart, ConversationEntry
from history_curator.rules._invariant import edit, remembered


def joined_text(parts: Sequence[ContentPart]) -> str | None:
    """The text of the parts the way the readers join it."""
    texts = [part.text for part in parts if part.kind == "text" and part.text]
    return "\n".join(texts) if texts else None


def join_entries(run: Sequence[ConversationEntry], reason: str) -> ConversationEntry:
    """Return the run as one entry.

    It is an edited copy of the entry that carries calls, else of the first. The recorded entries
    that went into it are listed under ``"merged"`` in its metadata.
    """
    entries = tuple(run)
    base = next((entry for entry in entries if entry.tool_calls), entries[0])
    known: tuple[tuple[ConversationEntry, ...], ConversationEntry] | None
    known = remembered(
        base, ("joined", tuple(map(id, entries))), lambda: _join(entries, base, reason)
    )
    return known[1]


def _join(
    entries: tuple[ConversationEntry, ...], base: ConversationEntry, reason: str
) -> tuple[tuple[ConversationEntry, ...], ConversationEntry]:
    parts: tuple[ContentPart, ...] | None = None
    if any(entry.parts for entry in entries):
        parts = tuple(part for entry in entries for part in _parts(entry))
        content = joined_text(parts)
    else:
        texts = [entry.content for entry in entries if entry.content]
        content = "\n\n".join(texts) if texts else None
    reasoning = tuple(block for entry in entries for block in entry.reasoning or ())
    absorbed = [entry.root for entry in entries if entry is not base]
    absorbed += [root for entry in entries for root in (entry.metadata or {}).get("merged", ())]
    merged = edit(
        base,
        content=content,
        parts=parts,
        reasoning=reasoning or None,
        pinned=any(entry.pinned for entry in entries),
        truncated=any(entry.truncated for entry in entries),
        barrier=any(entry.barrier for entry in entries),
        origin=None if any(entry.origin is None for entry in entries) else base.origin,
        metadata={**(base.metadata or {}), "merged": absorbed},
        action="merged",
        reason=reason,
    )
    return entries, merged  # holding the run keeps the ids in the key theirs


def _parts(entry: ConversationEntry) -> tuple[ContentPart, ...]:
    if entry.parts:
        return entry.parts
    return (ContentPart("text", entry.content),) if entry.content else ()
