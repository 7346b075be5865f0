"""Several agents: the state at every step, the memory nobody asked for, code that is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.workflow import Context

from llamaindex_history_curator import (
    CuratedAgentWorkflow,
    CuratedFunctionAgent,
    CuratedMemory,
    CuratedReActAgent,
)
from tests.llamaindex.factories import assistant, call, roles, texts
from tests.llamaindex.models import RecordingLLM

LIMIT = 9_000
WORKFLOWS = [AgentWorkflow, CuratedAgentWorkflow]


def look(n: int) -> str:
    """Look something up."""
    return f"found {n} " * 20


def caller(steps: int) -> RecordingLLM:
    return RecordingLLM(
        lambda number, messages: (
            call(f"c{number}", name="look", n=number) if number < steps else assistant("done")
        )
    )


def reasoner(steps: int) -> RecordingLLM:
    return RecordingLLM(
        lambda number, messages: assistant(
            f'Thought: hm.\nAction: look\nAction Input: {{"n": {number}}}'
            if number < steps
            else "Thought: I know.\nAnswer: done"
        )
    )


KINDS = {"function": (CuratedFunctionAgent, caller), "react": (CuratedReActAgent, reasoner)}


class TestState:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_every_step_sees_it_and_the_record_does_not(self, kind: str) -> None:
        make, script = KINDS[kind]
        llm = script(5)
        agent = make(llm=llm, tools=[look], token_limit=LIMIT, initial_state={"mood": "fine"})
        memory = CuratedMemory.from_defaults(token_limit=LIMIT)
        await agent.run("hello", memory=memory)
        assert len(llm.sent) == 6
        for sent in llm.sent:
            assert [str(one.content) for one in sent if "'mood': 'fine'" in str(one.content)]
        assert memory.get_all()[0].content == "hello"

    async def test_what_was_sent_stays_when_a_tool_changes_it(self) -> None:
        async def cheer(ctx: Context) -> str:
            """Cheer up."""
            await ctx.store.set("state", {"mood": "better"})
            return "cheered"

        cheer.__annotations__["ctx"] = Context
        llm = RecordingLLM(
            lambda number, messages: (
                call(f"c{number}", name="cheer") if number == 0 else assistant("done")
            )
        )
        agent = CuratedFunctionAgent(
            llm=llm, tools=[cheer], token_limit=LIMIT, initial_state={"mood": "low"}
        )
        context = Context(agent)
        await agent.run("one", ctx=context)
        await agent.run("two", ctx=context)
        assert llm.sent[0][0].content == llm.sent[1][0].content
        assert "better" in str(llm.sent[2][-1].content)

    @pytest.mark.parametrize("kind", WORKFLOWS)
    async def test_also_after_a_hand_off(self, kind: Any) -> None:
        def first(number: int, messages: Sequence[ChatMessage]) -> ChatMessage:
            return call("h", name="handoff", to_agent="second", reason="yours")

        models = RecordingLLM(first), caller(3)
        agents = [
            CuratedFunctionAgent(
                name=name, description=name, llm=llm, tools=[look], token_limit=LIMIT
            )
            for name, llm in zip(("first", "second"), models, strict=True)
        ]
        workflow = kind(
            agents=agents,
            root_agent="first",
            initial_state={"mood": "fine"},
            state_prompt="STATE {state} ASKED {msg}",
        )
        context = Context(workflow)
        await workflow.run(user_msg="hello", ctx=context)
        sent = [*models[0].sent, *models[1].sent]
        assert len(sent) == 5
        for messages in sent:
            assert "STATE {'mood': 'fine'} ASKED hello" in texts(messages)
        if kind is CuratedAgentWorkflow:
            memory = await context.store.get("memory")
            assert memory.get_all()[0].content == "hello"


class TestTheMemoryNobodyAskedFor:
    async def test_it_is_a_curated_one(self) -> None:
        llm = caller(3)
        agent = CuratedFunctionAgent(llm=llm, tools=[look], token_limit=LIMIT)
        workflow = CuratedAgentWorkflow(agents=[agent])
        context = Context(workflow)
        for question in ("first", "second"):
            await workflow.run(user_msg=question, ctx=context)
        memory = await context.store.get("memory")
        assert isinstance(memory, CuratedMemory)
        assert roles(memory.get_all()) == ["user", *["assistant", "tool"] * 3, "assistant", "user",
                                           "assistant"]  # fmt: skip
        restored = Context.from_dict(workflow, context.to_dict())
        await workflow.run(user_msg="third", ctx=restored)
        assert texts(llm.sent[-1])[0] == "first"
