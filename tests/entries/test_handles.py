"""Handles: short names under which the recall tool finds an entry."""

from __future__ import annotations

import re

from history_curator.entries import (
    ConversationEntry,
    MessageRole,
    find_handle,
    handle_of,
    is_handle,
    span_handle,
)


def entry(text: str, role: MessageRole = MessageRole.USER) -> ConversationEntry:
    return ConversationEntry(role, text)


class TestHandles:
    def test_have_64_bits_and_say_nothing_else(self) -> None:
        said = [entry(f"message {number}") for number in range(300)]
        assert all(re.fullmatch(r"r[0-9a-f]{16}", handle_of(one)) for one in said)
        spans = {span_handle(said[:size]) for size in (2, 10, 300)}
        assert {len(span) for span in spans} == {34}
        assert len(spans) == 3

    def test_a_run_is_found_where_it_is_also_among_equal_texts(self) -> None:
        said = [entry(text) for text in ("ok", "ok", "yes", "ok", "yes", "no")]
        handles = [handle_of(one) for one in said]
        for start in range(len(said)):
            for end in range(start + 1, len(said) + 1):
                found = find_handle(span_handle(said[start:end]), handles)
                assert found is not None
                assert said[slice(*found)] == said[start:end]

    def test_an_older_or_cut_handle_is_none(self) -> None:
        assert not is_handle("r01234567")
        assert not is_handle("r0123456789abcdef-5-r0123456789abcdef")
        assert find_handle("r0123456789abcdef", []) is None
