"""The sockets say which conversation it is, where the framework knows."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda

from history_curator.curator import Curator
from langchain_history_curator import CuratedChatMessageHistory, HistoryCurator

SAID = [HumanMessage("hi")]
THREAD: Any = {"configurable": {"thread_id": "t"}}


class Asked:
    """A manager that changes nothing and notes what it was told the conversation is called."""

    def __init__(self) -> None:
        self.keys: list[Any] = []

    def curate(self, entries: Any, *, context: Any) -> Any:
        self.keys.append(context.key)
        return entries


class TestSteps:
    @pytest.mark.parametrize(
        ("config", "key"),
        [
            (None, None),
            ({"configurable": {}}, None),
            (THREAD, ("t", "")),
            ({"configurable": {"session_id": "s"}}, ("s", "")),
            ({"configurable": {"thread_id": 7}}, ("7", "")),
        ],
    )
    async def test_a_thread_or_a_session(self, config: Any, key: Any) -> None:
        asked = Asked()
        step = HistoryCurator(max_tokens=1_000, managers=(asked,))
        step.invoke(SAID, config)
        await step.ainvoke(SAID, config)
        assert asked.keys == [key, key]

    async def test_also_when_nobody_listens(self, monkeypatch: pytest.MonkeyPatch) -> None:
        keys, curate = [], Curator.curate

        def noting(self: Curator, *given: Any, **arguments: Any) -> Any:
            keys.append(arguments["key"])
            return curate(self, *given, **arguments)

        monkeypatch.setattr(Curator, "curate", noting)
        step = HistoryCurator(max_tokens=1_000)
        step.invoke(SAID, THREAD)
        await step.ainvoke(SAID, THREAD)

        def inside(said: Any) -> Any:
            return step.invoke(said)

        RunnableLambda(inside).invoke(SAID, THREAD)
        assert keys == [("t", "")] * 3

    def test_two_conversations_of_one_name_are_told_apart(self) -> None:
        step = HistoryCurator(max_tokens=200)
        first = [HumanMessage(f"first {n} " + "word " * 20) for n in range(40)]
        second = [HumanMessage(f"second {n} " + "word " * 20) for n in range(40)]
        for said in (first, second, first[:20], second):
            assert step.invoke(said, THREAD) == step.invoke(said)


class TestHistories:
    def test_the_session_of_the_store(self) -> None:
        asked = Asked()
        assert CuratedChatMessageHistory(Store("s"), asked, max_tokens=1_000).messages == SAID
        assert CuratedChatMessageHistory(Store(None), asked, max_tokens=1_000).messages == SAID
        assert asked.keys == ["s", None]


class TestGraphs:
    def test_an_agent_is_known_by_its_thread_and_one_inside_it_is_not(self) -> None:
        agents = pytest.importorskip("langchain.agents")
        from langchain_core.messages import AIMessage
        from langchain_core.tools import tool

        from langchain_history_curator import HistoryCuratorMiddleware

        outer, inner = Asked(), Asked()

        def agent(asked: Asked, tools: list[Any], answers: list[Any]) -> Any:
            middleware = HistoryCuratorMiddleware(asked, max_tokens=4_000)
            return agents.create_agent(answering(answers), tools, middleware=[middleware])

        @tool
        def delegate() -> str:
            """Ask somebody else."""
            helper = agent(inner, [], [AIMessage("done")])
            return str(helper.invoke({"messages": SAID})["messages"][-1].text)

        call = AIMessage("", tool_calls=[{"name": "delegate", "args": {}, "id": "c"}])
        agent(outer, [delegate], [call, AIMessage("ok")]).invoke({"messages": SAID}, THREAD)
        assert outer.keys == [("t", "model"), ("t", "model")]
        assert inner.keys == [None]

    async def test_nodes_are_told_apart(self) -> None:
        graphs = pytest.importorskip("langgraph.graph")
        from langchain_history_curator import model_node, pre_model_hook

        asked = Asked()
        graph = graphs.StateGraph(graphs.MessagesState)
        graph.add_node("ask", model_node(FakeListChatModel(responses=["ok"]), 1_000, asked))
        graph.add_node("hook", pre_model_hook(1_000, asked, key="messages"))
        graph.add_edge(graphs.START, "ask")
        graph.add_edge("ask", "hook")
        built = graph.compile()
        built.invoke({"messages": SAID}, THREAD)
        assert asked.keys == [("t", "ask"), ("t", "hook")]
        await built.ainvoke({"messages": SAID}, THREAD)
        assert asked.keys[2:] == asked.keys[:2]


class Store(BaseChatMessageHistory):
    def __init__(self, session_id: str | None) -> None:
        self.messages: list[BaseMessage] = list(SAID)
        if session_id is not None:
            self.session_id = session_id

    def add_messages(self, messages: Any) -> None:
        self.messages.extend(messages)

    def clear(self) -> None:
        self.messages.clear()


def answering(answers: list[Any]) -> Any:
    from langchain_core.language_models import GenericFakeChatModel

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

    return Model(messages=iter(answers))
