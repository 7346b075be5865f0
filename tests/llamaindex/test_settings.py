"""What is assigned holds, or is refused."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store import SimpleChatStore

from history_curator import ConfigurationError, ConversionError, Curator, RetentionConfig
from llamaindex_history_curator import (
    CuratedFunctionAgent,
    CuratedLLM,
    CuratedMemory,
)
from tests.llamaindex.factories import assistant, texts, user
from tests.llamaindex.models import RecordingLLM, cost


def turns(count: int) -> list[ChatMessage]:
    return [
        message
        for number in range(count)
        for message in (user(f"q{number} " + "x " * 20), assistant(f"a{number} " + "y " * 20))
    ]


class TestMemory:
    def test_another_key_is_another_conversation(self) -> None:
        memory = CuratedMemory.from_defaults(chat_store_key="alice")
        memory.put(user("alice's words"))
        memory.chat_store_key = "bob"
        assert memory.get() == memory.get_all() == []
        memory.put(user("bob's words"))
        memory.session_id = "alice"
        assert texts(memory.get()) == ["alice's words"]
        assert memory.to_dict()["chat_store_key"] == "alice"

    def test_another_limit_is_the_limit(self) -> None:
        memory = CuratedMemory.from_defaults(turns(40), token_limit=9_000, provider="openai")
        assert len(memory.get()) == 80
        memory.token_limit = 300
        assert cost(memory.get()) <= 300
        assert memory.curator.profile.name == "openai"
        memory.token_limit = 9_000
        assert len(memory.get()) == 80

    def test_another_store_and_retention(self) -> None:
        memory = CuratedMemory.from_defaults([user("1")])
        other = SimpleChatStore()
        memory.chat_store = other
        memory.put(user("2"))
        assert texts(other.get_messages("chat_history")) == ["2"]
        memory.retention = {"preserve_turns": 3}
        assert memory.retention == RetentionConfig(preserve_turns=3)

    @pytest.mark.parametrize(
        ("field", "value"),
        [("token_limit", 0), ("reserve", 900), ("chat_store", "redis"), ("curator", Curator())],
    )
    def test_what_cannot_work_is_refused_and_changes_nothing(self, field: str, value: Any) -> None:
        memory = CuratedMemory.from_defaults([user("1")], token_limit=900)
        before = getattr(memory, field)
        with pytest.raises(ConfigurationError, match="Fix"):
            setattr(memory, field, value)
        assert getattr(memory, field) is before
        assert texts(memory.get()) == ["1"]

    def test_what_waits_for_a_store_is_not_left_behind(self) -> None:
        class Flaky(SimpleChatStore):
            down: bool = True

            def add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
                if self.down:
                    raise ConnectionError("down")
                super().add_message(key, message, idx)

        store = Flaky()
        memory = CuratedMemory.from_defaults(chat_store=store, chat_store_key="alice")
        memory.put(user("1"))
        with pytest.raises(ConfigurationError, match="1 messages still wait"):
            memory.chat_store_key = "bob"
        store.down = False
        memory.chat_store_key = "bob"
        assert texts(store.get_messages("alice")) == ["1"]

    @pytest.mark.parametrize("given", ["text", {"role": "user", "content": "x"}, None])
    async def test_what_is_no_message_is_refused_when_it_is_put(self, given: Any) -> None:
        memory = CuratedMemory.from_defaults()
        with pytest.raises(ConversionError, match=r"messages\[0\].*ChatMessage.*Fix"):
            memory.put(given)
        with pytest.raises(ConversionError, match="Fix"):
            await memory.aset([given])
        assert memory.get() == []

    def test_a_misspelt_field_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="token_limit"):
            CuratedMemory(tokenlimit=5)
        with pytest.raises(ConfigurationError, match="together"):
            CuratedMemory(token_limit=5, curator=Curator(max_tokens=9))


class TestLLM:
    def test_settings_hold_from_the_next_call_on(self) -> None:
        llm = RecordingLLM()
        curated = CuratedLLM(llm, token_limit=9_000)
        said = [*turns(40), user("now?")]
        curated.chat(said)
        curated.token_limit = 300
        curated.chat(said)
        assert llm.costs[0] > 1_000
        assert llm.costs[1] <= 300
        curated.curator = Curator(max_tokens=9)
        with pytest.raises(ConfigurationError, match="together"):
            curated.chat(said)

    def test_an_exchanged_llm_brings_its_budget(self) -> None:
        curated = CuratedLLM(RecordingLLM(window=100_000))
        small = RecordingLLM(window=2_000, output=200)
        curated.llm = small
        curated.chat([*turns(80), user("now?")])
        assert small.costs[0] <= 1_800


class TestAgent:
    def test_settings_hold_from_the_next_call_on(self) -> None:
        llm = RecordingLLM()
        agent = CuratedFunctionAgent(llm=llm, tools=[], token_limit=9_000)
        agent.token_limit = 300
        view = asyncio.run(agent.curate_step([*turns(40), user("now?")]))
        assert cost(view) <= 300

    def test_no_llm_gets_the_budget_of_a_dead_one(self) -> None:
        agent = CuratedFunctionAgent(llm=RecordingLLM(window=100_000), tools=[])
        for window in range(2_000, 7_000, 1_000):
            agent.llm = RecordingLLM(window=window, output=100)
            gc.collect()
            curator = agent._curated_llm().curator
            assert curator.max_tokens is not None
            assert window * 0.9 < curator.max_tokens + 100 <= window
