"""The sequences that trip trimmers, under every profile."""

from __future__ import annotations

import copy

import pytest

from history_curator.rules import PROVIDERS, check_conversation, get_profile, repair_conversation
from history_curator.testing import SEQUENCES, parse, parse_entries, show

CASES = [pytest.param(*pair, id=str(number)) for number, pair in enumerate(SEQUENCES, 1)]


@pytest.mark.parametrize(("given", "expected"), CASES)
def test_the_portable_repair_is_the_documented_one(given, expected):
    assert show(get_profile("portable").repair(parse_entries(given))) == expected


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("given", "expected"), CASES)
class TestEveryProfile:
    def test_nothing_is_left_to_find_or_to_repair(self, given, expected, provider):
        repaired = repair_conversation(parse(given), provider)
        assert check_conversation(repaired, provider) == []
        again = repair_conversation(repaired, provider)
        assert all(new is old for new, old in zip(again, repaired, strict=True))

    def test_words_and_results_survive_and_nothing_is_changed_in_place(
        self, given, expected, provider
    ):
        messages = parse(given)
        before = copy.deepcopy(messages)
        repaired = [each["content"] or "" for each in repair_conversation(messages, provider)]
        assert messages == before
        calls = {call["id"] for message in messages for call in message.get("tool_calls", ())}
        answers = given != "U T(c1) A(c1) U"  # a result before its call answers nothing
        for message in messages:
            text, name = message["content"], message.get("tool_call_id")
            if message["role"] == "user" and text.strip():
                assert text in "\n".join(repaired)
            elif name:
                assert any(
                    each["content"] in repaired
                    for each in messages
                    if each.get("tool_call_id") == name
                ) is (answers and name in calls)
        assert sum("[No result" in text for text in repaired) == expected.count("T*")


class TestHistories:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ("U A", "U A"),
            ("S U A(c1) T(c1) A", "S U A(c1) T(c1) A"),
            ("S", "S"),
            ("", ""),
            ("S A", "S U* A"),
            ("U A(c1) U T(c1) A", "U A(c1) T(c1) A* U A"),
        ],
    )
    def test_a_history_may_end_on_the_assistant(self, given, expected):
        repaired = get_profile("portable").repair(parse_entries(given), tail="history")
        assert show(repaired) == expected


class TestProfilesDiffer:
    @pytest.mark.parametrize(
        ("provider", "expected"),
        [
            ("core", "S U U A A(c1,c2) T(c1) T(c2) U"),
            ("portable", "S U A+(c1,c2) T(c1) T(c2) A* U"),
            ("openai", "S U U A A(c1,c2) T(c2) T(c1) U"),
            ("anthropic", "S U U A A(c1,c2) T(c2) T(c1) U"),
            ("gemini", "S U U A+(c1,c2) T(c1) T(c2) U"),
            ("bedrock", "S U A+(c1,c2) T(c2) T(c1) A* U"),
            ("mistral", "S U U A A(c1',c2') T(c1') T(c2') A* U"),
        ],
    )
    def test_each_asks_only_for_what_its_provider_needs(self, provider, expected):
        given = parse_entries("S U U A A(c1,c2) T(c2) T(c1) U")
        assert show(get_profile(provider).repair(given)) == expected

    def test_openai_takes_a_late_system_message_and_a_greeting(self):
        assert check_conversation(parse("A U S U"), "openai") == []
        assert [each.rule for each in check_conversation(parse("A U S U"), "core")] == ["P3", "P2"]

    def test_unused_names_are_refused_with_a_fix(self):
        with pytest.raises(ValueError, match="Fix: use one of core"):
            get_profile("acme")
        with pytest.raises(ValueError, match="'strip', 'keep'"):
            get_profile("core", reasoning="burn")


class TestViolations:
    def test_positions_are_those_of_the_messages_not_of_their_blocks(self):
        results = {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "a"},
                {"type": "tool_result", "tool_use_id": "c9", "content": "b"},
                {"type": "text", "text": "and now?"},
            ],
        }
        use = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
        messages = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [use]},
            results,
            {"role": "tool", "tool_call_id": "c7", "content": "x"},
        ]
        assert [each.index for each in check_conversation(messages, "anthropic")] == [2, 3]

    def test_entries_are_read_as_they_are(self):
        assert show(repair_conversation(parse_entries("U A(c1)"), "core")) == "U A(c1) T*(c1)"
