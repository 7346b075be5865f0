"""Messages to entries and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from history_curator.entries import ConversationEntry, MessageRole, ToolCall
from history_curator.errors import ConversionError
from langchain_history_curator import HistoryCurator, LangChainFormat
from langchain_history_curator.models import messages_of
from tests.langchain.factories import ai, answer, human, system, tool

wire = LangChainFormat()
IMAGE = {"type": "image", "url": "u"}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "r"}
TEXT = {"type": "text", "text": "and?"}


def read(message: Any) -> ConversationEntry:
    (entry,) = wire.read(message, 0)
    return entry


def write(*entries: ConversationEntry) -> list[Any]:
    return wire.write(entries)


@pytest.mark.parametrize(
    "message",
    [
        system(),
        human("hi", name="ann", id="m1"),
        answer(),
        ai("a", "b"),
        tool("a", artifact={"rows": [1]}),
        AIMessageChunk("half"),
        HumanMessage([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": "x"}]),
        AIMessage([{"type": "thinking", "thinking": "t", "signature": "s"}]),
        ChatMessage("hi", role="user"),
        ChatMessage("hello", role="assistant"),
        HumanMessage([RESULT]),
    ],
    ids=lambda message: type(message).__name__,
)
def test_an_untouched_message_comes_back_as_the_same_object(message: BaseMessage) -> None:
    (written,) = wire.write(wire.read(message, 0))
    assert written is message


BAD_CALL: Any = {"name": "t", "args": '{"a": ', "id": "x", "error": "bad"}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (AIMessage("", invalid_tool_calls=[BAD_CALL]), [ToolCall("x", "t", '{"a": ')]),
        (ChatMessage("hi", role="Assistant"), []),
    ],
)
def test_calls_are_read_from_every_place(message: BaseMessage, expected: list[ToolCall]) -> None:
    entry = read(message)
    assert entry.role is MessageRole.ASSISTANT
    assert [*(entry.tool_calls or ())] == expected


def test_thinking_is_reasoning_and_tools_of_the_server_are_opaque() -> None:
    blocks: list[Any] = [
        {"type": "thinking", "thinking": "hmm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xx"},
        {"type": "non_standard", "value": {"type": "redacted_thinking", "data": "xx"}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        {"type": "text", "text": "found"},
    ]
    entry = read(AIMessage(blocks))
    assert (entry.content, entry.tool_calls) == ("found", None)
    assert [(r.text, r.signature, r.encrypted) for r in entry.reasoning or ()] == [
        ("hmm", "sig", False),
        (None, None, True),
        (None, None, True),
    ]
    assert [part.kind for part in entry.parts or ()] == ["other", "other", "text"]


def test_an_instruction_is_no_message() -> None:
    assert wire.read(RemoveMessage(id="x"), 0) == ()


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (7, r"messages\[1\].*int is not a message"),
        ({"text": "hi"}, r"messages\[1\]\.role"),
        (FunctionMessage("r", name="f"), r"messages\[1\].*FunctionMessage is not a message"),
    ],
)
def test_an_unknown_thing_is_refused_by_position(thing: Any, said: str) -> None:
    with pytest.raises(ConversionError, match=said):
        HistoryCurator().invoke(["hi", thing])


class TestShorthand:
    def test_strings_and_tuples(self) -> None:
        given = ["hi", ("system", "be kind"), ["ai", "hello"]]
        expected = [HumanMessage("hi"), SystemMessage("be kind"), AIMessage("hello")]
        assert messages_of(given) == expected

    def test_openai_dicts_become_messages(self) -> None:
        raw = {"id": "c", "type": "function", "function": {"name": "t", "arguments": '{"a": 1}'}}
        dicts = [
            {"role": "developer", "content": "d"},
            {"role": "user", "content": "q", "name": "ann"},
            {"role": "assistant", "content": None, "tool_calls": [raw]},
            {"role": "tool", "tool_call_id": "c", "name": "t", "content": "r"},
        ]
        written = messages_of(dicts)
        assert [message.type for message in written] == ["system", "human", "ai", "tool"]
        assert written[0].additional_kwargs["__openai_role__"] == "developer"
        assert written[1].name == "ann"
        assert written[2].tool_calls[0]["args"] == {"a": 1}
        assert written[3].tool_call_id == "c"
        assert read(written[2]).tool_calls == (ToolCall("c", "t", '{"a": 1}'),)

    def test_malformed_arguments_do_not_raise(self) -> None:
        raw = {"id": "c", "type": "function", "function": {"name": "t", "arguments": '{"a": '}}
        (written,) = messages_of({"role": "assistant", "content": "", "tool_calls": [raw]})
        assert written.tool_calls == []
        assert written.invalid_tool_calls[0]["args"] == '{"a": '
        assert read(written).tool_calls == (ToolCall("c", "t", '{"a": '),)

    def test_anthropic_dicts_keep_calls_and_results(self) -> None:
        call = {"type": "tool_use", "id": "a", "name": "t", "input": {"k": 1}}
        asked = {"role": "assistant", "content": [{"type": "text", "text": "let me look"}, call]}
        replied = {"role": "user", "content": [RESULT, TEXT]}
        written = messages_of([asked, replied])
        assert [message.type for message in written] == ["ai", "tool", "human"]
        (found,) = written[0].tool_calls
        assert (found["name"], found["args"], found["id"]) == ("t", {"k": 1}, "a")
        assert written[0].content == asked["content"]
        assert (written[1].tool_call_id, written[1].text) == ("a", "r")
        assert written[2].text == "and?"


class TestTouchedMessages:
    def test_keep_everything_but_the_text(self) -> None:
        message = ToolMessage(
            "long",
            tool_call_id="a",
            name="t",
            id="m7",
            artifact={"rows": 1},
            status="error",
            response_metadata={"k": "v"},
            additional_kwargs={"z": 1},
        )
        (written,) = write(read(message).evolve(content="short"))
        assert written.model_dump() == {**message.model_dump(), "content": "short"}
        assert message.content == "long"

    def test_text_changes_leave_media_and_opaque_blocks(self) -> None:
        blocks = [{"type": "text", "text": "a", "id": "t1"}, IMAGE, {"type": "text", "text": "b"}]
        (written,) = write(read(HumanMessage(blocks)).evolve(content="new"))
        assert written.content == [{"type": "text", "text": "new", "id": "t1"}, IMAGE]

    def test_stripping_reasoning_strips_blocks_and_kwargs(self) -> None:
        message = AIMessage(
            [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "x"}],
            additional_kwargs={"reasoning_content": "t"},
        )
        (written,) = write(read(message).evolve(reasoning=None))
        assert written.content == [{"type": "text", "text": "x"}]
        assert written.additional_kwargs == {}

    def test_a_result_block_that_changes_becomes_a_tool_message(self) -> None:
        first, second = wire.read(HumanMessage([RESULT, TEXT]), 0)
        written = write(first.evolve(content="short"), second)
        assert [(m.type, m.text) for m in written] == [("tool", "short"), ("human", "and?")]

    def test_invented_entries_become_marked_messages(self) -> None:
        entry = ConversationEntry(
            MessageRole.TOOL, "[gone]", tool_call_id="a", tool_name="t", status="error",
            origin="placeholder", action="inserted", reason="r", handle="h1",
        )  # fmt: skip
        (written,) = write(entry)
        assert (written.tool_call_id, written.name, written.status) == ("a", "t", "error")
        assert written.additional_kwargs == {"history_curator": {"origin": "placeholder"}}

    def test_arguments_nested_too_deep_are_malformed(self) -> None:
        text = '{"a":' * 990 + "1" + "}" * 990
        message = AIMessage("", invalid_tool_calls=[{**BAD_CALL, "args": text}])
        (call,) = read(message).tool_calls or ()
        assert call.arguments == text
        (written,) = write(read(message).evolve(tool_calls=(replace(call, id="d"),)))
        assert written.invalid_tool_calls[0]["id"] == "d"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (human("a"), answer("a")),
        (human("a"), human("b")),
        (human("a"), human("a", id="1")),
        (human("a"), human([{"type": "text", "text": "a"}])),
        (human("a"), human("a", seat=1)),
        (tool("c", "r"), tool("d", "r")),
        (tool("c", "r"), tool("c", "r", status="error")),
        (ai("c", args={"n": 1}), ai("c", args={"n": 2})),
        (ai("c", args={"n": 1}), ai("c", args={"n": 1.0})),
        (ai("c", args={"n": 1}), ai("c", args={"n": True})),
        (human("a", seat=1), human("a", seat=True)),
    ],
)
def test_the_key_of_a_message_is_exact(one: BaseMessage, other: BaseMessage) -> None:
    assert wire.key_of(one) == wire.key_of(one.model_copy(deep=True))
    assert hash(wire.key_of(one)) == hash(wire.key_of(one.model_copy(deep=True)))
    assert wire.key_of(one) != wire.key_of(other)


def test_an_edit_in_place_changes_the_key_and_reaches_no_snapshot() -> None:
    message: Any = AIMessage(
        [{"type": "text", "text": "a", "more": {"b": [1]}}],
        tool_calls=[{"name": "t", "args": {"n": [1]}, "id": "c"}],
        additional_kwargs={"x": {"y": 1}},
        usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    )
    for place in (
        message.content[0]["more"]["b"],
        message.tool_calls[0]["args"]["n"],
        message.additional_kwargs["x"],
        message.usage_metadata,
    ):
        key, snapshot = wire.key_of(message), wire.snapshot(message)
        assert wire.key_of(snapshot) == key
        if isinstance(place, list):
            place.append(2)
        else:
            place["input_tokens"] = 7
        assert wire.key_of(message) != key
        assert wire.key_of(snapshot) == key
