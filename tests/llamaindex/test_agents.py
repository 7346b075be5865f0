"""Agents: every model call of a running tool loop is curated, nothing of the run is lost."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context

from history_curator import BudgetUnsatisfiableError
from llamaindex_history_curator import CuratedFunctionAgent, CuratedMemory, CuratedReActAgent
from tests.llamaindex.factories import assistant, call, dumped, orphans, roles, system, texts
from tests.llamaindex.models import RecordingLLM, cost, problems

LIMIT = 16_000
STEPS = 80
SIZES = (10, 300, 2_000, 20_000)


def lookup(n: int) -> str:
    """Look something up."""
    words = SIZES[n % len(SIZES)] - 10
    return f"result {n}: " + " ".join(["word"] * words)


def caller(steps: int) -> RecordingLLM:
    """Calls the tool `steps` times, then answers."""

    def answer(number: int, messages: Sequence[ChatMessage]) -> ChatMessage:
        if number < steps:
            return call(f"c{number}", name="lookup", n=number)
        return assistant("done")

    return RecordingLLM(answer)


def reasoner(steps: int) -> RecordingLLM:
    """The same in ReAct's words."""

    def answer(number: int, messages: Sequence[ChatMessage]) -> ChatMessage:
        if number < steps:
            return assistant(
                f"Thought: I look.\nAction: lookup\nAction Input: {json.dumps({'n': number})}"
            )
        return assistant("Thought: I know.\nAnswer: done")

    return RecordingLLM(answer)


def function_agent(llm: RecordingLLM, **options: Any) -> CuratedFunctionAgent:
    settings = {"token_limit": LIMIT, "tools": [lookup], "system_prompt": "be brief", **options}
    return CuratedFunctionAgent(llm=llm, **settings)


def react_agent(llm: RecordingLLM, **options: Any) -> CuratedReActAgent:
    return CuratedReActAgent(llm=llm, **{"token_limit": LIMIT, "tools": [lookup], **options})


class TestFunctionAgent:
    @pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "whole"])
    async def test_eighty_steps_stay_within_the_budget(self, streaming: bool) -> None:
        llm = caller(STEPS)
        memory = CuratedMemory.from_defaults(token_limit=LIMIT)
        agent = function_agent(llm, streaming=streaming)
        answer = await agent.run("what is it?", memory=memory, max_iterations=STEPS + 5)
        assert str(answer) == "done"
        assert len(llm.sent) == STEPS + 1
        assert max(llm.costs) <= LIMIT
        for sent in llm.sent:
            assert problems(sent) == []
            assert orphans(sent) == []
            assert sent[0].content == "be brief"
            assert "what is it?" in texts(sent)
        # The last results reach the model, and the whole run reaches the record.
        assert f"result {STEPS - 2}" in str(llm.sent[-1][-3].content)
        record = memory.get_all()
        assert roles(record) == ["user", *["assistant", "tool"] * STEPS, "assistant"]
        assert [message.content for message in record[2:-1:2]] == [
            lookup(number) for number in range(STEPS)
        ]

    async def test_the_cutoff_stays_put_for_many_calls(self) -> None:
        llm = caller(120)
        agent = function_agent(llm, tools=[FunctionTool.from_defaults(_small, name="lookup")])
        await agent.run("what?", max_iterations=130)
        kept = sum(
            dumped(before) == dumped(after[: len(before)])
            for before, after in zip(llm.sent, llm.sent[1:], strict=False)
        )
        assert kept >= 100

    async def test_what_cannot_fit_is_refused_and_the_scratchpad_survives(self) -> None:
        agent = function_agent(RecordingLLM(), token_limit=200)
        context = Context(agent)
        pad = [call("c1", name="lookup"), assistant("kept")]
        await context.store.set("scratchpad", pad)
        with pytest.raises(BudgetUnsatisfiableError, match="Fix"):
            await agent.run("big " * 500, ctx=context)
        assert dumped(await context.store.get("scratchpad")) == dumped(pad)


class TestReActAgent:
    @pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "whole"])
    async def test_eighty_steps_stay_within_the_budget(self, streaming: bool) -> None:
        llm = reasoner(STEPS)
        memory = CuratedMemory.from_defaults(token_limit=LIMIT)
        agent = react_agent(llm, streaming=streaming)
        answer = await agent.run("what is it?", memory=memory, max_iterations=STEPS + 5)
        assert str(answer) == "done"
        assert len(llm.sent) == STEPS + 1
        assert max(llm.costs) <= LIMIT
        for sent in llm.sent:
            assert problems(sent) == []
            assert sent[0].role.value == "system"
            assert "what is it?" in texts(sent)
            assert set(roles(sent[1:])) <= {"user", "assistant"}
            assert not any(isinstance(b, ToolCallBlock) for m in sent for b in m.blocks)
        assert str(llm.sent[-1][-1].content).startswith(f"Observation: result {STEPS - 1}")
        # ReAct keeps a run as one message, with every observation in full.
        record = memory.get_all()
        assert roles(record) == ["user", "assistant"]
        for number in range(STEPS):
            assert lookup(number) in str(record[1].content)

    async def test_a_system_message_from_memory_is_kept(self) -> None:
        llm = reasoner(2)
        memory = CuratedMemory.from_defaults([system("speak Latin")], token_limit=LIMIT)
        await react_agent(llm).run("go", memory=memory)
        assert all("speak Latin" in str(sent[0].content) for sent in llm.sent)
        assert all(roles(sent).count("system") == 1 for sent in llm.sent)

    async def test_a_failed_parse_is_retried_with_a_valid_history(self) -> None:
        def answer(number: int, messages: Sequence[ChatMessage]) -> ChatMessage:
            text = "" if number == 0 else "Thought: I know.\nAnswer: done"
            return ChatMessage(role="assistant", content=text)

        llm = RecordingLLM(answer)
        await react_agent(llm).run("go")
        assert [problems(sent) for sent in llm.sent] == [[], []]


class TestContext:
    @pytest.mark.parametrize("kind", ["function", "react"])
    async def test_saved_and_restored_in_the_middle_gives_the_same_views(self, kind: str) -> None:
        make, script = {
            "function": (function_agent, caller),
            "react": (react_agent, reasoner),
        }[kind]

        async def finish(agent: Any, context: Context | None, question: str) -> Any:
            return await agent.run(question, ctx=context, max_iterations=60)

        straight = script(40)
        agent = make(straight)
        context = Context(agent)
        await _stop_after(agent, context, 15)
        await finish(agent, context, "again")

        broken = script(40)
        agent = make(broken)
        context = Context(agent)
        await _stop_after(agent, context, 15)
        saved = json.loads(json.dumps(context.to_dict()))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            restored = Context.from_dict(agent, saved)
        await finish(agent, restored, "again")
        assert [dumped(sent) for sent in broken.sent] == [dumped(sent) for sent in straight.sent]
        assert len(broken.sent) == 41


class TestRecall:
    @pytest.mark.parametrize("kind", ["function", "react"])
    async def test_a_cleared_result_comes_back_by_its_handle(self, kind: str) -> None:
        answers: list[str] = []
        steps = 24

        def ask(messages: Sequence[ChatMessage]) -> dict[str, Any]:
            text = next(str(m.content) for m in messages if 'recall(handle="' in str(m.content))
            return {"handle": text.split('recall(handle="')[1].split('"')[0]}

        def answer(number: int, messages: Sequence[ChatMessage]) -> ChatMessage:
            name, arguments = "lookup", {"n": number * 2}
            if number == steps:
                name, arguments = "recall", ask(messages)
            if number > steps:
                answers.append(str(messages[-1].content))
                return assistant("Thought: I know.\nAnswer: done")
            if kind == "function":
                return call(f"c{number}", name=name, **arguments)
            text = f"Thought: hm.\nAction: {name}\nAction Input: {json.dumps(arguments)}"
            return assistant(text)

        make = function_agent if kind == "function" else react_agent
        agent = make(RecordingLLM(answer), recall_tool=True)
        await agent.run("go", max_iterations=steps + 5)
        assert "result " in answers[0]
        assert "Refused" not in answers[0]


class TestConfiguration:
    async def test_tools_count_against_the_budget(self) -> None:
        tool = FunctionTool.from_defaults(lookup, description="Look something up. " * 100)
        llm = caller(10)
        await function_agent(llm, tools=[tool], token_limit=4_000).run("go")
        assert max(llm.costs) <= 4_000
        assert max(map(cost, llm.sent)) < 3_700


def _small(n: int = 0) -> str:
    """Return a little."""
    return f"small {n} " * 40


async def _stop_after(agent: Any, context: Context, steps: int) -> None:
    """Run until the iterations are used up, leaving the steps in the context."""
    with pytest.raises(Exception, match="Max iterations"):
        await agent.run("start", ctx=context, max_iterations=steps)
    await context.store.set("max_iterations", 60)
