"""Runs of agents over one memory: contexts used again, eight at once, the most iterations."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.workflow import Context, StartEvent, StopEvent, Workflow, step

from llamaindex_history_curator import CuratedAgentWorkflow, CuratedFunctionAgent, CuratedMemory
from tests.llamaindex.factories import assistant, call, roles, texts, user
from tests.llamaindex.models import RecordingLLM, problems

LIMIT = 3_000


def look(n: int) -> str:
    """Look something up."""
    return "found " * 1_000


def stock_agent(llm: Any = None, **options: Any) -> Any:
    return FunctionAgent(llm=llm or RecordingLLM(), **options)


def curated_agent(llm: Any = None, **options: Any) -> Any:
    return CuratedFunctionAgent(llm=llm or RecordingLLM(), **options)


def stock_workflow(llm: Any = None, tools: Any = (), **options: Any) -> Any:
    return AgentWorkflow(agents=[curated_agent(llm, tools=[*tools])], **options)


def curated_workflow(llm: Any = None, tools: Any = (), **options: Any) -> Any:
    return CuratedAgentWorkflow(agents=[curated_agent(llm, tools=[*tools])], **options)


RUNNERS = pytest.mark.parametrize(
    "make", [stock_agent, curated_agent, stock_workflow, curated_workflow]
)


class TestAContextThatIsUsedAgain:
    @RUNNERS
    @pytest.mark.parametrize("passed", ["each time", "once"])
    async def test_the_record_grows_with_every_run(self, make: Any, passed: str) -> None:
        runner, memory = make(), CuratedMemory.from_defaults(token_limit=9_000)
        context, sizes = Context(runner), []
        for question in ("first", "second", "third"):
            given = {"memory": memory} if passed == "each time" or not sizes else {}
            await runner.run(user_msg=question, ctx=context, **given)
            sizes.append(len(memory.get_all()))
        assert sizes == [2, 4, 6]
        assert texts(memory.get_all())[::2] == ["first", "second", "third"]

    async def test_a_memory_in_the_store_of_a_workflow_is_the_same_memory(self) -> None:
        class Keeper(Workflow):
            @step
            async def keep(self, ctx: Context, ev: StartEvent) -> StopEvent:
                memory = await ctx.store.get("memory", default=None)
                if memory is None:
                    memory = CuratedMemory.from_defaults(token_limit=9_000)
                    await ctx.store.set("memory", memory)
                await memory.aput(user(ev.text))
                return StopEvent(result=memory)

        keeper = Keeper()
        context = Context(keeper)
        memories = [await keeper.run(ctx=context, text=str(number)) for number in range(3)]
        assert texts(memories[0].get_all()) == ["0", "1", "2"]


class TestEightRunsAtOnce:
    @pytest.mark.parametrize("kind", [FunctionAgent, CuratedFunctionAgent])
    @pytest.mark.parametrize("store", [SimpleChatStore, lambda: SQLAlchemyChatStore("chats")])
    async def test_the_question_of_a_run_is_the_last_one_in_its_requests(
        self, kind: Any, store: Any
    ) -> None:
        def script(run: int, number: int) -> Any:
            return call(f"{run}c{number}", name="look", n=1) if number < 3 else assistant("done")

        models = [RecordingLLM(lambda n, _, run=run: script(run, n)) for run in range(8)]
        agents = [kind(llm=llm, tools=[look], streaming=False) for llm in models]
        memory = CuratedMemory.from_defaults(token_limit=30_000, chat_store=store())
        runs = (
            agent.run(f"question {number}", memory=memory) for number, agent in enumerate(agents)
        )
        await asyncio.gather(*runs)
        for number, llm in enumerate(models):
            asked = [[one.content for one in sent if one.role == "user"] for sent in llm.sent]
            assert [questions[-1] for questions in asked] == [f"question {number}"] * 4
            assert [problems(sent) for sent in llm.sent] == [[]] * 4
        assert len(memory.get_all()) == 8 * (1 + 3 * 2 + 1)

    async def test_a_question_that_was_answered_stays_where_it_is(self) -> None:
        memory = CuratedMemory.from_defaults(token_limit=9_000)
        await memory.aput_messages([user("and?"), assistant("1"), user("so?"), assistant("2")])
        assert texts(await memory.aget(input="and?")) == ["and?", "1", "so?", "2"]


@pytest.mark.parametrize("make", [curated_agent, stock_workflow, curated_workflow])
@pytest.mark.parametrize("generates", [False, True])
async def test_a_run_that_reaches_its_iterations_keeps_its_steps(
    make: Any, generates: bool
) -> None:
    llm = RecordingLLM(
        lambda number, _: call(f"c{number}", name="look", n=1) if number < 4 else assistant("so")
    )
    method = {"early_stopping_method": "generate"} if generates else {}
    runner = make(llm, tools=[look], **method)
    memory, context = CuratedMemory.from_defaults(token_limit=30_000), Context(runner)
    running = runner.run(user_msg="go", memory=memory, ctx=context, max_iterations=4)
    ending = ["assistant", "assistant"]
    if generates:
        assert str(await running) == "so"
        assert "found" in str(llm.sent[-1])
    else:
        with pytest.raises(Exception, match="Max iterations"):
            await running
        ending = ["assistant"]
    assert roles(memory.get_all()) == ["user", *["assistant", "tool"] * 3, *ending]
    assert await context.store.get("scratchpad") == []
