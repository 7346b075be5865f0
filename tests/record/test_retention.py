"""Retention: older turns lose their tool details, preserved turns keep everything."""

from __future__ import annotations

import copy
import json
import logging
from typing import Any

import pytest

from history_curator.config import RetentionConfig
from history_curator.entries import ConversationEntry, MessageRole, Reasoning, ToolCall
from history_curator.formats import read_entries
from history_curator.record.retention import (
    apply_retention,
    build_context,
    load_messages,
)

PAYLOAD = "row " * 200


def user(text: str) -> ConversationEntry:
    return ConversationEntry(MessageRole.USER, text)


def call(identity: str, text: str | None = None) -> ConversationEntry:
    calls = (ToolCall(identity, "search", '{"query": "long"}'),)
    thought = (Reasoning("hmm", signature="s"),)
    return ConversationEntry(MessageRole.ASSISTANT, text, tool_calls=calls, reasoning=thought)


def result(identity: str, status: Any = None) -> ConversationEntry:
    return ConversationEntry(MessageRole.TOOL, PAYLOAD, tool_call_id=identity, status=status)


def turn(number: int, said: str | None = None) -> list[ConversationEntry]:
    asked, answer = user(f"question {number}"), f"answer {number}"
    exchange = [call(f"c{number}", said), result(f"c{number}")]
    return [asked, *exchange, ConversationEntry(MessageRole.ASSISTANT, answer)]


def turns(count: int) -> list[ConversationEntry]:
    return [entry for number in range(count) for entry in turn(number)]


def config(mode: str | bool = "none", **changes: object) -> RetentionConfig:
    return RetentionConfig.from_dict({"persist_tool_invocations": mode, **changes})


class TestContext:
    def test_no_more_than_the_latest_messages_are_loaded(self) -> None:
        entries = [user(str(number)) for number in range(30)]
        assert build_context(entries, config(max_loaded_messages=5)) == entries[-5:]
        context = build_context(turns(2), config(max_loaded_messages=6, preserve_turns=9))
        assert context[0].role is not MessageRole.TOOL

    def test_system_is_loaded_whatever_the_limit(self) -> None:
        system = ConversationEntry(MessageRole.SYSTEM, "rules")
        context = build_context([system, *turns(4)], config(max_loaded_messages=2))
        assert context[0] is system

    def test_pruning_for_the_model_can_be_off(self) -> None:
        entries = turns(4)
        assert build_context(entries, config(prune_tools_for_llm=False)) == entries

    def test_messages_come_back_in_their_format_without_the_details_of_older_turns(self) -> None:
        used = [{"name": "look", "status": "success", "output": PAYLOAD}]
        answer = {"role": "assistant", "content": "answer", "tools_used": used}
        messages = [{"role": "user", "content": "question"}, answer] * 4
        context = build_context(messages, preserve_turns=2)
        assert context[4:] == messages[4:]
        assert [message.get("tools_used") for message in context[:4]] == [None] * 4
        for mode in ("trimmed", "none"):
            stored = apply_retention(read_entries(messages), config(mode))[1::2]
            has_details = ["tools_used" in (entry.metadata or {}) for entry in stored]
            assert has_details == [False, False, True, True]


class TestLoadMessages:
    def test_a_missing_database_is_an_empty_history(self, caplog: pytest.LogCaptureFixture) -> None:
        assert load_messages("ann", 20) == []
        assert load_messages("ann", 20, service=dict[str, Any]().__getitem__) == []
        assert "cannot be read (KeyError)" in caplog.text

    def test_no_result_is_loaded_without_its_call(self) -> None:
        loaded = load_messages("ann", 2, service=lambda thread: turns(1))
        assert [entry.content for entry in loaded] == ["answer 0"]


class TestModes:
    def test_trimmed_keeps_pairs_and_outcome(self) -> None:
        entries = [user("q"), call("c1"), result("c1", "error"), *turns(2)]
        kept = apply_retention(entries, config("trimmed"))
        assert kept[1].tool_calls == (ToolCall("c1", "search", "{}"),)
        assert kept[2].tool_call_id == "c1"
        assert json.loads(kept[2].content or "") == {"name": "search", "status": "error"}
        assert kept[2].original_length == len(PAYLOAD)
        assert kept[2].root is entries[2]

    def test_none_keeps_words_said_beside_a_call(self) -> None:
        entries = [*turn(0, said="let me look"), *turns(2)]
        kept = apply_retention(entries, config("none"))
        assert [entry.content for entry in kept[:3]] == ["question 0", "let me look", "answer 0"]
        assert (kept[1].tool_calls, kept[1].reasoning, kept[1].root) == (None, None, entries[1])

    @pytest.mark.parametrize("mode", ["full", "trimmed", "none"])
    def test_the_input_is_not_changed(self, mode: str) -> None:
        entries = turns(4)
        before = copy.deepcopy(entries)
        apply_retention(entries, config(mode))
        build_context(entries, config(mode, max_loaded_messages=5))
        assert entries == before

    def test_latest_turns_can_lose_theirs_too(self) -> None:
        settings = config(preserve_tools_for_latest_turns=False)
        assert len(apply_retention(turns(2), settings)) == 4


def test_decisions_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="history_curator.retention"):
        apply_retention(turns(4), config("none"))
        build_context(turns(4), config("none"))
    assert "(persist, none): 16 entries, 8 preserved, 0 trimmed, 4 left out" in caplog.text
    assert "(load): 16 entries" in caplog.text
