"""Arguments of every integration, budgets of LLMs, and the place of LlamaIndex's own memories."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import CachePoint, ChatMessage
from llama_index.core.llms import MockLLM
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer, Memory
from llama_index.core.memory.types import BaseChatStoreMemory
from llama_index.core.storage.chat_store import SimpleChatStore

from history_curator import ConfigurationError, Curator, RelevanceManager, SlidingWindowManager
from llamaindex_history_curator import (
    CuratedFunctionAgent,
    CuratedLLM,
    CuratedMemory,
    CuratedReActAgent,
    budget_for_llm,
)
from tests.llamaindex.factories import assistant, system, texts, turns, user
from tests.llamaindex.models import RecordingLLM

MAKERS: dict[str, Callable[..., Any]] = {
    "llm": lambda **options: CuratedLLM(RecordingLLM(), **options).curator,
    "function": lambda **options: agent(CuratedFunctionAgent, **options).llm.curator,
    "react": lambda **options: agent(CuratedReActAgent, **options).llm.curator,
    "memory": lambda **options: CuratedMemory.from_defaults(**options).curator,
}
SMALL = Curator(max_tokens=9)


def agent(kind: Any, **options: Any) -> Any:
    return kind(llm=RecordingLLM(), tools=[], **options)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
class TestEveryIntegration:
    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"token_limt": 500}, "token_limt.*did you mean 'token_limit'"),
            ({"max_tokens": 500}, "max_tokens.*did you mean 'token_limit'"),
            ({"memory": 1}, r"pass it to run\(\)"),
            ({"provider": "opnai"}, "opnai"),
            ({"curator": SMALL, "managers": [SlidingWindowManager(2)]}, "given together.*managers"),
            ({"curator": SMALL, "provider": "openai"}, "given together.*provider"),
            ({"curator": SMALL, "token_limit": 5}, "given together.*token_limit"),
        ],
    )
    def test_what_cannot_work_is_refused_with_a_fix(
        self, make: Any, given: dict[str, Any], told: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=f"(?s){told}.*") as caught:
            make(**given)
        assert "Fix" in str(caught.value)

    def test_options_of_the_curator_are_taken(self, make: Any) -> None:
        manager = RelevanceManager()
        options = {"compact_to": 0.5, "recap": False, "preserve_last_n": 2}
        curator = make(token_limit=500, managers=manager, **options)
        assert {name: getattr(curator, name) for name in options} == options
        assert curator.managers == (manager,)


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (CuratedLLM(RecordingLLM()), ("token_limit", "llm")),
        (agent(CuratedFunctionAgent), ("token_limit", "llm")),
        (CuratedMemory(), ("token_limit", "chat_store_key", "chat_store", "curator")),
    ],
)
def test_settings_cannot_be_exchanged(made: Any, names: tuple[str, ...]) -> None:
    for name in names:
        with pytest.raises(ValueError, match=r"frozen|no field"):
            setattr(made, name, 5)


class TestBudget:
    @pytest.mark.parametrize(
        ("window", "output", "options", "expected"),
        [
            (100_000, 4_000, {}, 91_000),
            (100_000, 4_000, {"output": 10_000, "margin": 0}, 90_000),
            (8_000, 0, {"margin": 0}, 6_000),
            (80_000, -1, {"margin": 0}, 75_904),
        ],
    )
    def test_window_minus_output_minus_margin(
        self, window: int, output: int, options: Any, expected: int
    ) -> None:
        assert budget_for_llm(RecordingLLM(window=window, output=output), **options) == expected

    def test_an_unknown_window_is_said(self) -> None:
        with pytest.warns(UserWarning, match=r"MockLLM does not know its context window.*Fix"):
            assert budget_for_llm(MockLLM()) < 3_900
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            CuratedLLM(llm=MockLLM(), token_limit=500)

    def test_nothing_left_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"leaves nothing.*Fix"):
            budget_for_llm(RecordingLLM(window=4_000, output=4_000))

    @pytest.mark.parametrize(
        ("kind", "provider"),
        [
            ("Anthropic", "anthropic"),
            ("OpenAI", "openai"),
            ("GoogleGenAI", "gemini"),
            ("X", "core"),
        ],
    )
    def test_the_provider_follows_the_llm(self, kind: str, provider: str) -> None:
        memory = CuratedMemory.from_defaults(llm=RecordingLLM(kind=kind))
        assert memory.curator.profile.name == provider


class TestCacheMarks:
    @pytest.mark.parametrize(
        ("kind", "rules", "marks"),
        [
            ("Anthropic", 1_500, [1, 1, 0, 1]),
            ("Anthropic", 1, [0, 0, 0, 0]),  # below what a provider caches
            ("OpenAI", 1_500, [0, 0, 0, 0]),  # takes none
        ],
    )
    def test_where_the_plan_says(self, kind: str, rules: int, marks: list[int]) -> None:
        inner = RecordingLLM(kind=kind)
        said = [system("rule " * rules), user("one"), assistant("two"), user("three")]
        CuratedLLM(llm=inner, token_limit=9_000, mark_cache=True).chat(said)
        assert [sum(isinstance(b, CachePoint) for b in m.blocks) for m in inner.sent[0]] == marks


class TestInThePlaceOfAnotherMemory:
    def test_arguments_of_the_buffer_in_its_order(self) -> None:
        given = ([user("1")], None, SimpleChatStore(), "s", 500)
        theirs = ChatMemoryBuffer.from_defaults(*given)
        ours = CuratedMemory.from_defaults(*given)
        assert texts(ours.get()) == texts(theirs.get())
        assert (ours.chat_store_key, ours.token_limit) == ("s", 500)
        assert isinstance(ours, BaseChatStoreMemory)
        assert isinstance(ours, BaseMemory)
        assert repr(ours) == str(ours) == "CuratedMemory('s', token_limit=500)"

    def test_arguments_of_memory_by_name(self, tmp_path: Path) -> None:
        uri = f"sqlite+aiosqlite:///{tmp_path / 'chats.db'}"
        common: dict[str, Any] = {"session_id": "s", "token_limit": 500, "token_flush_size": 100}
        theirs = Memory.from_defaults(**common, async_database_uri=uri)
        theirs.put(user("1"))
        ours = CuratedMemory.from_defaults(**common, async_database_uri=uri)
        assert texts(ours.get()) == ["1"]
        ours.put(assistant("2"))
        assert texts(theirs.get()) == ["1", "2"]
        assert ours.curator.compact_to == pytest.approx(0.8)
        same = CuratedMemory.from_defaults(**common, sql_store=ours.chat_store, db_schema=None)
        assert texts(same.get()) == ["1", "2"]
        nobodys = CuratedMemory.from_defaults(async_database_uri=uri)  # has a session of its own
        assert nobodys.get() == []

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"token_flush_size": 900, "token_limit": 900}, "compact_to"),
            ({"tokenizer_fn": str.split}, "counter="),
            ({"memory_blocks": []}, "managers="),
            ({"curator": Curator()}, "no budget"),
            ({"chat_store": object()}, "is not a chat store"),
        ],
    )
    def test_what_means_nothing_is_refused(self, given: dict[str, Any], told: str) -> None:
        with pytest.raises(ConfigurationError, match=told):
            CuratedMemory.from_defaults(**given)


class Spy:
    """Notes the question it was asked for."""

    def __init__(self) -> None:
        self.queries: list[str | None] = []

    def curate(self, entries: Any, *, context: Any) -> Any:
        self.queries.append(context.query)
        return entries


async def test_the_question_about_to_be_asked_reaches_the_managers() -> None:
    spy = Spy()
    memory = CuratedMemory.from_defaults([user("a"), assistant("b")], managers=spy)
    memory.get(input="where?")
    await memory.aget(input="when?")
    memory.get()
    memory.put(user("who?"))
    memory.get(input="who?")
    assert spy.queries == ["where?", "when?", None, None]


def test_a_pinned_message_is_in_every_view() -> None:
    pinned = ChatMessage("the rule", role="user", additional_kwargs={"pinned": True})
    said = [user("first"), assistant("ok"), pinned, assistant("ok"), *turns(40)]
    memory = CuratedMemory.from_defaults(said, token_limit=400, managers=SlidingWindowManager(2))
    (found,) = [message for message in memory.get() if message.content == "the rule"]
    assert found.additional_kwargs == {"pinned": True}
