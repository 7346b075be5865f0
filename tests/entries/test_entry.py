"""Entries are frozen, small, and the same however they are made."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from history_curator.entries import (
    ConversationEntry,
    MessageRole,
    ToolCall,
    entry_from_dict,
    entry_to_dict,
)

FILLED: dict[str, Any] = {
    "role": MessageRole.TOOL, "content": "text", "sequence": 7,
    "tool_calls": (ToolCall("c1", "look"),),
    "tool_call_id": "c1", "tool_name": "look", "name": "bot", "status": "error", "pinned": True,
    "truncated": True, "original_length": 900, "handle": "r1", "origin": "note",
    "role_name": "function", "barrier": True, "repairs": "role: padded", "metadata": {"k": 1},
    "action": "cleared", "reason": "old",
}  # fmt: skip


def plain() -> ConversationEntry:
    return ConversationEntry(MessageRole.USER, "hi")


def test_an_entry_is_never_changed() -> None:
    for entry in (plain(), plain().evolve(reason="x")):
        with pytest.raises(FrozenInstanceError):
            setattr(entry, "content", "other")  # noqa: B010


def test_an_edited_copy_remembers_what_was_recorded() -> None:
    entry = plain()
    copied = entry.evolve(content="a").evolve(content="b")
    assert copied.original is entry is copied.root


def test_equality_looks_at_what_is_said_and_not_at_what_is_remembered() -> None:
    assert plain() == plain().evolve(reason="x", action="repaired", metadata={"a": 1})
    assert plain() != plain().evolve(name="ann")
    assert plain() != plain().evolve(origin="note")


def test_plain_data_and_back() -> None:
    entry = ConversationEntry(**FILLED)
    assert entry_from_dict(entry_to_dict(entry)) == entry
