from __future__ import annotations

from history_curator import check_conversation, count_tokens
from history_curator.lab import sample_conversation


def test_it_is_the_same_every_time() -> None:
    assert sample_conversation() == sample_conversation()
    assert sample_conversation(1) != sample_conversation(2)


def test_it_is_what_agents_produce() -> None:
    messages = sample_conversation()
    assert check_conversation(messages, "openai") == []
    assert any(len(message.get("tool_calls") or ()) > 1 for message in messages)
    assert count_tokens(messages) > 30_000
