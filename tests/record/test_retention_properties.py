"""Retention keeps exchanges whole, and all words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator import check_conversation
from history_curator.config import RetentionConfig
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.formats import DictFormat, read_entries
from history_curator.record.retention import apply_retention, build_context
from history_curator.units import pair
from tests.support.messages import assistant, user
from tests.support.strategies import broken_conversations, conversations

PROVIDERS = ("core", "portable", "openai", "anthropic", "gemini", "bedrock", "mistral")
NEXT = {"role": "user", "content": "next"}

configs = st.builds(
    RetentionConfig,
    preserve_turns=st.integers(0, 3),
    persist_tool_invocations=st.sampled_from(["full", "trimmed", "none"]),
    preserve_tools_for_latest_turns=st.booleans(),
    max_loaded_messages=st.none() | st.integers(1, 12),
)


def late(messages: list[dict[str, Any]], moves: list[int]) -> list[dict[str, Any]]:
    """Move results behind what comes after them, as queued messages do."""
    out = list(messages)
    for move in moves:
        places = [at for at, one in enumerate(out) if one["role"] == "tool"]
        if places:
            at = places[move % len(places)]
            result = out.pop(at)
            out.insert(min(len(out), at + 1 + move % 4), result)
    return out


histories = st.builds(
    late,
    conversations(tail="history") | conversations() | broken_conversations(),
    st.lists(st.integers(0, 50), max_size=3),
)


def calls_and_results(entries: list[ConversationEntry]) -> list[tuple[list[str], list[str | None]]]:
    return [
        (
            [call.id for call in unit.head.tool_calls or ()],
            [None if one is None else one.tool_call_id for one in unit.results],
        )
        for unit in pair(entries)
        if unit.kind == "exchange"
    ]


def broken_rules(messages: list[dict[str, Any]], provider: str) -> set[str]:
    return {one.rule for one in check_conversation([*messages, NEXT], provider=provider)}


@given(conversations(tail="history"), configs)
def test_a_valid_conversation_stays_valid_but_for_answers_side_by_side(
    messages: list[dict[str, Any]], config: RetentionConfig
) -> None:
    entries = read_entries(messages)
    joined_by_the_curator = set() if config.persist_tool_invocations == "trimmed" else {"P5"}
    for provider in PROVIDERS:
        allowed = broken_rules(messages, provider) | joined_by_the_curator
        stored = DictFormat().write(apply_retention(entries, config))
        assert broken_rules(stored, provider) <= allowed
        if config.max_loaded_messages is None:
            loaded = DictFormat().write(build_context(entries, config))
            assert broken_rules(loaded, provider) <= allowed | {"P5"}


@given(histories, configs)
def test_twice_is_once_and_nothing_said_in_words_is_lost(
    messages: list[dict[str, Any]], config: RetentionConfig
) -> None:
    entries = read_entries(messages)
    kept = apply_retention(entries, config)
    assert list(map(id, apply_retention(kept, config))) == list(map(id, kept))
    words = "\n".join(one.content or "" for one in kept if one.role is not MessageRole.TOOL)
    for entry in entries:
        if entry.role is not MessageRole.TOOL and entry.content and entry.content.strip():
            assert entry.content in words
    roots = [id(one.root) for one in kept]
    assert roots == [id(one) for one in entries if id(one) in set(roots)]


@given(histories, configs, st.data())
def test_open_straddling_and_pinned_exchanges_are_never_touched(
    messages: list[dict[str, Any]], config: RetentionConfig, data: st.DataObject
) -> None:
    entries = read_entries(messages)
    if entries:
        at = data.draw(st.integers(0, len(entries) - 1))
        entries[at] = entries[at].evolve(pinned=True)
    kept = {id(one) for one in apply_retention(entries, config)}
    users = [at for at, one in enumerate(entries) if one.is_real_user]
    turns = config.preserve_turns if config.preserve_tools_for_latest_turns else 0
    start = users[-turns] if 0 < turns <= len(users) else len(entries) if not turns else 0
    places = {id(one): at for at, one in enumerate(entries)}
    for one in entries:
        assert not one.pinned or id(one) in kept
    for unit in pair(entries):
        if unit.kind != "exchange" or unit.head is not entries[unit.start]:
            continue
        known = [one for one in unit.results if one is not None]
        is_open = len(known) < len(unit.results)
        straddles = any(places[id(one)] >= start for one in known)
        if is_open or straddles or any(one.pinned for one in (unit.head, *known)):
            assert {id(unit.head), *map(id, known)} <= kept


@given(histories, configs)
def test_no_result_is_loaded_without_its_call(
    messages: list[dict[str, Any]], config: RetentionConfig
) -> None:
    entries = read_entries(messages)
    loaded = build_context(entries, config)
    known = {call.id for one in loaded for call in one.tool_calls or ()}
    before = {call.id for one in entries for call in one.tool_calls or ()}
    if config.max_loaded_messages is not None and len(entries) > config.max_loaded_messages:
        for one in loaded:
            if one.role is MessageRole.TOOL and one.tool_call_id in before:
                assert one.tool_call_id in known


@pytest.mark.parametrize("mode", ["trimmed", "none"])
def test_results_inside_a_user_message_are_results_not_turns(mode: str) -> None:
    messages: list[dict[str, Any]] = []
    for number in range(4):
        call = {"type": "tool_use", "id": f"c{number}", "name": "find", "input": {"q": "x"}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "row " * 50}
        messages += [user("question"), assistant(None) | {"content": [call]}]
        messages += [user("") | {"content": [result]}, assistant("answer")]
    config = RetentionConfig.from_dict({"persist_tool_invocations": mode})
    kept = DictFormat().write(apply_retention(read_entries(messages), config))
    assert kept[-8:] == messages[-8:]
    text = str(kept[:-8])
    assert "row row" not in text
    assert ("tool_result" in text) is (mode == "trimmed")
    assert check_conversation([*kept, NEXT], provider="anthropic") == []
