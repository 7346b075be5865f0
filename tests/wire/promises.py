"""What is promised of a view on the wire, as one function that any test can hold it against."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from history_curator import BudgetUnsatisfiableError, Curator, check_conversation
from history_curator.errors import ConversionError
from history_curator.formats import (
    RESPONSE_ITEMS,
    find_format,
    has_call_ids,
    read_entries,
    ungroup_items,
    wire_of,
)
from history_curator.tokens import get_counter

PROVIDERS = {
    "chat": ("openai", "core", "portable", "mistral"),
    "anthropic": ("anthropic", "core", "portable"),
    "responses": ("openai-responses", "core"),
    "gemini": ("gemini", "core", "portable"),
    "bedrock": ("bedrock", "core", "portable"),
}
"""Whose rules make sense for a format."""
BUDGETS = (None, 2_000, 500)
COUNTER = get_counter("o200k_base")


def hold(
    messages: Sequence[Any], provider: str, budget: int | None, label: str
) -> ConversionError | BudgetUnsatisfiableError | None:
    """Curate, and assert every promise; return the error where there is no view."""
    before = copy.deepcopy(messages)
    curator = Curator(provider=provider, max_tokens=budget)
    try:
        format = find_format(messages, provider)
        curation = curator.curate(messages, format=format, tail="request")
    except (ConversionError, BudgetUnsatisfiableError) as error:
        return error
    view = curation.messages
    assert repr(messages) == repr(before), f"{label}: the input was changed"  # NaN is not NaN
    if messages:  # of nothing there may be no view
        assert check_conversation(view, provider) == [], label
    json.dumps(view, allow_nan=False, default=str)
    if view:
        assert curation.tokens == count_sent(view, provider), label
    items = [each for each in view if each.get("type") in (*RESPONSE_ITEMS, "message")]
    ids = [item["id"] for item in items if isinstance(item.get("id"), str)]
    assert len(set(ids)) == len(ids), f"{label}: an item is in the list twice"
    assert_reads_as_written(format, curation.entries, label)
    format = find_format(view, provider)
    again = Curator(provider=provider, max_tokens=budget)
    repeated = again.curate(view, format=format, tail="request")
    assert repr(repeated.messages) == repr(view), f"{label}: not idempotent"
    return None


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
