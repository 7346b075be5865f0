"""Pins: rules given once stay."""

from __future__ import annotations

import pytest

from history_curator import Curator
from history_curator.managers.select import PinManager, is_standing_rule
from history_curator.entries import ConversationEntry, MessageRole
from tests.support.messages import Message, assistant, user


def talk() -> list[Message]:
    messages = [user("let us begin"), assistant("yes"), user("Never use the word boat.")]
    for turn in range(40):
        messages += [assistant("right " * 20), user(f"question {turn} " + "please " * 20)]
    return messages


class TestPinManager:
    def test_a_rule_survives_the_budget(self) -> None:
        messages = talk()
        assert messages[2] not in Curator(max_tokens=800).curate(messages).messages
        view = Curator(PinManager(), max_tokens=800).curate(messages).messages
        assert messages[2] in view

    def test_a_given_predicate_decides(self) -> None:
        messages = talk()
        manager = PinManager(lambda entry: "question 3 " in (entry.content or ""))
        view = Curator(manager, max_tokens=800).curate(messages).messages
        assert any("question 3 " in message["content"] for message in view)
        assert messages[2] not in view

    def test_pins_cannot_eat_the_budget(self) -> None:
        curation = Curator(PinManager(lambda entry: True), max_tokens=800).curate(talk())
        assert curation.tokens <= 800

    @pytest.mark.parametrize(
        "text",
        ["Always answer in French", "ok. Never do that", "from now on, use tabs", "I prefer tea."],
    )
    def test_rules_are_recognised(self, text: str) -> None:
        assert is_standing_rule(ConversationEntry(MessageRole.USER, text))

    @pytest.mark.parametrize("text", ["it has always been so", "I never said that", "", "hello"])
    def test_statements_are_not_rules(self, text: str) -> None:
        assert not is_standing_rule(ConversationEntry(MessageRole.USER, text))

    def test_only_the_user_makes_rules(self) -> None:
        assert not is_standing_rule(ConversationEntry(MessageRole.ASSISTANT, "Always be kind"))
