"""The message converters of three LangChain integrations take what we repair."""

from __future__ import annotations

import pytest
from hypothesis import given

from history_curator.formats import parse_object
from history_curator.rules import check_conversation, repair_conversation
from history_curator.testing import SEQUENCES, parse
from tests.support.strategies import broken_conversations

formats = pytest.importorskip("langchain_history_curator.messages")
messages_module = pytest.importorskip("langchain_core.messages")
CASES = [pytest.param(given, id=str(number)) for number, (given, _) in enumerate(SEQUENCES, 1)]


def to_langchain(messages):
    """What an integration makes of a provider's answer: unreadable arguments stand apart."""
    return [_to_langchain(message) for message in messages]


def _to_langchain(message):
    content, name, role = message["content"] or "", message.get("name"), message["role"]
    if role == "tool":
        answered = message["tool_call_id"]
        return messages_module.ToolMessage(content, name=name, tool_call_id=answered)
    if role != "assistant":
        kinds = {"system": messages_module.SystemMessage, "user": messages_module.HumanMessage}
        return kinds[role](content, name=name)
    calls, invalid = [], []
    for call in message.get("tool_calls", ()):
        body = {"id": call["id"], "name": call["function"]["name"]}
        arguments = call["function"]["arguments"]
        if (read := parse_object(arguments)) is not None:
            calls.append({**body, "args": read, "type": "tool_call"})
        else:
            invalid.append({**body, "args": arguments, "error": None, "type": "invalid_tool_call"})
    return messages_module.AIMessage(
        content, name=name, tool_calls=calls, invalid_tool_calls=invalid
    )


def convert(provider, messages):
    if provider == "anthropic":
        module = pytest.importorskip("langchain_anthropic.chat_models")
        _, formatted = module._format_messages(messages, model="claude-sonnet-4-5")
        for message in formatted:
            assert message["content"]
        assert formatted[0]["role"] == "user"
        return formatted
    if provider == "openai":
        module = pytest.importorskip("langchain_openai.chat_models.base")
        return [module._convert_message_to_dict(message) for message in messages]
    module = pytest.importorskip("langchain_google_genai.chat_models")
    _, formatted = module._parse_chat_history(messages, model="gemini-2.5-flash")
    assert all(content.parts for content in formatted)
    assert formatted[0].role == "user"
    return formatted


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini"])
class TestConverters:
    @pytest.mark.parametrize("sequence", CASES)
    @pytest.mark.parametrize("own", [True, False], ids=["own", "portable"])
    def test_take_every_repaired_sequence(self, provider, own, sequence):
        profile = provider if own else "portable"
        repaired = repair_conversation(to_langchain(parse(sequence)), profile)
        assert check_conversation(repaired, profile) == []
        assert convert(provider, repaired)

    @given(messages=broken_conversations())
    def test_take_every_repaired_conversation(self, provider, messages):
        spoken = formats.LangChainFormat()  # an empty list does not say what it is made of
        repaired = repair_conversation(to_langchain(messages), provider, format=spoken)
        assert check_conversation(repaired, provider) == []
        assert convert(provider, repaired)
