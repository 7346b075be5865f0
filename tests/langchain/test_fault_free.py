"""Agents of every kind over real clients: no request is at fault, and the record is whole.

Each request is checked from its JSON: the provider's own rules, tokens counted independently, the
system prompt and the question. Each state is checked for every call and its result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel, Field

from history_curator.tokens import get_counter
from langchain_history_curator import HistoryCuratorMiddleware, fold_back, handoff_view
from tests.langchain import wires
from tests.langchain.wires import Request, Step, Wire

pytest.importorskip("langchain.agents")

from langchain.agents import create_agent, middleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain.tools import ToolRuntime
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

BUDGET = 3_000
STEPS = 12
SYSTEM = "You look at places."
QUESTION = "Look often, and say what was there."
ASKED: dict[str, list[BaseMessage]] = {"messages": [HumanMessage(QUESTION)]}
LIMITS: Any = {"recursion_limit": 500, "configurable": {"thread_id": "t"}}


@tool
def look(step: int) -> str:
    """Look at a place."""
    return f"step {step}: " + f"fact {step} " * 80


class Verdict(BaseModel):
    """What it all came to."""

    steps: int = Field(description="How many. " + "In all, and of every kind. " * 60)


def looking(name: str, last: Step | None = None, steps: int = STEPS, **settings: Any) -> Wire:
    """A model that looks so often, then answers; it starts again for each new question."""
    wire = Wire(name, **settings)
    made = {"requests": 0}

    def script(body: Request) -> Step:
        made["requests"] += 1
        step = made["requests"] % (steps + 1)
        if not step:
            return last or Step(text="All was there.")
        ids = [f"{name}{made['requests']}x{part}" for part in range(3 if step % 4 == 3 else 1)]
        calls = tuple((each, "look", {"step": step}) for each in ids)
        return Step(calls=calls, thinks=name != "openai")

    wire.script = script
    return wire


def agent_of(wire: Wire, *others: Any, tools: Any = (look,), **settings: Any) -> Any:
    ours = HistoryCuratorMiddleware(max_tokens=BUDGET, counter="o200k_base")
    given = {"system_prompt": SYSTEM, "middleware": [*others, ours], **settings}
    return create_agent(wire.model, list(tools), **given)


def texts(part: Any) -> Iterator[str]:
    """Every text in a piece of JSON."""
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list):
        for value in part:
            yield from texts(value)
    elif isinstance(part, str):
        yield part


def check(wire: Wire, messages: list[BaseMessage], question: str = QUESTION) -> None:
    """Check every request of a model, and the record that is left in the end."""
    assert wire.requests
    assert not wire.refused
    for body in wire.requests:
        said = list(texts(body))
        assert sum(map(get_counter("o200k_base").count, said)) <= BUDGET
        assert any(SYSTEM in text for text in said)
        assert any(question in text for text in said)
    calls = [call["id"] for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
    results = [m for m in messages if isinstance(m, ToolMessage)]
    assert [result.tool_call_id for result in results] == calls
    assert len(set(calls)) == len(calls)
    whole = [result.text for result in results if result.name == "look"]
    assert all(text.count("fact") == 80 for text in whole)


NAMES = pytest.mark.parametrize("name", ["openai", "anthropic"])


@NAMES
@pytest.mark.parametrize(
    "other",
    [
        middleware.TodoListMiddleware(),
        middleware.ToolCallLimitMiddleware(run_limit=100),
        middleware.ModelCallLimitMiddleware(run_limit=100),
        middleware.PIIMiddleware("email"),
        middleware.ToolRetryMiddleware(),
        middleware.ModelRetryMiddleware(),
        middleware.ContextEditingMiddleware(
            edits=[middleware.ClearToolUsesEdit(trigger=1_500, keep=3)]
        ),
    ],
    ids=lambda other: type(other).__name__,
)
def test_beside_each_of_langchains_own_middleware(name: str, other: Any) -> None:
    wire = looking(name)
    messages = agent_of(wire, other).invoke(ASKED, LIMITS)["messages"]
    check(wire, messages)
    assert messages[-1].text == "All was there."


@pytest.mark.parametrize("name", ["responses", "gemini", "bedrock"])
def test_other_providers_with_thinking_and_parallel_calls(name: str) -> None:
    wire = looking(name)
    check(wire, agent_of(wire).invoke(ASKED, LIMITS)["messages"])
    assert len(wire.requests) == STEPS + 1


@pytest.mark.parametrize("name", wires.NAMES)
@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
def test_structured_answers(name: str, strategy: Any) -> None:
    as_tool = strategy is ToolStrategy
    last = Step(calls=(("v1", "Verdict", {"steps": 1}),)) if as_tool else Step('{"steps": 1}')
    wire = looking(name, last)
    state = agent_of(wire, response_format=strategy(Verdict)).invoke(ASKED, LIMITS)
    check(wire, state["messages"])
    assert state["structured_response"] == Verdict(steps=1)
    assert any("and of every kind." in text for text in texts(wire.last))


@NAMES
def test_interrupts(name: str) -> None:
    wire = looking(name)
    human = middleware.HumanInTheLoopMiddleware(interrupt_on={"look": True})
    agent = agent_of(wire, human, checkpointer=InMemorySaver())
    state, approvals = agent.invoke(ASKED, LIMITS), 0
    while "__interrupt__" in state:
        asked = len(state["__interrupt__"][0].value["action_requests"])
        decisions = [{"type": "approve"}] * asked
        state = agent.invoke(Command(resume={"decisions": decisions}), LIMITS)
        approvals += 1
    check(wire, state["messages"])
    assert approvals == STEPS


@NAMES
@pytest.mark.parametrize("mode", ["fresh", "fork"])
def test_hand_offs(name: str, mode: Any) -> None:
    inner = looking(name, Step(text="The Albatross."))
    worker = agent_of(inner)

    @tool
    def research(task: str, runtime: ToolRuntime) -> ToolMessage:
        """Hand a task to the researcher."""
        view = handoff_view(runtime.state, task, mode=mode, max_tokens=BUDGET)
        done = worker.invoke({"messages": view}, {"recursion_limit": 500})["messages"]
        return fold_back(done[len(view) - 1 :], runtime.tool_call_id or "", name="research")

    outer = Wire(name)
    outer.script = lambda body: (
        Step(calls=((f"h{len(outer.requests)}", "research", {"task": "Find boats."}),))
        if len(outer.requests) < 3
        else Step(text="Take the Albatross.")
    )
    messages = agent_of(outer, tools=[research]).invoke(ASKED, LIMITS)["messages"]
    check(outer, messages)
    check(inner, [], "Find boats.")
    assert messages[-1].text == "Take the Albatross."


@NAMES
@pytest.mark.parametrize("mode", ["values", "updates", "messages", "custom", "debug"])
def test_streams(name: str, mode: Any) -> None:
    wire = looking(name, disable_streaming=True)  # the transport answers whole
    agent = agent_of(wire, checkpointer=InMemorySaver())
    chunks = list(agent.stream(ASKED, LIMITS, stream_mode=mode))
    assert len(chunks) > STEPS
    check(wire, agent.get_state(LIMITS).values["messages"])


def test_two_providers_in_turn_and_as_each_others_fallback() -> None:
    saver, wires = InMemorySaver(), [looking("openai", steps=4), looking("anthropic", steps=4)]
    for turn in range(6):
        question = f"{QUESTION} ({turn})"
        wire, other = wires[turn % 2], wires[1 - turn % 2]
        fallback = middleware.ModelFallbackMiddleware(other.model)
        agent = agent_of(wire, fallback, checkpointer=saver)
        state = agent.invoke({"messages": [HumanMessage(question)]}, LIMITS)
        check(wire, state["messages"], question)
        assert not other.requests
        wire.requests = []
    assert sum(message.type == "ai" for message in state["messages"]) == 6 * 5
