"""The recall tool, bound to a record."""

from __future__ import annotations

import pytest

from history_curator.entries import handle_of
from history_curator.errors import ConversionError
from llamaindex_history_curator import LlamaIndexFormat, recall_tool
from tests.llamaindex.factories import assistant, call, result, user

SAID = [
    user("look"),
    call("a"),
    result("a", "line one\nthe code is 4711\nline three"),
    assistant("ok"),
]


def handle(index: int) -> str:
    return handle_of(LlamaIndexFormat().read(SAID[index], index)[0])


def test_by_handle_and_lines() -> None:
    assert "the code is 4711" in recall_tool(SAID)(handle=handle(2)).content
    out = recall_tool(SAID)(handle=handle(2), lines="2").content
    assert "4711" in out
    assert "line one" not in out


def test_a_foreign_handle_is_refused_in_words() -> None:
    assert recall_tool(SAID)(handle="r0000000000000000").content.startswith("Refused")


def test_what_is_no_message_is_named() -> None:
    with pytest.raises(ConversionError, match=r"messages\[0\].*ChatMessage"):
        recall_tool([{"role": "user", "content": "hi"}])(query="hi")  # type: ignore[list-item]
