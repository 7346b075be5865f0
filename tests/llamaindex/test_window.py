"""An LLM that counts otherwise than we do: every socket fills its window and never exceeds it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    LLMMetadata,
    ToolCallBlock,
)
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool
from pydantic import PrivateAttr

from history_curator import Curator
from history_curator.tokens import Calibration
from llamaindex_history_curator import CuratedFunctionAgent, CuratedLLM, CuratedMemory
from llamaindex_history_curator.models import tool_schemas
from tests.llamaindex.factories import result, system, user
from tests.support.providers import Provider, said

LIMIT = 4_000


class Metered(MockFunctionCallingLLM):
    """Looks something up on every call, and reports what the provider counted."""

    model: str
    stop_at: int = 10**9

    _provider: Provider = PrivateAttr()

    def __init__(self, model: str, provider: Provider) -> None:
        super().__init__(is_chat_model=True, model=model)
        self._provider = provider

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            is_chat_model=True,
            is_function_calling_model=True,
            model_name=self.model,
            context_window=2 * LIMIT,
        )

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        request = [[m.role, m.content, *_calls(m)] for m in messages]
        tools = tool_schemas(kwargs.get("tools"))
        prompt = self._provider.count(self.model, request, tools or ())
        number = len(self._provider.counts)
        answer = ChatMessage(f"done after {number}", role="assistant")
        if number < self.stop_at:
            call = ToolCallBlock(
                tool_call_id=f"call_{number}", tool_name="look", tool_kwargs={"number": number}
            )
            answer = ChatMessage(role="assistant", blocks=[call])
        usage = {"prompt_tokens": prompt, "completion_tokens": 9}
        return ChatResponse(message=answer, raw={"usage": usage, "model": self.model})


def _calls(message: ChatMessage) -> list[Any]:
    blocks = [each for each in message.blocks if isinstance(each, ToolCallBlock)]
    return [[each.tool_name, each.tool_kwargs] for each in blocks]


def look(number: int) -> str:
    """Look something up."""
    return said(number)


TOOLS = [FunctionTool.from_defaults(look)]


def agent(models: list[Metered], settings: list[Any], upto: list[int]) -> None:
    """Run an agent with a memory, one LLM after the other, each up to a number of requests."""
    memory = CuratedMemory.from_defaults(token_limit=LIMIT)

    async def run() -> None:
        for llm, given, last in zip(models, settings, upto, strict=True):
            llm.stop_at = last
            running = CuratedFunctionAgent(
                llm=llm, tools=TOOLS, system_prompt="Look.", streaming=False, **given
            )
            await running.run("look it up", memory=memory, max_iterations=1_000)

    asyncio.run(run())


def chat(models: list[Metered], settings: list[Any], upto: list[int]) -> None:
    """Ask a curated LLM, one after the other, each up to a number of requests."""
    messages = [system("Look."), user("look it up")]
    for llm, given, last in zip(models, settings, upto, strict=True):
        asking = CuratedLLM(llm, **given)
        while len(llm._provider.counts) < last:
            answer = asking.chat_with_tools(TOOLS, chat_history=messages).message
            (call,) = [each for each in answer.blocks if isinstance(each, ToolCallBlock)]
            messages += [answer, result(str(call.tool_call_id), said(call.tool_kwargs["number"]))]


@pytest.mark.parametrize(
    ("talk", "name", "encoding", "stretch", "hidden"),
    [
        (agent, "mistral-large", "mistral", 0.9, 0),
        (agent, "oracle-7", "llama3", 1.6, 500),
        (chat, "mistral-large", "mistral", 1.4, 1_000),
        (chat, "qwen-max", "qwen2", 1.0, 0),
    ],
)
def test_the_window_is_used_and_never_exceeded(talk, name, encoding, stretch, hidden):
    provider = Provider(LIMIT, encoding, hidden=hidden, versions={name: stretch})

    talk([Metered(name, provider)], [{"token_limit": LIMIT}], [110])

    provider.check()


@pytest.mark.parametrize(("talk", "before", "after"), [(agent, 0.9, 1.4), (chat, 1.4, 0.9)])
def test_another_version_of_the_model_may_count_otherwise(talk, before, after):
    versions = {"mistral-large-2411": before, "mistral-large-2512": after}
    provider = Provider(LIMIT, "mistral", versions=versions)
    calibration = Calibration("mistral-large-2411")
    settings = [
        {"curator": Curator(max_tokens=LIMIT, counter=name, calibration=calibration)}
        for name in versions
    ]

    talk([Metered(name, provider) for name in versions], settings, [115, 225])

    provider.check(versions=(0, 115))


@pytest.mark.parametrize("talk", [agent, chat])
@pytest.mark.parametrize("unsaid", [(115, 1.5), (122, 1.5), (115, 0.7)])
def test_a_model_that_begins_to_count_otherwise(talk, unsaid):
    """Nobody can know before the first request that is counted so; the next ones fit."""
    provider = Provider(LIMIT, "mistral", versions={"mistral-large": 0.9}, unsaid=unsaid)

    talk([Metered("mistral-large", provider)], [{"token_limit": LIMIT}], [250])

    provider.check(versions=(0, unsaid[0]))
