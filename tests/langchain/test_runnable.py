"""`HistoryCurator` as a step of a chain."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.load import dumps, loads
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate

from history_curator.tokens import count_tokens
from langchain_history_curator import HistoryCurator
from tests.langchain.factories import human, system
from tests.langchain.scripted import look, refusals, shape
from tests.langchain.test_history import exchange


def conversation(turns: int = 40) -> list[BaseMessage]:
    said: list[BaseMessage] = [system("be brief")]
    for turn in range(turns):
        said += exchange(turn)
    return [*said, human("and now?")]


class TestInputs:
    @pytest.mark.parametrize(
        "given",
        [
            [HumanMessage("hi")],
            {"messages": [HumanMessage("hi")]},
            ChatPromptTemplate.from_messages([("human", "hi")]).invoke({}),
            "hi",
            HumanMessage("hi"),
            ("human", "hi"),
            [("human", "hi")],
            {"role": "user", "content": "hi"},
            [{"role": "user", "content": "hi"}],
            {"messages": "hi"},
        ],
        ids=lambda given: type(given).__name__,
    )
    def test_whatever_a_chain_hands_on(self, given: Any) -> None:
        out = HistoryCurator(max_tokens=100).invoke(given)
        assert [(type(m), m.content) for m in out] == [(HumanMessage, "hi")]

    def test_nothing_of_the_input_changes(self) -> None:
        said = conversation()
        before = [message.model_dump_json() for message in said]
        HistoryCurator(max_tokens=2_000).invoke(said)
        assert [message.model_dump_json() for message in said] == before


class TestGuarantees:
    @pytest.mark.parametrize("budget", [300, 700, 2_000, 5_000])
    def test_fits_and_is_accepted(self, budget: int) -> None:
        view = HistoryCurator(max_tokens=budget).invoke(conversation())
        assert count_tokens(view) <= budget
        assert refusals(view) == []
        assert view[-1].text == "and now?"


def test_stream_passes_the_models_chunks_through() -> None:
    chain = HistoryCurator(max_tokens=1_000) | FakeListChatModel(responses=["hello"])
    assert [chunk.text for chunk in chain.stream(conversation()) if chunk.text] == list("hello")


def test_dumps_and_loads() -> None:
    step = HistoryCurator(max_tokens=600, provider="openai", reserve=10, tools=[look])
    names = ["langchain_history_curator"]
    again = loads(dumps(step), valid_namespaces=names, allowed_objects=[HistoryCurator])
    assert shape(again.invoke(conversation())) == shape(step.invoke(conversation()))
    assert (again.provider, again.reserve, again.tools) == ("openai", 10, step.tools)


def test_shadow_mode_sends_everything() -> None:
    said = conversation()
    curation = HistoryCurator(max_tokens=600, mode="shadow").curate(said)
    assert len(curation.messages) == len(said)
    assert curation.report.curated_count < len(said)
