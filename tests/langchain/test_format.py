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
from langchain_history_curator.messages import LangChainFormat
from tests.langchain.factories import ai, answer, human, system, tool

wire = LangChainFormat()


def read(message: Any) -> ConversationEntry:
    entries = wire.read(message, 0)
    assert len(entries) == 1
    return entries[0]


def write(*entries: ConversationEntry) -> list[BaseMessage]:
    return wire.write(entries)


def renamed(entry: ConversationEntry, **ids: str) -> ConversationEntry:
    calls = tuple(replace(call, id=ids.get(call.id, call.id)) for call in entry.tool_calls or ())
    return entry.evolve(tool_calls=calls)


class TestUntouchedMessages:
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
            HumanMessage([{"type": "tool_result", "tool_use_id": "a", "content": "x"}]),
        ],
        ids=lambda message: type(message).__name__,
    )
    def test_come_back_as_the_same_object(self, message: BaseMessage) -> None:
        written = wire.write(wire.read(message, 0))
        assert len(written) == 1
        assert written[0] is message


class TestReading:
    def test_invalid_calls_are_calls_with_malformed_arguments(self) -> None:
        message = AIMessage(
            "", invalid_tool_calls=[{"name": "t", "args": '{"a": ', "id": "x", "error": "bad"}]
        )
        assert read(message).tool_calls == (ToolCall("x", "t", '{"a": '),)

    def test_thinking_is_reasoning_and_not_text(self) -> None:
        message = AIMessage(
            [
                {"type": "thinking", "thinking": "hmm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "xx"},
                {"type": "text", "text": "hello"},
            ]
        )
        entry = read(message)
        assert entry.content == "hello"
        assert entry.reasoning is not None
        assert [(r.text, r.signature, r.encrypted) for r in entry.reasoning] == [
            ("hmm", "sig", False),
            (None, None, True),
        ]

    def test_server_side_tools_are_opaque(self) -> None:
        blocks: list[Any] = [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            {"type": "text", "text": "found"},
        ]
        entry = read(AIMessage(blocks))
        assert entry.tool_calls is None
        assert entry.parts
        assert [part.kind for part in entry.parts] == ["other", "other", "text"]

    def test_a_function_message_is_a_result_without_an_id(self) -> None:
        entry = read(FunctionMessage("r", name="f"))
        assert (entry.role, entry.tool_call_id, entry.tool_name) == (MessageRole.TOOL, None, "f")

    def test_a_legacy_function_call_is_a_call(self) -> None:
        call = {"name": "f", "arguments": '{"a":1}'}
        entry = read(AIMessage("", additional_kwargs={"function_call": call}))
        assert entry.tool_calls == (ToolCall("", "f", '{"a":1}'),)

    def test_an_unknown_thing_is_refused_by_position(self) -> None:
        with pytest.raises(ConversionError, match=r"messages\[3\].*int is not a message"):
            wire.read(7, 3)


class TestShorthand:
    def test_strings_and_tuples(self) -> None:
        entries = [read("hi"), read(("system", "be kind")), read(["ai", "hello"])]
        assert write(*entries) == [HumanMessage("hi"), SystemMessage("be kind"), AIMessage("hello")]

    def test_openai_dicts_become_messages(self) -> None:
        raw = {"id": "c", "type": "function", "function": {"name": "t", "arguments": '{"a": 1}'}}
        dicts = [
            {"role": "developer", "content": "d"},
            {"role": "user", "content": "q", "name": "ann"},
            {"role": "assistant", "content": None, "tool_calls": [raw]},
            {"role": "tool", "tool_call_id": "c", "name": "t", "content": "r"},
        ]
        written = write(*(read(message) for message in dicts))
        assert [type(message) for message in written] == [
            SystemMessage,
            HumanMessage,
            AIMessage,
            ToolMessage,
        ]
        assert written[0].additional_kwargs["__openai_role__"] == "developer"
        assert written[1].name == "ann"
        assert written[2].tool_calls[0]["args"] == {"a": 1}  # type: ignore[attr-defined]
        assert written[3].tool_call_id == "c"  # type: ignore[attr-defined]
        assert read(written[2]).tool_calls == read(dicts[2]).tool_calls

    def test_malformed_arguments_do_not_raise(self) -> None:
        raw = {"id": "c", "type": "function", "function": {"name": "t", "arguments": '{"a": '}}
        (written,) = write(read({"role": "assistant", "content": "", "tool_calls": [raw]}))
        assert isinstance(written, AIMessage)
        assert written.tool_calls == []
        assert written.invalid_tool_calls[0]["args"] == '{"a": '
        assert read(written).tool_calls == (ToolCall("c", "t", '{"a": '),)

    def test_anthropic_dicts_keep_calls_and_results(self) -> None:
        asked = {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "let me look"},
                {"type": "tool_use", "id": "a", "name": "t", "input": {"k": 1}},
            ],
        }
        replied = {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "r"},
                {"type": "text", "text": "and?"},
            ],
        }
        entries = [*wire.read(asked, 0), *wire.read(replied, 1)]
        written = wire.write(entries)
        assert [message.type for message in written] == ["ai", "tool", "human"]
        assert written[0].tool_calls == [  # type: ignore[attr-defined]
            {"name": "t", "args": {"k": 1}, "id": "a", "type": "tool_call"}
        ]
        assert written[0].content == asked["content"]
        assert (written[1].tool_call_id, written[1].text) == ("a", "r")  # type: ignore[attr-defined]
        assert written[2].text == "and?"

    def test_a_dict_that_is_no_message_says_so(self) -> None:
        with pytest.raises(ConversionError, match=r"messages\[1\]\.role"):
            wire.read({"text": "hi"}, 1)


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
        assert isinstance(written, ToolMessage)
        assert written.model_dump() == {**message.model_dump(), "content": "short"}
        assert message.content == "long"

    def test_text_changes_leave_media_and_opaque_blocks(self) -> None:
        image = {"type": "image", "url": "u"}
        blocks = [{"type": "text", "text": "a", "id": "t1"}, image, {"type": "text", "text": "b"}]
        (written,) = write(read(HumanMessage(blocks)).evolve(content="new"))
        assert written.content == [{"type": "text", "text": "new", "id": "t1"}, image]

    def test_renaming_a_call_changes_every_place(self) -> None:
        raw = {"id": "a", "type": "function", "function": {"name": "t", "arguments": "{}"}}
        message = AIMessage(
            [
                {"type": "text", "text": "look"},
                {"type": "tool_use", "id": "a", "name": "t", "input": {}, "cache_control": {}},
            ],
            tool_calls=[{"name": "t", "args": {}, "id": "a"}],
            additional_kwargs={
                "tool_calls": [raw],
                "__gemini_function_call_thought_signatures__": {"a": "sig"},
            },
        )
        (written,) = write(renamed(read(message), a="z"))
        assert isinstance(written, AIMessage)
        assert [call["id"] for call in written.tool_calls] == ["z"]
        assert written.additional_kwargs == {
            "__gemini_function_call_thought_signatures__": {"z": "sig"}
        }
        assert written.content == [{"type": "text", "text": "look"}]
        assert message.tool_calls[0]["id"] == "a"
        assert raw["id"] == "a"

    def test_stripping_reasoning_strips_blocks_and_kwargs(self) -> None:
        message = AIMessage(
            [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "x"}],
            additional_kwargs={"reasoning_content": "t"},
        )
        (written,) = write(read(message).evolve(reasoning=None))
        assert written.content == [{"type": "text", "text": "x"}]
        assert written.additional_kwargs == {}

    def test_a_result_block_that_changes_becomes_a_tool_message(self) -> None:
        message = HumanMessage(
            [
                {"type": "tool_result", "tool_use_id": "a", "content": "long"},
                {"type": "text", "text": "and?"},
            ]
        )
        first, second = wire.read(message, 0)
        written = write(first.evolve(content="short"), second)
        assert [(m.type, m.text) for m in written] == [("tool", "short"), ("human", "and?")]

    def test_invented_entries_become_marked_messages(self) -> None:
        entry = ConversationEntry(
            MessageRole.TOOL,
            "[gone]",
            tool_call_id="a",
            tool_name="t",
            status="error",
            origin="placeholder",
            action="inserted",
            reason="r",
            handle="h1",
        )
        (written,) = write(entry)
        assert isinstance(written, ToolMessage)
        assert (written.tool_call_id, written.name, written.status) == ("a", "t", "error")
        assert written.additional_kwargs == {"history_curator": {"origin": "placeholder"}}

    def test_a_touched_dict_becomes_the_touched_message(self) -> None:
        entry = read({"role": "tool", "tool_call_id": "c", "content": "long", "custom": 1})
        (written,) = write(entry.evolve(content="short"))
        assert isinstance(written, ToolMessage)
        assert (written.content, written.additional_kwargs) == ("short", {"custom": 1})


class TestRemoveMessage:
    def test_is_an_instruction_not_a_message(self) -> None:
        assert wire.read(RemoveMessage(id="x"), 0) == ()


class TestKeysAndSnapshots:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (human("a"), answer("a")),
            (human("a"), human("b")),
            (human("a"), human("a", id="1")),
            (human("a"), human([{"type": "text", "text": "a"}])),
            (human("a"), HumanMessage("a", seat=1)),  # type: ignore[call-arg]
            (tool("c", "r"), tool("d", "r")),
            (tool("c", "r"), ToolMessage("r", tool_call_id="c", name="t", status="error")),
            (ai("c", args={"n": 1}), ai("c", args={"n": 2})),
            (ai("c", args={"n": 1}), ai("c", args={"n": 1.0})),
            (ai("c", args={"n": 1}), ai("c", args={"n": True})),
            (HumanMessage("a", seat=1), HumanMessage("a", seat=True)),  # type: ignore[call-arg]
        ],
    )
    def test_the_key_of_a_message_is_exact(self, one: BaseMessage, other: BaseMessage) -> None:
        assert wire.key_of(one) == wire.key_of(one.model_copy(deep=True))
        assert hash(wire.key_of(one)) == hash(wire.key_of(one.model_copy(deep=True)))
        assert wire.key_of(one) != wire.key_of(other)

    def test_an_edit_in_place_changes_the_key_and_reaches_no_snapshot(self) -> None:
        message = AIMessage(
            [{"type": "text", "text": "a", "more": {"b": [1]}}],
            tool_calls=[{"name": "t", "args": {"n": [1]}, "id": "c"}],
            additional_kwargs={"x": {"y": 1}},
            usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
        )
        for place in (
            message.content[0]["more"]["b"],  # type: ignore[index]
            message.tool_calls[0]["args"]["n"],
            message.additional_kwargs["x"],
            message.usage_metadata,
        ):
            key, snapshot = wire.key_of(message), wire.snapshot(message)
            assert wire.key_of(snapshot) == key
            if isinstance(place, list):
                place.append(2)
            else:
                place["input_tokens"] = 7  # type: ignore[index]
            assert wire.key_of(message) != key
            assert wire.key_of(snapshot) == key

    def test_arguments_nested_too_deep_are_malformed(self) -> None:
        text = '{"a":' * 990 + "1" + "}" * 990
        bad = {"name": "t", "args": text, "id": "c", "type": "invalid_tool_call", "error": None}
        message = AIMessage("", invalid_tool_calls=[bad])
        (call,) = read(message).tool_calls or ()
        assert call.arguments == text
        renamed = read(message).evolve(tool_calls=(replace(call, id="d"),))
        (written,) = write(renamed)
        assert written.invalid_tool_calls[0]["id"] == "d"  # type: ignore[attr-defined]
