"""Entries are frozen, small, and the same however they are made."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
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
    "role": MessageRole.TOOL,
    "content": "text",
    "sequence": 7,
    "tool_calls": (ToolCall("c1", "look"),),
    "tool_call_id": "c1",
    "tool_name": "look",
    "name": "bot",
    "status": "error",
    "pinned": True,
    "truncated": True,
    "original_length": 900,
    "handle": "r1",
    "origin": "note",
    "role_name": "function",
    "barrier": True,
    "repairs": "role: padded",
    "metadata": {"k": 1},
    "action": "cleared",
    "reason": "old",
    "span": (0, 2),
    "source": {"role": "tool"},
}


def plain() -> ConversationEntry:
    return ConversationEntry(MessageRole.USER, "hi")


def test_every_field_is_kept_and_has_its_default() -> None:
    entry = ConversationEntry(**FILLED)
    for name, value in FILLED.items():
        assert getattr(entry, name) == value
    for field in fields(ConversationEntry):
        if field.name not in ("role", "content"):
            assert getattr(plain(), field.name) == field.default


@pytest.mark.parametrize("name", [field.name for field in fields(ConversationEntry)])
def test_no_field_can_be_set(name: str) -> None:
    for entry in (plain(), ConversationEntry(**FILLED), plain().evolve(reason="x")):
        with pytest.raises(FrozenInstanceError):
            setattr(entry, name, "other")


@pytest.mark.parametrize("name", [field.name for field in fields(ConversationEntry) if field.init])
def test_evolve_and_replace_change_one_field(name: str) -> None:
    before = ConversationEntry(**FILLED)
    for entry in (before.evolve(**{name: None}), replace(before, **{name: None})):
        assert getattr(entry, name) is None
        others = {field for field in FILLED if field not in (name, "original")}
        assert all(getattr(entry, field) == FILLED[field] for field in others)
    assert getattr(before, name) == FILLED.get(name)


def test_an_edited_copy_remembers_what_was_recorded() -> None:
    entry = plain()
    copied = entry.evolve(content="a").evolve(content="b")
    assert copied.original is entry is copied.root


def test_equality_looks_at_what_is_said_and_not_at_what_is_remembered() -> None:
    assert plain() == plain().evolve(reason="x", action="repaired", metadata={"a": 1})
    assert plain() != plain().evolve(name="ann")
    assert plain() != plain().evolve(origin="note")


def test_plain_data_and_back() -> None:
    entry = replace(ConversationEntry(**FILLED), source=None, span=None)
    assert entry_from_dict(entry_to_dict(entry)) == entry
