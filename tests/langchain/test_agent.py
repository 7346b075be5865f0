"""Real `create_agent` runs with a model that refuses what a provider refuses."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain.agents")


from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import Field

from history_curator.curator import load_settings
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.managers import ToolResultTruncator
from history_curator.tokens import count_tokens
from langchain_history_curator import HistoryCuratorMiddleware
from tests.langchain.scripted import ScriptedModel, look, shape

WINDOW = 16_000
STEPS = 60
LIMITS: Any = {"recursion_limit": 10 * STEPS}
PROMPT = "You look things up, step by step."


def agent_of(model: ScriptedModel, **settings: Any) -> Any:
    middleware = [HistoryCuratorMiddleware(max_tokens=WINDOW)]
    return create_agent(model, [look], system_prompt=PROMPT, middleware=middleware, **settings)


def model_of(**fields: Any) -> ScriptedModel:
    return ScriptedModel(
        steps=STEPS, window=WINDOW, calls_per_step=lambda s: 3 if s % 25 == 3 else 1, **fields
    )


QUESTION = {"messages": [HumanMessage("Look things up.", id="q")]}


@pytest.fixture(scope="module")
def long_run() -> tuple[ScriptedModel, list[Any]]:
    model = model_of()
    state = agent_of(model).invoke(QUESTION, LIMITS)
    return model, state["messages"]


class TestLongToolLoop:
    async def test_async_gives_the_same_views(self, long_run: Any) -> None:
        model = model_of()
        state = await agent_of(model).ainvoke(QUESTION, LIMITS)
        assert [shape(view) for view in model.views] == [shape(v) for v in long_run[0].views]
        assert shape(state["messages"]) == shape(long_run[1])

    def test_a_restart_in_the_middle_gives_the_same_views(
        self, long_run: Any, tmp_path: Path
    ) -> None:
        sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
        thread: Any = {**LIMITS, "configurable": {"thread_id": "t"}}
        views = []
        for crash_at, question in ((37, QUESTION), (None, None)):
            connection = sqlite3.connect(tmp_path / "agent.db", check_same_thread=False)
            model = model_of(crash_at=crash_at)
            agent = agent_of(model, checkpointer=sqlite.SqliteSaver(connection))
            if crash_at is not None:
                with pytest.raises(ConnectionError):
                    agent.invoke(question, thread, durability="exit")
                views += model.views[:-1]
            else:
                state = agent.invoke(question, thread, durability="exit")
                views += model.views
            connection.close()
        assert [shape(view) for view in views] == [shape(v) for v in long_run[0].views]
        assert shape(state["messages"]) == shape(long_run[1])


class TestAgent:
    def test_tools_and_system_prompt_count(self) -> None:
        model = ScriptedModel(steps=0)
        agent = create_agent(
            model,
            [look],
            system_prompt="word " * 200,
            middleware=[HistoryCuratorMiddleware(max_tokens=150)],
        )
        with pytest.raises(BudgetUnsatisfiableError) as caught:
            agent.invoke({"messages": [HumanMessage("hi")]})
        assert caught.value.needed > 200
        assert caught.value.overhead > 30

    def test_budget_comes_from_the_model(self) -> None:
        model = ScriptedModel(
            steps=40, profile={"max_input_tokens": 8_000, "max_output_tokens": 1_000}
        )
        agent = create_agent(model, [look], middleware=[HistoryCuratorMiddleware()])
        state = agent.invoke({"messages": [HumanMessage("go")]}, LIMITS)
        assert max(model.costs) <= 6_600 < count_tokens(state["messages"])

    def test_a_cancelled_runs_dangling_call_is_answered_in_the_view(self) -> None:
        model = ScriptedModel(steps=0)
        asked = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "x"}])
        agent = agent_of(model)
        state = agent.invoke(
            {"messages": [HumanMessage("go"), asked, HumanMessage("never mind, hello")]}
        )
        result = next(m for m in model.views[0] if isinstance(m, ToolMessage))
        assert (result.tool_call_id, result.status) == ("x", "error")
        assert not any(isinstance(m, ToolMessage) for m in state["messages"])


class TestRecall:
    def test_the_agent_gets_back_what_its_view_cleared(self) -> None:
        class Curious(ScriptedModel):
            answers: list[str] = Field(default_factory=list)

            def _next(self, messages: Any) -> AIMessage:
                if isinstance(messages[-1], ToolMessage) and messages[-1].name == "recall":
                    self.answers.append(messages[-1].text)
                    return AIMessage("done")
                text = "\n".join(message.text for message in messages)
                found = re.search(r'recall\(handle="([^"]+)"', text)
                if found is None:
                    return super()._next(messages)
                call = {"name": "recall", "args": {"handle": found[1]}, "id": "r1"}
                return AIMessage("", tool_calls=[call])

        model = Curious(steps=60)
        agent = create_agent(
            model, [look], middleware=[HistoryCuratorMiddleware(max_tokens=6_000, recall_tool=True)]
        )
        state = agent.invoke({"messages": [HumanMessage("go")]}, LIMITS)
        assert model.answers, "no placeholder with a handle was ever shown"
        assert "step" in model.answers[0]
        assert not model.answers[0].startswith("Refused")
        assert state["messages"][-1].text == "done"


class TestSettings:
    def test_from_a_configuration(self) -> None:
        config = {
            "managers": [{"tool_result_truncator": {"max_tokens": 30}}],
            "max_tokens": 4_000,
            "reasoning": "keep",
        }
        settings = load_settings(config, overrides={"max_tokens": WINDOW})
        ours = HistoryCuratorMiddleware(*settings.pop("managers"), **settings)
        assert ours.max_tokens == WINDOW
        assert isinstance(ours.curator_for(model_of()).managers[0], ToolResultTruncator)
