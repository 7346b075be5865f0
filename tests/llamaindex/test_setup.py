"""What every socket is made from: arguments, a config and its objects, and nothing unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
)

from history_curator import (
    ConfigurationError,
    Curator,
    RelevanceManager,
    SlidingWindowManager,
)
from history_curator.entries import ConversationEntry
from history_curator.managers import CurationContext
from llamaindex_history_curator import (
    CuratedFunctionAgent,
    CuratedLLM,
    CuratedMemory,
    CuratedReActAgent,
    LlamaIndexFormat,
)
from tests.llamaindex.factories import assistant, user
from tests.llamaindex.models import RecordingLLM

Make = Callable[..., Any]


def llm_curator(**options: Any) -> Curator:
    curator: Curator = CuratedLLM(RecordingLLM(), **options).curator
    return curator


def function_curator(**options: Any) -> Curator:
    curator: Curator = CuratedFunctionAgent(llm=RecordingLLM(), tools=[], **options).llm.curator
    return curator


def react_curator(**options: Any) -> Curator:
    curator: Curator = CuratedReActAgent(llm=RecordingLLM(), tools=[], **options).llm.curator
    return curator


def memory_curator(**options: Any) -> Curator:
    curator: Curator = CuratedMemory.from_defaults(**options).curator
    return curator


SOCKETS = pytest.mark.parametrize(
    "make", [llm_curator, function_curator, react_curator, memory_curator]
)


class Spy:
    """Notes the question it was asked for."""

    def __init__(self) -> None:
        self.queries: list[str | None] = []

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> Sequence[ConversationEntry]:
        self.queries.append(context.query)
        return entries


@SOCKETS
class TestArguments:
    @pytest.mark.parametrize("name", ["token_limt", "max_tokens"])
    def test_an_unknown_one_is_refused_with_the_closest(self, make: Make, name: str) -> None:
        with pytest.raises(ConfigurationError, match=f"{name}.*did you mean 'token_limit'"):
            make(**{name: 500})

    @pytest.mark.parametrize(
        "given", [{"managers": [SlidingWindowManager(2)]}, {"provider": "openai"}, {"recap": False}]
    )
    def test_a_curator_stands_alone(self, make: Make, given: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError, match=f"given together.*{next(iter(given))}"):
            make(curator=Curator(max_tokens=900), **given)

    def test_options_of_the_curator_are_taken(self, make: Make) -> None:
        curator = make(token_limit=500, compact_to=0.5, recap=False, preserve_last_n=2)
        assert (curator.compact_to, curator.recap, curator.preserve_last_n) == (0.5, False, 2)

    def test_one_manager_needs_no_list(self, make: Make) -> None:
        manager = RelevanceManager()
        assert make(managers=manager, token_limit=500).managers == (manager,)


@pytest.mark.parametrize("kind", [CuratedFunctionAgent, CuratedReActAgent, CuratedLLM])
def test_an_unknown_provider_is_refused_when_made(kind: Make) -> None:
    with pytest.raises(ConfigurationError, match="opnai"):
        kind(llm=RecordingLLM(), provider="opnai")


@pytest.mark.parametrize("name", ["token_limit", "llm"])
def test_settings_of_an_llm_and_of_an_agent_cannot_be_exchanged(name: str) -> None:
    for made in (CuratedLLM(RecordingLLM()), CuratedFunctionAgent(llm=RecordingLLM(), tools=[])):
        with pytest.raises(ValueError, match=r"frozen|no field"):
            setattr(made, name, 5)


def test_settings_of_a_memory_cannot_be_exchanged() -> None:
    memory = CuratedMemory.from_defaults(token_limit=500)
    for name in ("token_limit", "chat_store_key", "chat_store", "curator"):
        with pytest.raises(ValueError, match="frozen"):
            setattr(memory, name, 5)


class TestMemory:
    async def test_the_question_about_to_be_asked_reaches_the_managers(self) -> None:
        spy = Spy()
        memory = CuratedMemory.from_defaults([user("a"), assistant("b")], managers=spy)
        memory.get(input="where?")
        await memory.aget(input="when?")
        memory.get()
        memory.put(user("who?"))
        memory.get(input="who?")
        assert spy.queries == ["where?", "when?", None, None]


class TestPins:
    def pinned(self) -> ChatMessage:
        return ChatMessage("the rule", role="user", additional_kwargs={"pinned": True})

    def test_a_pinned_message_is_in_every_view(self) -> None:
        said = [user("first"), assistant("ok"), self.pinned(), assistant("ok")]
        said += [m for n in range(40) for m in (user(f"q{n}"), assistant("word " * 20))]
        memory = CuratedMemory.from_defaults(
            said, token_limit=400, managers=SlidingWindowManager(2)
        )
        (found,) = [message for message in memory.get() if message.content == "the rule"]
        assert found.additional_kwargs == {"pinned": True}

    def test_a_pin_is_read_and_seen_when_it_changes(self) -> None:
        format, message = LlamaIndexFormat(), self.pinned()
        (before,) = [format.key_of(format.snapshot(message))]
        assert format.read(message, 0)[0].pinned
        message.additional_kwargs["pinned"] = False
        assert not format.read(message, 0)[0].pinned
        assert format.key_of(message) != before
