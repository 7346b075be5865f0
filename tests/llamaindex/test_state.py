"""Serialisation: not a field is lost, in this process or another."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from history_curator import (
    ConfigurationError,
    ConversionError,
    RetentionConfig,
    SlidingWindowManager,
)
from history_curator.tokens import HeuristicCounter
from llamaindex_history_curator import CuratedMemory, message_from_dict, message_to_dict
from tests.llamaindex.factories import assistant, dumped, result, system, wire

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def everything() -> list[ChatMessage]:
    return [
        system("rules"),
        ChatMessage(
            role="user",
            blocks=[
                TextBlock(text="look at this"),
                ImageBlock(image=PNG, detail="low"),
                ImageBlock(url="https://example.com/a.png"),
                AudioBlock(audio=b"\x00\xff", format="wav"),
                DocumentBlock(data=b"%PDF-1.4 \xff", document_mimetype="application/pdf"),
                CitableBlock(title="t", source="s", content=[TextBlock(text="cite")]),
                CachePoint(cache_control=CacheControl(type="ephemeral", ttl="1h")),
            ],
            additional_kwargs={"name": "ada", "nested": {"list": [1, None, True, 1.5]}},
        ),
        ChatMessage(
            role="assistant",
            blocks=[
                ThinkingBlock(
                    content="hm",
                    num_tokens=3,
                    additional_information={"signature": "sig", "raw": b"\x00\x01"},
                ),
                ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"q": ["ü"]}),
                ToolCallBlock(tool_call_id="c2", tool_name="look", tool_kwargs='{"broken'),
            ],
            additional_kwargs={
                "tool_calls": [wire("c1"), wire("c2")],
                "thought_signatures": [b"\xff\xfe", None],
            },
        ),
        result("c1", "found", is_error=False),
        result("c2", ""),
        assistant("done"),
    ]


class TestMessages:
    @pytest.mark.parametrize("message", everything(), ids=lambda message: message.role.value)
    def test_a_message_survives_json(self, message: ChatMessage) -> None:
        text = json.dumps(message_to_dict(message))
        again = message_from_dict(json.loads(text))
        assert again == message
        assert again.additional_kwargs == message.additional_kwargs

    def test_something_else_is_refused(self) -> None:
        with pytest.raises(ConversionError, match="Fix"):
            message_from_dict({"text": "hi"})


class TestMemory:
    def memory(self, **options: Any) -> CuratedMemory:
        return CuratedMemory.from_defaults(everything(), token_limit=9_000, **options)

    def elsewhere(self, memory: CuratedMemory, **given: Any) -> CuratedMemory:
        """The memory as another process restores it."""
        return CuratedMemory.from_dict(
            {**json.loads(json.dumps(memory.to_dict())), "id": "another process"}, **given
        )

    def test_to_dict_is_json_and_comes_back_whole(self) -> None:
        memory = self.memory(retention=RetentionConfig(preserve_turns=3), recall_tool=True)
        again = self.elsewhere(memory)
        assert dumped(again.get_all()) == dumped(memory.get_all())
        assert again.get_all() == memory.get_all()
        assert again.retention == memory.retention
        assert again.token_limit == memory.token_limit
        assert again.curator.recall_tool is True

    def test_elsewhere_what_cannot_be_restored_is_said(self) -> None:
        counter = HeuristicCounter()
        memory = self.memory(managers=[SlidingWindowManager(2)], counter=counter)
        with pytest.warns(UserWarning, match=r"SlidingWindowManager, counter.*Fix"):
            self.elsewhere(memory)
        given = {"managers": [SlidingWindowManager(2)], "counter": "cl100k_base"}
        again = self.elsewhere(memory, **given)
        assert len(again.curator.managers) == 1

    def test_a_model_of_a_known_family_keeps_its_counter(self) -> None:
        memory = CuratedMemory.from_defaults(token_limit=700, counter="claude-3-opus")
        assert self.elsewhere(memory).curator.counter == memory.curator.counter

    def test_something_else_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="Fix"):
            CuratedMemory.from_dict({"class_name": "ChatMemoryBuffer"})
