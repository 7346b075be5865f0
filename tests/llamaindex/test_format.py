"""`LlamaIndexFormat`: lossless, one call per call, edits reach every encoding."""

from __future__ import annotations

import base64
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from openai.types.chat import ChatCompletionMessageToolCall
from openai.types.responses import ResponseFunctionToolCall

from history_curator.entries import ContentPart, ConversationEntry, MessageRole, ToolCall
from history_curator.errors import ConversionError
from llamaindex_history_curator import LlamaIndexFormat
from tests.llamaindex.factories import assistant, call, dumped, result, user, wire

FORMAT = LlamaIndexFormat()
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def read(message: ChatMessage) -> ConversationEntry:
    (entry,) = FORMAT.read(message, 0)
    return entry


def _arguments(message: ChatMessage) -> dict[str, Any]:
    found: dict[str, Any] = message.blocks[-1].tool_kwargs
    return found


def _function(message: ChatMessage) -> Any:
    return message.additional_kwargs["tool_calls"][0].function


def write(entry: ConversationEntry) -> ChatMessage:
    (message,) = FORMAT.write([entry])
    return message


def twice(id_: str = "c1", arguments: str = '{"q": 1}') -> ChatMessage:
    """A call as OpenAI's adapter writes it: a block and an SDK object."""
    sdk = ChatCompletionMessageToolCall(
        id=id_, type="function", function={"name": "look", "arguments": arguments}
    )
    return ChatMessage(
        role="assistant",
        blocks=[
            TextBlock(text="looking"),
            ToolCallBlock(tool_call_id=id_, tool_name="look", tool_kwargs=arguments),
        ],
        additional_kwargs={"tool_calls": [sdk]},
    )


def media() -> ChatMessage:
    return ChatMessage(
        role="user",
        blocks=[
            TextBlock(text="first"),
            ImageBlock(image=PNG),
            TextBlock(text="second"),
            AudioBlock(audio=b"abc", format="wav"),
            VideoBlock(video=b"abc", video_mimetype="video/mp4"),
            DocumentBlock(data=b"%PDF-1.4", document_mimetype="application/pdf"),
            CachePoint(cache_control=CacheControl(type="ephemeral")),
        ],
    )


class TestRoles:
    @pytest.mark.parametrize(
        ("role", "expected"),
        [
            *((role, role) for role in ("system", "user", "assistant", "tool")),
            *(("developer", "system"), ("chatbot", "assistant")),
            *(("model", "assistant"), ("function", "tool")),
        ],
    )
    def test_every_role_is_read_and_written_as_itself(self, role: str, expected: str) -> None:
        message = ChatMessage(role=role, content="x")
        assert read(message).role.value == expected
        assert write(read(message).evolve(content="y")).role.value == role

    def test_a_call_id_on_an_assistant_message_is_not_a_result(self) -> None:
        keywords = {"tool_call_id": "c1"}
        entry = read(ChatMessage(role="assistant", content="42", additional_kwargs=keywords))
        assert (entry.tool_call_id, entry.tool_calls) == (None, None)

    def test_anything_else_is_refused_with_its_position(self) -> None:
        with pytest.raises(ConversionError, match=r"messages\[7\].*dict.*Fix"):
            FORMAT.read({"role": "user"}, 7)


class TestUntouched:
    @pytest.mark.parametrize(
        "message",
        [user(), call("c1"), result("c1"), twice(), media(), ChatMessage(role="assistant")],
        ids=["text", "call", "result", "twice", "media", "empty"],
    )
    def test_comes_back_as_the_same_object(self, message: ChatMessage) -> None:
        before = dumped([message])
        assert write(read(message)) is message
        assert dumped([message]) == before

    def test_text_keeps_the_difference_between_nothing_and_empty(self) -> None:
        assert read(ChatMessage(role="assistant")).content is None
        assert read(ChatMessage(role="assistant", content="")).content == ""


class TestCalls:
    def test_a_call_encoded_twice_is_one_call(self) -> None:
        assert read(twice()).tool_calls == (ToolCall("c1", "look", '{"q": 1}'),)

    @pytest.mark.parametrize(
        "encoded",
        [
            wire("c1", arguments='{"q": 1}'),
            ResponseFunctionToolCall(
                id="fc_9", call_id="c1", name="look", arguments='{"q": 1}', type="function_call"
            ),
            SimpleNamespace(id="c1", function=SimpleNamespace(name="look", arguments='{"q": 1}')),
        ],
        ids=["openai", "responses", "object"],
    )
    def test_every_adapters_shape_is_read_and_written_as_a_block_when_edited(
        self, encoded: object
    ) -> None:
        message = ChatMessage(role="assistant", additional_kwargs={"tool_calls": [encoded]})
        entry = read(message)
        assert entry.tool_calls == (ToolCall("c1", "look", '{"q": 1}'),)
        call = replace(entry.tool_calls[0], id="c2", name="find", arguments="{}")
        written = write(entry.evolve(tool_calls=(call,)))
        block = ToolCallBlock(tool_call_id="c2", tool_name="find", tool_kwargs={})
        assert (written.blocks, written.additional_kwargs) == ([block], {})
        assert read(message).tool_calls == (ToolCall("c1", "look", '{"q": 1}'),)

    def test_an_edit_of_a_call_encoded_twice_is_written_once(self) -> None:
        message = twice()
        entry = read(message)
        (only,) = entry.tool_calls or ()
        written = write(entry.evolve(tool_calls=(replace(only, id="c9", arguments="{}"),)))
        assert written.blocks[0] == TextBlock(text="looking")
        assert (written.blocks[1].tool_call_id, written.blocks[1].tool_kwargs) == ("c9", "{}")
        assert written.additional_kwargs == {}
        dropped = write(entry.evolve(tool_calls=None))
        assert [type(block) for block in dropped.blocks] == [TextBlock]
        assert dropped.additional_kwargs == {}
        assert len(message.additional_kwargs["tool_calls"]) == 1

    def test_an_unedited_call_survives_an_edited_text_as_the_same_objects(self) -> None:
        message = twice()
        written = write(read(message).evolve(content="short"))
        assert written.content == "short"
        assert written.blocks[1] == message.blocks[1]
        assert written.additional_kwargs == message.additional_kwargs

    def test_a_call_without_an_id_goes_by_its_name(self) -> None:
        message = ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_name="look")])
        assert read(message).tool_calls == (ToolCall("look", "look", "{}"),)

    def test_parallel_calls_with_one_name_and_no_ids_pair_in_order(self) -> None:
        asked = [{"q": 1}, {"q": 2}]
        message = ChatMessage(
            role="assistant",
            blocks=[ToolCallBlock(tool_name="look", tool_kwargs=one) for one in asked],
            additional_kwargs={"tool_calls": [{"name": "look", "args": one} for one in asked]},
        )
        given = [item.arguments for item in read(message).tool_calls or ()]
        assert given == ['{"q": 1}', '{"q": 2}']

    def test_thought_signatures_stay_beside_their_blocks(self) -> None:
        message = ChatMessage(
            role="assistant",
            blocks=[
                ThinkingBlock(content="hm"),
                TextBlock(text="looking"),
                ToolCallBlock(tool_name="look", tool_kwargs={"q": 1}),
            ],
            additional_kwargs={"thought_signatures": ["s0", None, "s2"]},
        )
        entry = read(message)
        assert (entry.tool_calls or ())[0].extra["thought_signature"] == "s2"  # type: ignore[index]
        written = write(entry.evolve(reasoning=None))
        assert written.additional_kwargs["thought_signatures"] == [None, "s2"]
        assert [block.block_type for block in written.blocks] == ["text", "tool_call"]


class TestResults:
    @pytest.mark.parametrize("key", ["tool_call_id", "call_id"])
    def test_either_id_is_read_and_renamed_in_place(self, key: str) -> None:
        message = ChatMessage(role="tool", content="x", additional_kwargs={key: "c1", "k": 1})
        entry = read(message)
        assert entry.tool_call_id == "c1"
        assert write(entry.evolve(tool_call_id="c2")).additional_kwargs == {key: "c2", "k": 1}

    def test_a_shortened_result_keeps_everything_but_the_text(self) -> None:
        message = ChatMessage(
            role="tool",
            blocks=[TextBlock(text="long"), ImageBlock(image=PNG)],
            additional_kwargs={"tool_call_id": "c1", "is_error": False},
        )
        written = write(read(message).evolve(content="sho"))
        assert written.content == "sho"
        assert written.blocks[1] == message.blocks[1]
        assert written.additional_kwargs == message.additional_kwargs


class TestParts:
    def test_every_block_is_a_part_in_order(self) -> None:
        entry = read(media())
        assert entry.content == "first\nsecond"
        kinds = " ".join(part.kind for part in entry.parts or ())
        assert kinds == "text image text audio video file other"

    def test_an_edited_text_of_many_blocks_replaces_them_all_and_keeps_the_media(self) -> None:
        message = media()
        written = write(read(message).evolve(content="both"))
        kinds = " ".join(block.block_type for block in written.blocks)
        assert kinds == "text image audio video document cache"
        assert written.content == "both"
        assert written.blocks[1] == message.blocks[1]

    def test_edited_parts_win(self) -> None:
        message, gone = media(), ContentPart("text", "[image removed]")
        entry = read(message)
        parts = tuple(gone if part.kind == "image" else part for part in entry.parts or ())
        written = write(entry.evolve(parts=parts, content="first\n[image removed]\nsecond"))
        assert written.blocks[1] == TextBlock(text="[image removed]")
        assert written.blocks[3] == message.blocks[3]


def test_thinking_is_reasoning_and_not_text() -> None:
    blocks = [
        ThinkingBlock(content="hm", additional_information={"signature": "sig"}),
        ThinkingBlock(additional_information={"data": "opaque"}),
        TextBlock(text="looking"),
        ToolCallBlock(tool_call_id="c1", tool_name="look"),
    ]
    entry = read(ChatMessage(role="assistant", blocks=blocks))
    first, second = entry.reasoning or ()
    assert (first.text, first.signature, first.encrypted) == ("hm", "sig", False)
    assert (second.text, second.encrypted) == (None, True)
    assert (entry.content, entry.parts) == ("looking", None)


class TestInvented:
    def test_a_placeholder_result(self) -> None:
        names = {"tool_call_id": "c1", "tool_name": "look"}
        message = write(ConversationEntry(MessageRole.TOOL, "[No result]", origin="x", **names))
        assert (message.role.value, message.content) == ("tool", "[No result]")
        assert message.additional_kwargs == {"tool_call_id": "c1", "name": "look"}

    def test_a_text_is_added_before_the_calls_and_after_the_thinking(self) -> None:
        blocks = [ThinkingBlock(content="hm"), ToolCallBlock(tool_name="look")]
        written = write(
            read(ChatMessage(role="assistant", blocks=blocks)).evolve(content="(empty)")
        )
        assert [block.block_type for block in written.blocks] == ["thinking", "text", "tool_call"]

    def test_calls_merged_in_from_another_message_follow_the_text(self) -> None:
        merged = read(assistant("one moment")).evolve(tool_calls=read(twice()).tool_calls)
        assert [block.block_type for block in write(merged).blocks] == ["text", "tool_call"]


class TestNoticingEdits:
    @pytest.mark.parametrize(
        ("make", "edit"),
        [
            (user, lambda message: setattr(message.blocks[0], "text", "b")),
            (user, lambda message: setattr(message, "role", "assistant")),
            (user, lambda message: message.blocks.append(TextBlock(text="b"))),
            (user, lambda message: message.additional_kwargs.update(name="Ann")),
            (lambda: result("c1"), lambda message: message.additional_kwargs.clear()),
            (lambda: call("c1", q=[1]), lambda message: message.blocks[-1].tool_kwargs.clear()),
            (lambda: call("c1", q=[1]), lambda message: _arguments(message)["q"].append(2)),
            (twice, lambda message: setattr(_function(message), "arguments", "{}")),
        ],
    )
    def test_an_edit_in_place_is_seen(self, make: Any, edit: Any) -> None:
        message = make()
        before = FORMAT.key_of(FORMAT.snapshot(message))
        assert FORMAT.key_of(message) == before
        edit(message)
        assert FORMAT.key_of(message) != before
