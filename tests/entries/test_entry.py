"""Entries are frozen, data and back; handles are the names under which recall finds them."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from history_curator.entries import (
    ConversationEntry,
    MessageRole,
    ToolCall,
    entry_from_dict,
    entry_to_dict,
    find_handle,
    handle_of,
    span_handle,
)

FILLED: dict[str, Any] = {
    "role": MessageRole.TOOL, "content": "text", "sequence": 7,
    "tool_calls": (ToolCall("c1", "look"),),
    "tool_call_id": "c1", "tool_name": "look", "name": "bot", "status": "error", "pinned": True,
    "truncated": True, "original_length": 900, "handle": "r1", "origin": "note",
    "role_name": "function", "barrier": True, "repairs": "role: padded", "metadata": {"k": 1},
    "action": "cleared", "reason": "old",
}  # fmt: skip


def plain(text: str = "hi") -> ConversationEntry:
    return ConversationEntry(MessageRole.USER, text)


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


class TestHandles:
    def test_have_64_bits_and_say_nothing_else(self) -> None:
        said = [plain(f"message {number}") for number in range(300)]
        assert all(re.fullmatch(r"r[0-9a-f]{16}", handle_of(one)) for one in said)
        spans = {span_handle(said[:size]) for size in (2, 10, 300)}
        assert {len(span) for span in spans} == {34}
        assert len(spans) == 3

    def test_a_run_is_found_where_it_is_also_among_equal_texts(self) -> None:
        said = [plain(text) for text in ("ok", "ok", "yes", "ok", "yes", "no")]
        handles = [handle_of(one) for one in said]
        for start in range(len(said)):
            for end in range(start + 1, len(said) + 1):
                found = find_handle(span_handle(said[start:end]), handles)
                assert found is not None
                assert said[slice(*found)] == said[start:end]

    def test_an_older_or_cut_handle_is_none(self) -> None:
        (handle,) = handles = [handle_of(plain("ok"))]
        assert find_handle(handle, []) is None
        for other in ("", handle[:9], f"{handle}-", f"{handle}-5-{handle}"):
            assert find_handle(other, handles) is None
