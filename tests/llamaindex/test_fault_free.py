"""Agents of every kind over real clients: no request is at fault, and the record is whole.

Each request is checked from its JSON: the provider's own rules, tokens counted independently, the
system prompt and the question.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent
from pydantic import BaseModel

from history_curator.tokens import get_counter
from llamaindex_history_curator import (
    CuratedAgentWorkflow,
    CuratedFunctionAgent,
    CuratedLLM,
    CuratedMemory,
    CuratedReActAgent,
)
from tests.llamaindex.factories import orphans
from tests.llamaindex.wires import NAMES, Request, Step, Wire

BUDGET = 3_000
STEPS = 12
SYSTEM = "You look at places."
QUESTION = "Look often, and say what was there."
COUNTER = get_counter("o200k_base")


def look(step: int) -> str:
    """Look at a place."""
    return f"step {step}: " + f"fact {step} " * 80


class Verdict(BaseModel):
    """What it all came to."""

    score: int


def looking(
    name: str,
    *,
    react: bool = False,
    steps: int = STEPS,
    thinks: bool = True,
    streams: bool = False,
) -> Wire:
    """An LLM that looks so often, then answers; it starts again for each new question."""
    options = {"additional_kwargs": {"stream_options": {"include_usage": True}}} if streams else {}
    wire = Wire(name, **options)

    def script(body: Request) -> Step:
        number = len(wire.requests)
        if "response_format" in body:
            return Step('{"score": 7}')
        step = number % (steps + 1)
        if not step:
            return Step("Thought: I know.\nAnswer: All was there." if react else "All was there.")
        if react:
            given = json.dumps({"step": step})
            return Step(f"Thought: I look.\nAction: look\nAction Input: {given}")
        ids = [f"{name}{id(wire)}x{number}x{part}" for part in range(3 if step % 4 == 3 else 1)]
        calls = tuple((each[-20:], "look", {"step": step}) for each in ids)
        return Step(calls=calls, thinks=thinks and name != "openai")

    wire.script = script
    return wire


def agent_of(wire: Wire, kind: Any = CuratedFunctionAgent, **settings: Any) -> Any:
    given = {"system_prompt": SYSTEM, "token_limit": BUDGET, "streaming": False, "tools": [look]}
    return kind(llm=wire.llm, **given | settings)


def texts(part: Any) -> Iterator[str]:
    """Every text in a piece of JSON."""
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, list):
        for value in part:
            yield from texts(value)
    elif isinstance(part, str):
        yield part


def check(wire: Wire, memory: Any, questions: Any = (QUESTION,), system: str = SYSTEM) -> None:
    """Check every request of an LLM, and the record that is left in the end."""
    assert wire.requests
    assert wire.refused == []
    for body in wire.requests:
        said = list(texts(body))
        assert sum(map(COUNTER.count, said)) <= BUDGET
        assert any(system in text for text in said)
        assert any(question in text for text in said for question in questions)
    record: list[ChatMessage] = memory.get_all()
    assert orphans(record) == []
    assert [m.content for m in record if m.role.value == "user"] == list(questions)
    whole = [str(m.content) for m in record if m.role.value == "tool" and "step" in str(m.content)]
    assert all(text.count("fact") == 80 for text in whole)


@pytest.mark.parametrize("name", NAMES)
async def test_every_provider_with_thinking_and_parallel_calls(name: str) -> None:
    wire, memory = looking(name, steps=30), CuratedMemory.from_defaults(token_limit=BUDGET)
    agent = agent_of(wire)
    for question in (QUESTION, "And now?"):
        answer = await agent.run(question, memory=memory, max_iterations=50)
        assert str(answer) == "All was there."
    check(wire, memory, (QUESTION, "And now?"))


@pytest.mark.parametrize("kind", ["function", "react", "stock over a curated LLM"])
async def test_every_kind_of_agent(kind: str) -> None:
    wire = looking("openai", react=kind == "react")
    memory = CuratedMemory.from_defaults(token_limit=BUDGET)
    agent = agent_of(wire, CuratedReActAgent if kind == "react" else CuratedFunctionAgent)
    if kind.startswith("stock"):
        llm = CuratedLLM(wire.llm, token_limit=BUDGET)
        agent = FunctionAgent(llm=llm, tools=[look], system_prompt=SYSTEM, streaming=False)
    await agent.run(QUESTION, memory=memory, max_iterations=50)
    assert len(wire.requests) == STEPS + 1
    check(wire, memory)


@pytest.mark.parametrize("kind", ["agent", "workflow"])
async def test_structured_answers(kind: str) -> None:
    wire, memory = looking("openai", steps=4), CuratedMemory.from_defaults(token_limit=30_000)
    agent = agent_of(wire, **({"output_cls": Verdict} if kind == "agent" else {}))
    runner = agent if kind == "agent" else AgentWorkflow(agents=[agent], output_cls=Verdict)
    questions = [f"{number}: {QUESTION}" for number in range(6)]
    for question in questions:
        answer = await runner.run(user_msg=question, memory=memory)
        assert answer.structured_response == {"score": 7}
        said = wire.last["messages"]
        assert "response_format" in wire.last
        assert [message["role"] for message in said] == ["system", "user"]
        assert f"<message>{question}</message>" in said[1]["content"]
        assert said[1]["content"].rstrip().endswith("according to the provided schema.")
    check(wire, memory, questions)


@pytest.mark.parametrize("kind", [AgentWorkflow, CuratedAgentWorkflow])
async def test_hand_offs(kind: Any) -> None:
    first, second = Wire("openai"), looking("anthropic")
    given = {"to_agent": "second", "reason": "yours"}
    first.script = lambda body: Step(calls=(("h1", "handoff", given),))
    agents = [
        agent_of(wire, name=name, description=name)
        for wire, name in ((first, "first"), (second, "second"))
    ]
    memory = CuratedMemory.from_defaults(token_limit=BUDGET)
    workflow = kind(agents=agents, root_agent="first")
    answer = await workflow.run(user_msg=QUESTION, memory=memory, max_iterations=50)
    assert str(answer) == "All was there."
    check(first, memory)
    check(second, memory)


async def test_interrupts_and_two_providers_in_turn() -> None:
    async def confirm(ctx: Context) -> str:
        """Ask a person."""
        event = InputRequiredEvent(prefix="may I?")
        return str((await ctx.wait_for_event(HumanResponseEvent, waiter_event=event)).response)

    confirm.__annotations__ = {"ctx": Context, "return": str}  # a tool needs the class itself
    memory = CuratedMemory.from_defaults(token_limit=BUDGET)
    wires = [looking("openai", steps=3), looking("anthropic", steps=3), looking("gemini", steps=3)]
    agents = [agent_of(wire, tools=[look, confirm]) for wire in wires]
    questions = [f"{turn}: {QUESTION}" for turn in range(9)]
    for turn, question in enumerate(questions):
        wire, agent = wires[turn % 3], agents[turn % 3]
        script, asked = wire.script, len(wire.requests)

        def ask_first(
            body: Request, wire: Wire = wire, turn: int = turn, asked: int = asked
        ) -> Step:
            if len(wire.requests) == asked + 1:
                calls = ((f"ask{turn:06d}", "confirm", {}),)
                return Step(calls=calls, thinks=wire.name != "openai")
            return script(body)  # noqa: B023

        wire.script = ask_first
        handler = agent.run(question, memory=memory, max_iterations=50)
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                handler.ctx.send_event(HumanResponseEvent(response="yes"))
        await handler
        wire.script = script
    for wire in wires:
        check(wire, memory, questions)


@pytest.mark.parametrize("kind", ["function", "react"])
async def test_streams(kind: str) -> None:
    wire = looking("openai", react=kind == "react", streams=True)
    memory = CuratedMemory.from_defaults(token_limit=BUDGET)
    agent_kind = CuratedReActAgent if kind == "react" else CuratedFunctionAgent
    agent = agent_of(wire, agent_kind, streaming=True)
    handler = agent.run(QUESTION, memory=memory, max_iterations=50)
    deltas = [getattr(event, "delta", "") async for event in handler.stream_events()]
    assert str(await handler) == "All was there."
    assert "All was there." in "".join(deltas)
    assert all(body["stream"] for body in wire.requests)
    check(wire, memory)
