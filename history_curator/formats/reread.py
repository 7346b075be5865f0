"""Read what was written once more. Goes when `window` and `rules` no longer ask for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

from history_curator.entries import ConversationEntry
from history_curator.formats import (
    MessageFormat,
    has_call_ids,
    read_entries,
    ungroup_items,
    wire_of,
)


def reread(
    format: MessageFormat,
    entries: Sequence[ConversationEntry],
    count: Callable[[ConversationEntry], int] | None = None,
) -> Sequence[ConversationEntry]:
    """Return entries as they are read once they were written: the very list where nothing differs."""
    again = read_entries(ungroup_items(format.write(entries)), format)

    def alike(old: ConversationEntry, new: ConversationEntry) -> bool:
        return says_the_same(old, new) and (count is None or count(old) == count(new))

    out: list[ConversationEntry] = []
    if len(again) == len(entries):
        for old, new in zip(entries, again, strict=True):
            out.append(old if alike(old, new) else _read_as(old, new))
        return entries if all(map(is_, out, entries)) else out
    place = 0
    for new in again:
        found = next((n for n in range(place, len(entries)) if alike(entries[n], new)), None)
        out.append(new if found is None else entries[found])
        place = place if found is None else found + 1
    return out


def says_the_same(one: ConversationEntry, other: ConversationEntry) -> bool:
    """Return whether two entries say the same to a provider."""
    calls, others = one.tool_calls or (), other.tool_calls or ()
    return (
        one.role is other.role
        and (one.content or "") == (other.content or "")
        and (one.barrier, one.name) == (other.barrier, other.name)
        and len(calls) == len(others)
        and all(
            (a.name, a.arguments) == (b.name, b.arguments) and (a.id == b.id or not has_call_ids(b))
            for a, b in zip(calls, others, strict=True)
        )
        and (one.tool_call_id == other.tool_call_id or wire_of(other) == "gemini")
        and _media(one) == _media(other)
        and _reasoning(one) == _reasoning(other)
    )


def _media(entry: ConversationEntry) -> list[tuple[str, Any]]:
    return [(part.kind, part.raw) for part in entry.parts or () if part.kind != "text"]


def _reasoning(entry: ConversationEntry) -> list[tuple[str | None, str | None, bool]]:
    return [(each.text, each.signature, each.encrypted) for each in entry.reasoning or ()]


def _read_as(entry: ConversationEntry, read: ConversationEntry) -> ConversationEntry:
    return entry.evolve(
        role=read.role,
        content=read.content,
        parts=read.parts,
        tool_calls=read.tool_calls,
        tool_call_id=read.tool_call_id,
        reasoning=read.reasoning,
        name=read.name,
        action=entry.action or "repaired",
        reason=entry.reason or "what is sent reads so",
    )
