"""`CuratedReActAgent`: an agent that reasons in text, with every model call curated."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, ClassVar

from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.memory import BaseMemory

from llamaindex_history_curator._agents import CuratedAgent
from llamaindex_history_curator._react import SPOKEN, as_exchanges


class CuratedReActAgent(CuratedAgent, ReActAgent):
    """A `ReActAgent` whose every model call is a curated view of everything so far.

    Actions and observations are curated as calls and results, so a long observation is shortened
    like a tool result and the question stays. A system message from memory is kept.

    The arguments are those of `ReActAgent` and those listed at `CuratedFunctionAgent`.

    Examples:
        >>> from llama_index.core.llms import MockLLM
        >>> CuratedReActAgent(llm=MockLLM(), tools=[], token_limit=16_000)
        CuratedReActAgent('Agent')
    """

    _rides: ClassVar[bool] = False  # it is sent the view in words of its own

    async def _take_step(
        self, ctx: Any, llm_input: list[ChatMessage], tools: Sequence[Any], memory: BaseMemory
    ) -> AgentOutput:
        if llm_input and llm_input[0].role.value == "system" and not self.system_prompt:
            # The base class drops the first system message, taking it for the agent's own prompt.
            llm_input = [ChatMessage(role="system", content=""), *llm_input]
        token = _steps.set(tuple(await ctx.store.get(self.reasoning_key, default=[])))
        try:
            return await super()._take_step(ctx, _asked_once(llm_input), tools, memory)
        finally:
            _steps.reset(token)

    async def _remember_run(self, ctx: Any, memory: BaseMemory) -> None:
        steps = await ctx.store.get(self.reasoning_key, default=[])
        if steps:
            said = "\n".join(step.get_content() for step in steps)
            await memory.aput(ChatMessage(role="assistant", content=said))
            await ctx.store.set(self.reasoning_key, [])

    async def _get_response(self, current_llm_input: list[ChatMessage]) -> ChatResponse:
        view = await self._react_view(current_llm_input)
        answer: ChatResponse = await super()._get_response(view)
        return answer

    async def _get_streaming_response(
        self, ctx: Any, current_llm_input: list[ChatMessage]
    ) -> ChatResponse:
        view = await self._react_view(current_llm_input)
        answer: ChatResponse = await super()._get_streaming_response(ctx, view)
        return answer

    async def _react_view(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        return self._spoken(await self.curate_step(as_exchanges(messages, _steps.get())))

    def _spoken(self, view: list[ChatMessage]) -> list[ChatMessage]:
        return SPOKEN.as_text(view, self.formatter.observation_role)


_steps: ContextVar[tuple[Any, ...]] = ContextVar("react_steps", default=())


def _asked_once(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Return the input of a retry without the question LlamaIndex adds to it a second time."""
    tail = messages[-4:]
    is_retry = [message.role.value for message in tail] == ["user", "user", "assistant", "user"]
    if is_retry and tail[0].content == tail[1].content:
        return [*messages[:-3], *messages[-2:]]
    return messages
