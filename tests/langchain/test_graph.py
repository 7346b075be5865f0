"""langgraph: the hook of the prebuilt agent and a node of a StateGraph."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("langgraph.prebuilt")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition

from history_curator.errors import ConversionError
from langchain_history_curator import model_node, pre_model_hook
from tests.langchain.factories import human
from tests.langchain.scripted import ScriptedModel, look

LIMITS: Any = {"recursion_limit": 1_000}
WINDOW = 8_000


def agent_of(model: ScriptedModel, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return create_react_agent(
            model,
            [look],
            prompt="You look things up.",
            pre_model_hook=pre_model_hook(WINDOW, reserve=20, tools=[look]),
            **settings,
        )


class TestHook:
    def test_a_long_loop_fits_and_the_state_is_complete(self) -> None:
        model = ScriptedModel(steps=50, window=WINDOW)
        state = agent_of(model).invoke({"messages": [HumanMessage("go")]}, LIMITS)
        assert max(model.costs) <= WINDOW
        assert len([m for m in state["messages"] if isinstance(m, ToolMessage)]) == 50
        assert state["messages"][-1].text == "done after 50"

    def test_the_view_is_empty_only_where_the_state_is(self) -> None:
        for said in ([AIMessage("only me")], [ToolMessage("r", tool_call_id="x")]):
            assert pre_model_hook(500).invoke({"messages": said})["llm_input_messages"]
        assert pre_model_hook(500).invoke({"messages": []}) == {"llm_input_messages": []}


class TestNode:
    def graph(self, model: ScriptedModel, node: Any, **settings: Any) -> Any:
        builder = StateGraph(MessagesState)
        builder.add_node("model", node)
        builder.add_node("tools", ToolNode([look]))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
        builder.add_edge("tools", "model")
        return builder.compile(**settings)

    def test_in_a_state_graph_with_a_checkpointer(self) -> None:
        model = ScriptedModel(steps=50, window=WINDOW)
        node = model_node(
            model.bind_tools([look]), WINDOW, prompt="You look things up.", tools=[look]
        )
        graph = self.graph(model, node, checkpointer=InMemorySaver())
        state = graph.invoke(
            {"messages": [HumanMessage("go")]}, {**LIMITS, "configurable": {"thread_id": "t"}}
        )
        assert max(model.costs) <= WINDOW
        assert len([m for m in state["messages"] if isinstance(m, ToolMessage)]) == 50
        assert model.views[0][0].text == "You look things up."

    def test_a_state_without_the_messages_says_where_it_looked(self) -> None:
        with pytest.raises(ConversionError, match=r"it has: 'chat'.*holds no messages"):
            model_node(ScriptedModel(), WINDOW).invoke({"chat": [human("hi")]})
