"""An LLM that counts otherwise than we do: its window is used, and never exceeded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.tools import FunctionTool
from pydantic import PrivateAttr

from llamaindex_history_curator import CuratedFunctionAgent, CuratedLLM, CuratedMemory
from tests.llamaindex.factories import assistant, call, result, system, user
from tests.llamaindex.models import RecordingLLM, cost

LIMIT = 4_000
REQUESTS = 90


class Metered(RecordingLLM):
    """Looks something up on every call, and reports what it counted."""

    stretch: float
    hidden: int

    _counts: list[int] = PrivateAttr(default_factory=list)

    @property
    def counts(self) -> list[int]:
        return self._counts

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        number = len(self._counts)
        counted = cost(messages, kwargs.get("tools") or ())
        self._counts.append(int(counted * self.stretch) + self.hidden)
        done = number + 1 == REQUESTS
        message = assistant("done") if done else call(f"c{number}", name="look", number=number)
        return ChatResponse(message=message, raw={"usage": {"prompt_tokens": self._counts[-1]}})


def look(number: int) -> str:
    """Look something up."""
    return f"{number} is found " * (5 + number % 7 * 12)


TOOLS = [FunctionTool.from_defaults(look)]


def run_agent(llm: Metered) -> None:
    agent = CuratedFunctionAgent(llm=llm, tools=TOOLS, token_limit=LIMIT, streaming=False)
    memory = CuratedMemory.from_defaults(token_limit=LIMIT)

    async def run() -> None:
        await agent.run("look it up", memory=memory, max_iterations=REQUESTS + 1)

    asyncio.run(run())


def run_llm(llm: Metered) -> None:
    curated, messages = CuratedLLM(llm, token_limit=LIMIT), [system("Look."), user("look it up")]
    for number in range(REQUESTS):
        answer = curated.chat_with_tools(TOOLS, chat_history=messages).message
        messages += [answer, result(f"c{number}", look(number))]


@pytest.mark.parametrize("run", [run_agent, run_llm])
@pytest.mark.parametrize(("stretch", "hidden"), [(0.8, 0), (1.5, 500)])
def test_the_window_is_used_and_never_exceeded(
    run: Callable[[Metered], None], stretch: float, hidden: int
) -> None:
    llm = Metered(stretch=stretch, hidden=hidden)
    run(llm)
    assert len(llm.counts) == REQUESTS
    assert 0.85 * LIMIT < max(llm.counts) <= LIMIT
