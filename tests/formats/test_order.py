"""Blocks of an edited message stand where they stood."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from history_curator.formats import DictFormat, ResponsesFormat, read_entries, ungroup_items
from tests.wire.blocks import CALL, IMAGE, SAID, THOUGHT, says, text, use

SEARCH = {"type": "server_tool_use", "id": "s", "name": "search", "input": {}}
BLOCKS: dict[str, dict[str, Any]] = {
    block["type"]: block for block in (text("a"), use("c"), THOUGHT, IMAGE, SEARCH)
}


def message_of(kinds: tuple[str, ...]) -> dict[str, Any]:
    blocks = [{**BLOCKS[kind]} for kind in kinds]
    for n, block in enumerate(blocks):
        if "id" in block:
            block["id"] += str(n)
    return says(*blocks)


def written(message: dict[str, Any], **changes: Any) -> list[str]:
    format = DictFormat()
    (entry,) = format.read(message, 0)
    (out,) = format.write([entry.evolve(**changes)])
    return [block["type"] for block in out["content"]]


@pytest.mark.parametrize(
    "kinds",
    [
        ("text", "tool_use"),
        ("tool_use", "text"),
        ("thinking", "text", "tool_use", "tool_use"),
        ("text", "image", "tool_use"),
        ("text", "server_tool_use", "tool_use"),
        ("tool_use", "text", "tool_use"),
    ],
    ids="-".join,
)
@pytest.mark.parametrize("changes", [{"content": "b"}, {"reasoning": None, "content": "b"}])
def test_an_edited_text_keeps_its_place(kinds, changes):
    expected = [kind for kind in kinds if kind != "thinking" or "reasoning" not in changes]
    assert written(message_of(kinds), **changes) == expected


@pytest.mark.parametrize("changes", [{"content": "b"}, {"content": "b", "parts": None}])
def test_several_texts_that_become_one_stay_on_their_side_of_the_calls(changes):
    for kinds in product(BLOCKS, repeat=3):
        texts = [n for n, kind in enumerate(kinds) if kind == "text"]
        calls = [n for n, kind in enumerate(kinds) if kind == "tool_use"]
        if not texts or not calls:
            continue
        out = written(message_of(kinds), **changes)
        first = out.index("text")
        if max(texts) < min(calls):
            assert first < out.index("tool_use"), kinds
        if max(calls) < min(texts):
            assert first > len(out) - 1 - out[::-1].index("tool_use"), kinds


def test_a_call_that_goes_leaves_the_others_where_they_are():
    message = message_of(("text", "tool_use", "image", "tool_use"))
    (entry,) = DictFormat().read(message, 0)
    (out,) = DictFormat().write([entry.evolve(tool_calls=entry.tool_calls[1:])])
    assert out["content"] == [message["content"][n] for n in (0, 2, 3)]


def test_items_of_an_answer_of_responses_keep_their_order():
    program = {"type": "program", "id": "p1", "call_id": "p", "code": "look()"}
    items = [SAID, CALL, program, SAID | {"id": "m2"}]
    format = ResponsesFormat()
    (entry,) = read_entries(items, format)
    parts = tuple(part for part in entry.parts if part.kind != "text")
    out = ungroup_items(format.write([entry.evolve(pinned=True)]))
    assert out == items
    out = ungroup_items(format.write([entry.evolve(parts=parts, content=None)]))
    assert out == items[1:3]
