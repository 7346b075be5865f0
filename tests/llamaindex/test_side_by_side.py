"""What LlamaIndex's own tests mean, run against the stock classes and against ours.

Where ours differs, the table in ``docs/howto/llamaindex.md`` says why.
"""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.memory import ChatMemoryBuffer, Memory

from llamaindex_history_curator import CuratedFunctionAgent, CuratedMemory, CuratedReActAgent
from tests.llamaindex.factories import assistant, call, dumped, result, roles, texts, turns, user
from tests.llamaindex.models import RecordingLLM, act

MEMORIES = pytest.mark.parametrize("kind", [ChatMemoryBuffer, Memory, CuratedMemory])
SAID = [user("look"), call("c1", q="x"), result("c1", "found"), assistant("There.")]


@MEMORIES
class TestAMemory:
    async def test_put_get_set_and_reset(self, kind: Any) -> None:
        memory = kind.from_defaults(token_limit=9_000)
        assert await memory.aget() == []
        await memory.aput(user("1"))
        await memory.aput_messages([assistant("2"), user("3")])
        assert texts(await memory.aget()) == texts(await memory.aget_all()) == ["1", "2", "3"]
        assert texts(await memory.aget(input="more?")) == ["1", "2", "3"]
        await memory.aset([user("new")])
        assert texts(await memory.aget_all()) == ["new"]
        await memory.areset()
        assert await memory.aget_all() == []

    def test_tool_calls_come_back_as_they_were(self, kind: Any) -> None:
        memory = kind.from_defaults(chat_history=SAID, token_limit=9_000)
        assert dumped(memory.get()) == dumped(SAID)

    def test_a_view_ends_with_what_was_said_last(self, kind: Any) -> None:
        memory = kind.from_defaults(token_limit=300)
        memory.put_messages([*turns(40), user("now?")])
        view = memory.get()
        assert (roles(view)[0], view[-1].content) == ("user", "now?")
        assert len(view) < 81


def look(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def looking(kind: str) -> RecordingLLM:
    return RecordingLLM(lambda n, _: act(kind, n, "look", q=str(n)) if n % 4 != 3 else act(kind))


@pytest.mark.parametrize(
    ("stock", "ours", "words"),
    [(FunctionAgent, CuratedFunctionAgent, "function"), (ReActAgent, CuratedReActAgent, "react")],
)
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("in_workflow", [False, True])
async def test_agents_that_fit_send_and_keep_the_same(
    stock: Any, ours: Any, words: str, streaming: bool, in_workflow: bool
) -> None:
    async def work(kind: Any, memory: Any) -> tuple[Any, ...]:
        model, events = looking(words), []
        runner = kind(llm=model, tools=[look], streaming=streaming)
        runner = AgentWorkflow(agents=[runner]) if in_workflow else runner
        for question in ("one", "two"):
            handler = runner.run(user_msg=question, memory=memory)
            events += [type(event).__name__ async for event in handler.stream_events()]
            await handler
        return list(map(dumped, model.sent)), events, dumped(await memory.aget_all())

    theirs = await work(stock, ChatMemoryBuffer.from_defaults(token_limit=90_000))
    assert await work(ours, CuratedMemory.from_defaults(token_limit=90_000)) == theirs
