"""Agents: every model call of a running tool loop is curated, nothing of the run is lost."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context

from history_curator import BudgetUnsatisfiableError
from llamaindex_history_curator import (
    CuratedAgentWorkflow,
    CuratedFunctionAgent,
    CuratedMemory,
    CuratedReActAgent,
)
from tests.llamaindex.factories import assistant, call, dumped, orphans, roles, system, texts
from tests.llamaindex.models import RecordingLLM, act, cost, problems

LIMIT = 16_000
STEPS = 80
SIZES = (10, 300, 2_000, 20_000)
KINDS: dict[str, Any] = {"function": CuratedFunctionAgent, "react": CuratedReActAgent}
STREAMING = pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "whole"])


def lookup(n: int) -> str:
    """Look something up."""
    return f"result {n}: " + " ".join(["word"] * (SIZES[n % len(SIZES)] - 10))


def look(n: int = 0) -> str:
    """Return a little."""
    return f"small {n} " * 40


def looking(kind: str, steps: int, name: str = "lookup") -> RecordingLLM:
    """Calls the tool so often, in the words of its agent, then answers."""
    return RecordingLLM(
        lambda number, _: act(kind, number, name, n=number) if number < steps else act(kind)
    )


def agent_of(kind: str, llm: RecordingLLM, **options: Any) -> Any:
    return KINDS[kind](llm=llm, **{"token_limit": LIMIT, "tools": [lookup], **options})


@STREAMING
@pytest.mark.parametrize("kind", KINDS)
async def test_eighty_steps_stay_within_the_budget(kind: str, streaming: bool) -> None:
    llm, memory = looking(kind, STEPS), CuratedMemory.from_defaults(token_limit=LIMIT)
    agent = agent_of(kind, llm, streaming=streaming, system_prompt="be brief")
    answer = await agent.run("what is it?", memory=memory, max_iterations=STEPS + 5)
    assert str(answer) == "done"
    assert len(llm.sent) == STEPS + 1
    assert max(llm.costs) <= LIMIT
    for sent in llm.sent:
        assert problems(sent) == []
        assert orphans(sent) == []
        assert "be brief" in str(sent[0].content)
        assert "what is it?" in texts(sent)
    record, last = memory.get_all(), llm.sent[-1]
    if kind == "function":
        assert f"result {STEPS - 2}" in str(last[-3].content)
        assert roles(record) == ["user", *["assistant", "tool"] * STEPS, "assistant"]
        assert texts(record)[2:-1:2] == list(map(lookup, range(STEPS)))
        return
    assert str(last[-1].content).startswith(f"Observation: result {STEPS - 1}")
    for sent in llm.sent:
        assert set(roles(sent[1:])) <= {"user", "assistant"}
        assert not any(isinstance(b, ToolCallBlock) for m in sent for b in m.blocks)
    # ReAct keeps a run as one message, with every observation in full.
    assert roles(record) == ["user", "assistant"]
    assert all(lookup(number) in str(record[1].content) for number in range(STEPS))


async def test_the_cutoff_stays_put_for_many_calls() -> None:
    llm = looking("function", 120, "look")
    await agent_of("function", llm, tools=[look]).run("what?", max_iterations=130)
    kept = sum(
        dumped(before) == dumped(after[: len(before)])
        for before, after in zip(llm.sent, llm.sent[1:], strict=False)
    )
    assert kept >= 100


async def test_what_cannot_fit_is_refused_and_the_scratchpad_survives() -> None:
    agent = agent_of("function", RecordingLLM(), token_limit=200)
    context = Context(agent)
    pad = [call("c1", name="lookup"), assistant("kept")]
    await context.store.set("scratchpad", pad)
    with pytest.raises(BudgetUnsatisfiableError, match="Fix"):
        await agent.run("big " * 500, ctx=context)
    assert dumped(await context.store.get("scratchpad")) == dumped(pad)


async def test_tools_count_against_the_budget() -> None:
    tool = FunctionTool.from_defaults(lookup, description="Look something up. " * 100)
    llm = looking("function", 10)
    await agent_of("function", llm, tools=[tool], token_limit=4_000).run("go")
    assert max(llm.costs) <= 4_000
    assert max(map(cost, llm.sent)) < 3_700


class TestReAct:
    async def test_a_system_message_from_memory_is_kept(self) -> None:
        llm = looking("react", 2)
        memory = CuratedMemory.from_defaults([system("speak Latin")], token_limit=LIMIT)
        await agent_of("react", llm).run("go", memory=memory)
        assert all("speak Latin" in str(sent[0].content) for sent in llm.sent)
        assert all(roles(sent).count("system") == 1 for sent in llm.sent)

    async def test_a_failed_parse_is_retried_with_a_valid_history(self) -> None:
        llm = RecordingLLM(lambda number, _: act("react") if number else assistant(""))
        await agent_of("react", llm).run("go")
        assert [problems(sent) for sent in llm.sent] == [[], []]


@pytest.mark.parametrize("kind", KINDS)
async def test_saved_and_restored_in_the_middle_gives_the_same_views(kind: str) -> None:
    async def go(saves: bool) -> list[str]:
        llm = looking(kind, 40)
        agent = agent_of(kind, llm)
        context = Context(agent)
        with pytest.raises(Exception, match="Max iterations"):
            await agent.run("start", ctx=context, max_iterations=15)
        await context.store.set("max_iterations", 60)
        if saves:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                saved = json.loads(json.dumps(context.to_dict()))
                context = Context.from_dict(agent, saved)
        await agent.run("again", ctx=context, max_iterations=60)
        assert len(llm.sent) == 41
        return list(map(dumped, llm.sent))

    assert await go(saves=True) == await go(saves=False)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cleared_result_comes_back_by_its_handle(kind: str) -> None:
    answers: list[str] = []
    steps = 24

    def answer(number: int, messages: Sequence[ChatMessage]) -> ChatMessage:
        if number < steps:
            return act(kind, number, "lookup", n=number * 2)
        if number > steps:
            answers.append(str(messages[-1].content))
            return act(kind)
        text = next(str(m.content) for m in messages if 'recall(handle="' in str(m.content))
        handle = text.split('recall(handle="')[1].split('"')[0]
        return act(kind, number, "recall", handle=handle)

    agent = agent_of(kind, RecordingLLM(answer), recall_tool=True)
    await agent.run("go", max_iterations=steps + 5)
    assert "result " in answers[0]
    assert "Refused" not in answers[0]


class TestState:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_every_step_sees_it_and_the_record_does_not(self, kind: str) -> None:
        llm, memory = looking(kind, 5, "look"), CuratedMemory.from_defaults(token_limit=LIMIT)
        agent = agent_of(kind, llm, tools=[look], initial_state={"mood": "fine"})
        await agent.run("hello", memory=memory)
        assert len(llm.sent) == 6
        for sent in llm.sent:
            assert [str(one.content) for one in sent if "'mood': 'fine'" in str(one.content)]
        assert memory.get_all()[0].content == "hello"

    @pytest.mark.parametrize("kind", [AgentWorkflow, CuratedAgentWorkflow])
    async def test_also_after_a_hand_off(self, kind: Any) -> None:
        given = {"to_agent": "second", "reason": "yours"}
        models = {
            "first": RecordingLLM(lambda *_: call("h", name="handoff", **given)),
            "second": looking("function", 3, "look"),
        }
        agents = [
            agent_of("function", llm, name=name, description=name, tools=[look])
            for name, llm in models.items()
        ]
        prompt = "STATE {state} ASKED {msg}"
        state: Any = {"initial_state": {"mood": "fine"}, "state_prompt": prompt}
        workflow = kind(agents=agents, root_agent="first", **state)
        context = Context(workflow)
        await workflow.run(user_msg="hello", ctx=context)
        sent = [*models["first"].sent, *models["second"].sent]
        assert len(sent) == 5
        assert all("STATE {'mood': 'fine'} ASKED hello" in texts(messages) for messages in sent)
        if kind is CuratedAgentWorkflow:
            memory = await context.store.get("memory")
            assert memory.get_all()[0].content == "hello"


async def test_the_memory_that_nobody_passed_is_a_curated_one() -> None:
    llm = looking("function", 3, "look")
    workflow = CuratedAgentWorkflow(agents=[agent_of("function", llm, tools=[look])])
    context = Context(workflow)
    for question in ("first", "second"):
        await workflow.run(user_msg=question, ctx=context)
    memory = await context.store.get("memory")
    assert isinstance(memory, CuratedMemory)
    assert memory.to_dict()["lost"] == []
    steps = ["user", *["assistant", "tool"] * 3, "assistant"]
    assert roles(memory.get_all()) == [*steps, "user", "assistant"]
    restored = Context.from_dict(workflow, context.to_dict())
    await workflow.run(user_msg="third", ctx=restored)
    assert texts(llm.sent[-1])[0] == "first"
