"""What every socket is made from: arguments, a config and its objects, and nothing unknown."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    LLMMetadata,
    TextBlock,
    ThinkingBlock,
)

from history_curator import (
    ConfigurationError,
    Curator,
    RelevanceManager,
    SlidingWindowManager,
    SummarizingManager,
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
from llamaindex_history_curator.models import make_curator
from tests.llamaindex.factories import assistant, user
from tests.llamaindex.models import RecordingLLM

Make = Callable[..., Any]

CONFIG = {
    "managers": [{"sliding_window": {"window_size": 2}}],
    "max_tokens": 900,
    "provider": "mistral",
    "counter": "cl100k_base",
    "recall_tool": True,
}


def llm_curator(**options: Any) -> Curator:
    return CuratedLLM(RecordingLLM(), **options)._get_sender().curator


def function_curator(**options: Any) -> Curator:
    return CuratedFunctionAgent(llm=RecordingLLM(), tools=[], **options)._curated_llm().curator


def react_curator(**options: Any) -> Curator:
    return CuratedReActAgent(llm=RecordingLLM(), tools=[], **options)._curated_llm().curator


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
class TestConfig:
    def test_it_is_honoured(self, make: Make, tmp_path: Path) -> None:
        path = tmp_path / "curator.json"
        path.write_text(json.dumps(CONFIG))
        for config in (CONFIG, path):
            curator = make(config=config)
            assert [type(manager) for manager in curator.managers] == [SlidingWindowManager]
            assert (curator.max_tokens, curator.profile.name) == (900, "mistral")
            assert (curator.counter.name, curator.recall_tool) == ("cl100k_base", True)

    def test_what_is_given_wins(self, make: Make) -> None:
        curator = make(config=CONFIG, token_limit=700, provider="openai", counter="o200k_base")
        assert (curator.max_tokens, curator.profile.name) == (700, "openai")
        assert curator.counter.name == "o200k_base"

    def test_objects_stand_for_named_options(self, make: Make) -> None:
        config = {"managers": [{"summarizing": {"summarizer": "@writer"}}], "max_tokens": 900}
        curator = make(config=config, objects={"writer": lambda text: "short"})
        assert isinstance(curator.managers[0], SummarizingManager)
        with pytest.raises(ConfigurationError, match="writer"):
            make(config=config)

    def test_managers_and_curators_beside_a_config_are_refused(self, make: Make) -> None:
        with pytest.raises(ConfigurationError, match=r"given together.*managers"):
            make(config=CONFIG, managers=[SlidingWindowManager(2)])
        with pytest.raises(ConfigurationError, match=r"given together.*config"):
            make(config=CONFIG, curator=Curator(max_tokens=9))


@SOCKETS
class TestArguments:
    @pytest.mark.parametrize("name", ["token_limt", "max_tokens"])
    def test_an_unknown_one_is_refused_with_the_closest(self, make: Make, name: str) -> None:
        with pytest.raises(ConfigurationError, match=f"{name}.*did you mean 'token_limit'"):
            make(**{name: 500})

    def test_one_manager_needs_no_list(self, make: Make) -> None:
        manager = RelevanceManager()
        assert make(managers=manager, token_limit=500).managers == (manager,)


@pytest.mark.parametrize("kind", [CuratedFunctionAgent, CuratedReActAgent, CuratedLLM])
def test_an_unknown_provider_is_refused_when_made(kind: Make) -> None:
    with pytest.raises(ConfigurationError, match="opnai"):
        kind(llm=RecordingLLM(), provider="opnai")


async def test_an_agent_gets_the_recall_tool_of_its_config() -> None:
    agent = CuratedFunctionAgent(llm=RecordingLLM(), config=CONFIG)
    assert len(await agent.get_tools()) == 1
    without = CuratedFunctionAgent(llm=RecordingLLM(), config=CONFIG, recall_tool=False)
    assert await without.get_tools() == []


class TestMemory:
    @pytest.mark.parametrize(
        "given", [{"provider": "openai"}, {"counter": "cl100k_base"}, {"token_limit": 5}]
    )
    def test_a_curator_stands_alone(self, given: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError, match=f"given together.*{next(iter(given))}"):
            CuratedMemory.from_defaults(curator=Curator(max_tokens=900), **given)

    def test_what_won_over_a_config_survives_anywhere(self) -> None:
        memory = CuratedMemory.from_defaults(
            config=CONFIG, provider="openai", counter="o200k_base", recall_tool=False
        )
        data = memory.to_dict()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            curator = CuratedMemory.from_dict(data).curator
        assert (curator.profile.name, curator.counter.name) == ("openai", "o200k_base")
        assert (curator.recall_tool, len(curator.managers)) == (False, 1)

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


class Named(RecordingLLM):
    """An LLM whose model is called as its kind is."""

    @property
    def metadata(self) -> LLMMetadata:
        return super().metadata.model_copy(update={"model_name": self.kind})


class TestTheModelThatIsAsked:
    def signed(self) -> list[ChatMessage]:
        thought = ThinkingBlock(content="hm", additional_information={"signature": "c2ln"})
        answer = ChatMessage(role="assistant", blocks=[thought, TextBlock(text="42")])
        answer.additional_kwargs["model"] = "claude-opus-4-5"
        return [user("hi"), answer, user("and?")]

    @pytest.mark.parametrize("name", ["claude-opus-4-5-20251101", "claude-sonnet-4-5"])
    @pytest.mark.parametrize("config", [None, {"max_tokens": 900}])
    def test_loses_thinking_that_another_signed(
        self, name: str, config: dict[str, Any] | None
    ) -> None:
        llm = Named(kind=name)
        curator = make_curator(llm=llm, provider="anthropic", config=config)
        view = curator.curate(self.signed()).messages
        assert any(isinstance(block, ThinkingBlock) for block in view[1].blocks) == ("opus" in name)
