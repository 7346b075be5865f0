"""The message converters of three LangChain integrations take what we repair."""

from __future__ import annotations

import pytest
from hypothesis import given

from history_curator.conformance import check_conversation, repair_conversation
from history_curator.testing import SEQUENCES, parse
from history_curator.testing.strategies import broken_conversations

dialects = pytest.importorskip("langchain_history_curator._dialect")
messages_module = pytest.importorskip("langchain_core.messages")
CASES = [pytest.param(given, id=str(number)) for number, (given, _) in enumerate(SEQUENCES, 1)]


def to_langchain(messages):
    return messages_module.convert_to_messages([_plain(message) for message in messages])


def _plain(message):
    """LangChain's own converter takes neither None nor unreadable arguments."""
    plain = {key: value for key, value in message.items() if key not in ("timestamp", "name")}
    plain["content"] = message["content"] or ""
    if message["role"] != "assistant":
        plain.pop("tool_calls", None)
    return plain


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
        spoken = dialects.LangChainDialect()  # an empty list does not say what it is made of
        repaired = repair_conversation(to_langchain(messages), provider, dialect=spoken)
        assert check_conversation(repaired, provider) == []
        assert convert(provider, repaired)


def test_openai_sees_exactly_one_result_per_call_right_behind_it():
    repaired = repair_conversation(to_langchain(parse("U A(c1,c2) U T(c2) A U")), "openai")
    roles = [(each["role"], each.get("tool_call_id")) for each in convert("openai", repaired)]
    assert roles == [
        ("user", None),
        ("assistant", None),
        ("tool", "c1"),
        ("tool", "c2"),
        ("user", None),
        ("assistant", None),
        ("user", None),
    ]
