"""P13: thinking stays with its calls, and with the prefix it was thought after."""

from __future__ import annotations

import pytest

from history_curator.entries import ConversationEntry, MessageRole, Reasoning, ToolCall
from history_curator.rules import get_profile
from history_curator.rules.reasoning import ReasoningStaysBound
from tests.support.messages import assistant, call, entries, result, user

SIGNED = {"type": "thinking", "thinking": "hm", "signature": "sig"}
UNSIGNED = {"type": "thinking", "thinking": "hm"}
REDACTED = {"type": "redacted_thinking", "data": "…"}
FOREIGN = {"type": "reasoning", "id": "rs_1", "encrypted_content": "…"}


def thought(*blocks, text="42"):
    return assistant([*blocks, {"type": "text", "text": text}])


def two_turns():
    """A closed turn with a thought, and one whose tool loop is running."""
    running = call("c1") | {"thinking_blocks": [SIGNED]}
    return entries([user("one"), thought(SIGNED), user("two"), running, result("c1")])


def thinking(items):
    return [bool(each.reasoning) for each in items]


class TestSignatures:
    @pytest.mark.parametrize(
        ("family", "block", "stays"),
        [
            ("anthropic", SIGNED, True),
            ("anthropic", REDACTED, True),
            ("anthropic", UNSIGNED, False),
            ("anthropic", FOREIGN, False),
            ("openai", FOREIGN, True),
            ("openai", SIGNED, False),
            (None, UNSIGNED, True),
        ],
    )
    def test_whose_reasoning_is_taken(self, family, block, stays):
        rule = ReasoningStaysBound(family=family)
        given = entries([thought(block)])
        assert bool(rule.find(given)) is not stays
        assert bool(rule.repair(given)[0].reasoning) is stays

    def test_the_own_block_stays_beside_a_foreign_one(self):
        (repaired,) = ReasoningStaysBound(family="anthropic").repair(
            entries([thought(FOREIGN, SIGNED)])
        )
        assert [block.raw for block in repaired.reasoning] == [SIGNED]
        assert repaired.content == "42"

    def test_only_the_assistant_thinks(self):
        given = [ConversationEntry(MessageRole.USER, "hi", reasoning=(Reasoning("hm"),))]
        assert ReasoningStaysBound().repair(given)[0].reasoning is None


class TestGeminiSteps:
    def step(self, name, signature=None):
        extra = {"thought_signature": signature} if signature else None
        return ConversationEntry(
            MessageRole.ASSISTANT, tool_calls=(ToolCall(name, "look", extra=extra),)
        )

    def loop(self, *steps):
        out = entries([user()])
        for step in steps:
            out += [step, *entries([result(step.tool_calls[0].id)])]
        return out

    def test_a_step_without_signature_gets_the_bypass(self):
        given = self.loop(self.step("c1", "sig"), self.step("c2"))
        rule = ReasoningStaysBound(family="gemini")
        assert [each.index for each in rule.find(given)] == [3]
        repaired = rule.repair(given)
        assert repaired[3].tool_calls[0].extra["thought_signature"]
        assert repaired[1] is given[1]
        assert rule.find(repaired) == []

    def test_models_that_do_not_sign_are_left_alone(self):
        given = self.loop(self.step("c1"), self.step("c2"))
        assert ReasoningStaysBound(family="gemini").find(given) == []


class TestEditedPrefix:
    def test_strip_takes_it_from_closed_turns_only(self):
        repaired = get_profile("anthropic").repair(two_turns(), edited=True)
        assert thinking(repaired) == [False, False, False, True, False]
        assert repaired[1].action == "repaired"
        assert "reasoning stripped" in repaired[1].reason

    def test_once_the_loop_is_over_the_turn_is_closed(self):
        given = [*two_turns(), *entries([assistant("done"), user("three")])]
        assert not any(thinking(get_profile("anthropic").repair(given, edited=True)))

    def test_keep_keeps(self):
        given = two_turns()
        assert get_profile("anthropic", reasoning="keep").repair(given, edited=True) == given

    def test_nothing_edited_nothing_stripped(self):
        given = two_turns()
        assert get_profile("anthropic").repair(given) is given

    def test_a_repair_is_an_edit_of_what_follows_it(self):
        given = entries([user("one"), call("c0"), user("two"), thought(SIGNED), user("three")])
        assert not any(thinking(get_profile("anthropic").repair(given)))

    def test_a_repair_does_not_touch_what_came_before_it(self):
        given = entries([user("one"), thought(SIGNED), user("two"), call("c0"), user("three")])
        assert get_profile("anthropic").repair(given)[1] is given[1]
