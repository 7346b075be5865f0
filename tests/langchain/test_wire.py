"""What leaves the machine: real chat models, a scripted transport, and the JSON it got."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any, ClassVar

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import tool

from history_curator.errors import ConfigurationError
from langchain_history_curator import (
    EVENT_NAME,
    HistoryCurator,
    HistoryCuratorMiddleware,
    model_node,
    pin,
    pre_model_hook,
)
from tests.langchain.scripted import ScriptedModel
from tests.langchain.wires import NAMES, Request, Step, Wire

agents = pytest.importorskip("langchain.agents")

PROMPT = ChatPromptTemplate(
    [("system", "Be brief."), ("placeholder", "{history}"), ("user", "{question}")]
)


def history_of(turns: int, words: int = 40) -> list[BaseMessage]:
    return [
        kind(f"{n}: " + "word " * words) for n in range(turns) for kind in (HumanMessage, AIMessage)
    ]


def said(body: Request) -> str:
    return json.dumps(body, ensure_ascii=False)


@pytest.mark.parametrize("provider", ["auto", "core"])
@pytest.mark.parametrize("name", NAMES)
def test_what_an_adapter_joins_leaves_the_record_as_it_was(name: str, provider: str) -> None:
    record: list[BaseMessage] = [SystemMessage("Be brief."), HumanMessage("begin " * 20)]
    for number in range(30):
        record += [AIMessage("yes " * 40), HumanMessage(f"{number} " + "word " * 40)]
        record.append(HumanMessage("and more"))
    before = [message.model_copy(deep=True) for message in record]
    opened = Wire(name)
    settings = {} if provider == "auto" else {"provider": provider}
    (HistoryCurator(max_tokens=1_500, **settings) | opened.model).invoke(record)
    assert "Earlier in this conversation" in said(opened.last)
    assert record == before


class TestInTheMiddleOfAChain:
    """Where `trim_messages` usually sits: something is still added behind the step."""

    def chain(self, wire: Wire, **settings: Any) -> Any:
        step = HistoryCurator(max_tokens=800, **settings)
        return (
            RunnablePassthrough.assign(history=itemgetter("history") | step) | PROMPT | wire.model
        )

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("turns", [0, 1, 30])
    def test_nobody_speaks_who_did_not(self, name: str, turns: int) -> None:
        wire = Wire(name)
        self.chain(wire).invoke({"history": history_of(turns), "question": "so?"})
        assert "Please continue" not in said(wire.last)
        assert not wire.refused

    def test_what_is_sent_as_it_is_still_ends_on_a_question(self) -> None:
        wire = Wire("anthropic")
        (HistoryCurator(max_tokens=800) | wire.model).invoke(history_of(3))
        assert not wire.refused
        assert wire.last["messages"][-1]["role"] == "user"


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: fine"


class TestToolsOfTheProvider:
    @pytest.mark.parametrize(
        ("name", "builtin"),
        [
            ("gemini", {"google_search": {}}),
            ("anthropic", {"type": "web_search_20250305", "name": "web_search"}),
            ("responses", {"type": "web_search"}),
        ],
    )
    def test_pass_through_and_count(self, name: str, builtin: dict[str, Any]) -> None:
        wire = Wire(name)
        middleware = HistoryCuratorMiddleware(max_tokens=2_000)
        agents.create_agent(wire.model, [builtin], middleware=[middleware]).invoke(
            {"messages": [HumanMessage("hi")]}
        )
        kind = builtin.get("type") or "googleSearch"
        assert kind in said({"tools": wire.last["tools"]})
        step = HistoryCurator(tools=[builtin], max_tokens=2_000)
        bare = HistoryCurator(max_tokens=2_000)
        assert step.curate("hi").tokens > bare.curate("hi").tokens


class TestNames:
    def test_two_tools_named_recall_are_refused_with_a_way_out(self) -> None:
        @tool
        def recall(song: str) -> str:
            """Remember a song."""
            return song

        wire = Wire("openai")
        ours = HistoryCuratorMiddleware(max_tokens=2_000, recall_tool=True)
        agent = agents.create_agent(wire.model, [recall], middleware=[ours])
        with pytest.raises(ConfigurationError, match="look_back"):
            agent.invoke({"messages": [HumanMessage("hi")]})
        ours = HistoryCuratorMiddleware(max_tokens=2_000, recall_tool="look_back")
        agent = agents.create_agent(wire.model, [recall], middleware=[ours])
        agent.invoke({"messages": [*history_of(60), HumanMessage("hi")]})
        names = [each["function"]["name"] for each in wire.last["tools"]]
        assert sorted(names) == ["look_back", "recall"]
        assert '; look_back(handle=\\"r' in said(wire.last)
        assert "recall(handle" not in said(wire.last)


class TestCounters:
    LONG: ClassVar = [*history_of(20), HumanMessage("so?")]

    @pytest.mark.parametrize("given", ["approximate", "function", "len", "model"])
    def test_what_trim_messages_takes(self, given: str) -> None:
        class Counting(FakeListChatModel):
            def get_num_tokens_from_messages(self, messages: Any, tools: Any = None) -> int:
                return sum(len(message.text.split()) + 4 for message in messages) + 3

        model = Counting(responses=["x"])
        total: dict[str, Any] = {
            "approximate": count_tokens_approximately,
            "function": lambda said: sum(len(message.text) for message in said) // 4,
            "len": len,
            "model": model.get_num_tokens_from_messages,
        }
        counters = {**total, "approximate": "approximate", "model": model}
        limit = 9 if given == "len" else 400
        view = HistoryCurator(max_tokens=limit, counter=counters[given]).invoke(self.LONG)
        assert 0 < total[given](view) <= limit
        assert len(view) < len(self.LONG)
        assert view[-1] is self.LONG[-1]


class TestExamples:
    def test_pinned_ones_stay_whole(self) -> None:
        shots = [
            HumanMessage("2 + 2 = ?"),
            AIMessage("", tool_calls=[{"name": "look", "args": {"place": "x"}, "id": "e1"}]),
            ToolMessage("4 " * 30, tool_call_id="e1", name="look"),
            AIMessage("4"),
        ]
        prompt = ChatPromptTemplate(
            [SystemMessage("Be brief."), *pin(shots), ("placeholder", "{history}"), ("user", "{q}")]
        )
        wire = Wire("openai")
        chain = prompt | HistoryCurator(max_tokens=700) | wire.model
        chain.invoke({"history": history_of(40), "q": "so?"})
        body = wire.last["messages"]
        assert [m["role"] for m in body[:5]] == ["system", "user", "assistant", "tool", "assistant"]
        assert body[3]["content"] == "4 " * 30
        assert "pinned" not in said(wire.last)
        assert len(body) < 40


class TestStreams:
    """Each curation is announced."""

    def graph(self, kind: str) -> Any:
        model = ScriptedModel(steps=0)
        if kind == "agent":
            ours = HistoryCuratorMiddleware(max_tokens=2_000)
            return agents.create_agent(model, [], middleware=[ours])
        hook = pre_model_hook(2_000) | (lambda update: {"messages": update.popitem()[1]})
        graph = pytest.importorskip("langgraph.graph")
        builder = graph.StateGraph(graph.MessagesState)
        builder.add_node("first", hook if kind == "hook" else model_node(model, 2_000))
        builder.set_entry_point("first")
        return builder.compile()

    @pytest.mark.parametrize("kind", ["agent", "node", "hook"])
    async def test_a_curation_is_one_custom_event(self, kind: str) -> None:
        given: Any = {"messages": [*history_of(60), ("user", "hi")]}
        graph = self.graph(kind)
        assert len(list(graph.stream(given, stream_mode="custom"))) == 1
        (data,) = [
            event["data"]
            async for event in graph.astream_events(given, version="v2")
            if event["event"] == "on_custom_event" and event["name"] == EVENT_NAME
        ]
        assert data["original_count"] == 121 > data["curated_count"]
        assert data["actions"]["dropped"] > 0


class TestHistoryOfTheServer:
    """A view has no effect where the server goes on with everything it was sent before."""

    SAID: ClassVar[list[BaseMessage]] = [*history_of(60), HumanMessage("so?")]

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda: Wire("responses", use_previous_response_id=True).model,
            lambda: Wire("responses").model.bind(conversation="conv_1"),
            lambda: Wire("responses", model_kwargs={"conversation": "conv_1"}).model,
        ],
    )
    def test_is_refused_with_the_setting(self, wrap: Any) -> None:
        for use in (
            lambda: HistoryCurator.for_model(wrap(), 2_000),
            lambda: HistoryCurator(max_tokens=2_000) | wrap(),
            lambda: model_node(wrap(), 2_000),
        ):
            with pytest.raises(ConfigurationError, match=r"the server keeps the history.*Fix"):
                use()

    def test_is_replaced_by_the_view_where_it_is_asked_for(self) -> None:
        wire = Wire("responses", use_previous_response_id=True)
        answer = AIMessage("4", response_metadata={"id": "resp_1"}, id="resp_1")
        said = {"messages": [*self.SAID[:-1], answer, self.SAID[-1]]}
        for replaces in (False, True):
            ours = HistoryCuratorMiddleware(max_tokens=2_000, replace_server_history=replaces)
            agent = agents.create_agent(wire.model, [], middleware=[ours])
            if replaces:
                agent.invoke(said)
            else:
                with pytest.raises(ConfigurationError, match="the server keeps the history"):
                    agent.invoke(said)
        (body,) = wire.requests
        assert "previous_response_id" not in body
        assert 10 < len(body["input"]) < 60


class TestDeepAgents:
    def test_in_the_place_of_its_own_summarisation(self) -> None:
        deepagents = pytest.importorskip("deepagents")
        wire = Wire(
            "anthropic",
            lambda body: (
                Step(text="done")
                if len(wire.requests) > 30
                else Step(calls=((f"c{len(wire.requests)}", "look", {"place": "Oslo " * 150}),))
            ),
        )
        ours = HistoryCuratorMiddleware(max_tokens=16_000, name="SummarizationMiddleware")
        agent = deepagents.create_deep_agent(model=wire.model, tools=[look], middleware=[ours])
        state = agent.invoke({"messages": [HumanMessage("go")]}, {"recursion_limit": 500})
        assert not wire.refused
        assert len([m for m in state["messages"] if isinstance(m, ToolMessage)]) == 30
        assert len(wire.last["messages"]) < len(state["messages"])
