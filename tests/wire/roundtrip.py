"""Entries are sent as they were counted: what a format writes says the same when it is read."""

from __future__ import annotations

from typing import Any

from history_curator.formats import find_format, has_call_ids, read_entries, ungroup_items, wire_of
from history_curator.tokens import get_counter

COUNTER = get_counter("o200k_base")


def count_sent(messages: list[Any], provider: str) -> int:
    """Count messages as they are read anew."""
    entries = read_entries(messages, find_format(messages, provider))
    return COUNTER.priming + sum(map(COUNTER.count_entry, entries))


def assert_reads_as_written(format: Any, entries: Any, label: str = "") -> None:
    """Write entries, read them again, and compare what they say and what they cost."""
    again = read_entries(ungroup_items(format.write(entries)), format)
    assert [entry.role for entry in again] == [entry.role for entry in entries], label
    for old, new in zip(entries, again, strict=True):
        assert _says(new, new) == _says(old, new), label
        assert COUNTER.count_entry(new) == COUNTER.count_entry(old), label


def _says(entry: Any, read: Any) -> Any:
    """What an entry says, without ids where the format of `read` has none."""
    ids = not read.tool_calls or all(map(has_call_ids, read.tool_calls))
    return (
        entry.content or "",
        entry.barrier,
        entry.name,
        [(call.id if ids else "", call.name, call.arguments) for call in entry.tool_calls or ()],
        entry.tool_call_id if wire_of(read) != "gemini" else None,
        [(part.kind, part.raw) for part in entry.parts or () if part.kind != "text"],
        [(each.text, each.signature, each.encrypted) for each in entry.reasoning or ()],
    )
