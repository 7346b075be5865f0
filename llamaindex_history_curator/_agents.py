"""Agents whose every model call is curated, the running tool loop included.

A memory alone cannot do it: an agent sends the memory's view and then everything the current run
has done so far, which reaches the memory only when the run ends.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms import LLM
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import AsyncBaseTool
from llama_index.core.workflow import Context, StopEvent, Workflow

from history_curator.config import CuratorConfig
from history_curator.curator import Curator
from history_curator.recall import RECALL_TOOL_NAME
from llamaindex_history_curator._events import span
from llamaindex_history_curator._memory import CuratedMemory
from llamaindex_history_curator._react import as_exchanges, as_text
from llamaindex_history_curator._recall import recall_tool
from llamaindex_history_curator._setup import check_alone, check_keywords, make_curator
from llamaindex_history_curator._view import Viewer

__all__ = ["CuratedFunctionAgent", "CuratedReActAgent"]


_ARGUMENTS = {
    name
    for owner in (BaseWorkflowAgent, Workflow)
    for name in inspect.signature(owner.__init__).parameters
} - {"self", "args", "kwargs"}


class _CuratedAgent(BaseWorkflowAgent):
    """What both kinds of agent share."""

    token_limit: int | None = Field(default=None, gt=0)
    managers: Any = Field(default=(), exclude=True)
    provider: str = "auto"
    counter: Any = Field(default=None, exclude=True)
    recall: bool = False
    mark_cache: bool = False
    curator: Any = Field(default=None, exclude=True)
    config: Any = Field(default=None, exclude=True)
    objects: Any = Field(default=None, exclude=True)

    _viewers: dict[int, Viewer] = PrivateAttr(default_factory=dict)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check_keywords(type(self).__name__, kwargs, {*type(self).model_fields, *_ARGUMENTS})
        super().__init__(*args, **kwargs)
        check_alone(self.curator, config=self.config, objects=self.objects)
        if self.config is not None:
            self.config = CuratorConfig.load(self.config)
        if self.curator is None:
            # Made without the LLM, which may be exchanged: what cannot work is refused here.
            self._make_curator(None)

    def _make_curator(self, llm: LLM | None) -> Curator:
        options: dict[str, Any] = {"name": self.name, "recall": self.recall}
        if self.config is not None:
            own = self.config.model_fields_set
            options = {
                name: value
                for name, value in options.items()
                if name not in own or (name == "recall" and name in self.model_fields_set)
            }
        return make_curator(
            self.managers,
            llm=llm,
            token_limit=self.token_limit,
            provider=self.provider,
            counter=self.counter,
            config=self.config,
            objects=self.objects,
            **options,
        )

    @property
    def _recalls(self) -> bool:
        return self.recall or (self.config is not None and self._viewer().curator.recall)

    def _viewer(self) -> Viewer:
        # Made on first use, and again when the LLM is exchanged.
        viewer = self._viewers.get(id(self.llm))
        if viewer is None:
            curator: Curator = self.curator or self._make_curator(self.llm)
            viewer = Viewer(curator, "agent", mark_cache=self.mark_cache, llm=self.llm)
            self._viewers = {id(self.llm): viewer}
        return viewer

    @span
    async def curate_step(
        self, messages: Sequence[ChatMessage], tools: Sequence[AsyncBaseTool] | None = None
    ) -> list[ChatMessage]:
        """Return the view of everything one model call would be sent."""
        return await self._viewer().aview(messages, tools=tools)

    async def get_tools(self, input_str: str | None = None) -> Sequence[AsyncBaseTool]:
        """Return the agent's tools, with the recall tool where it is on."""
        tools = list(await super().get_tools(input_str))
        if self._recalls and all(tool.metadata.name != RECALL_TOOL_NAME for tool in tools):
            own = recall_tool(
                counter=self._viewer().curator.counter,
                scratchpad_key=getattr(self, "scratchpad_key", "scratchpad"),
                reasoning_key=getattr(self, "reasoning_key", "current_reasoning"),
            )
            tools += self._ensure_tools_are_async([own])
        return tools

    async def _init_context(self, ctx: Context, ev: Any) -> None:
        if not await ctx.store.get("memory", default=None) and ev.get("memory") is None:
            viewer = self._viewer()
            limit = viewer.curator.max_tokens
            memory = CuratedMemory.from_defaults(
                llm=self.llm,
                token_limit=limit,
                provider=viewer.curator.profile.name,
                counter=viewer.curator.counter,
                recall=self._recalls,
            )
            await ctx.store.set("memory", memory)
        await super()._init_context(ctx, ev)

    async def _get_llm_response(
        self, ctx: Context, llm_input: list[ChatMessage], llm: LLM | None = None
    ) -> ChatResponse:
        return await super()._get_llm_response(ctx, await self.curate_step(llm_input), llm)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class CuratedFunctionAgent(_CuratedAgent, FunctionAgent):
    """A `FunctionAgent` whose every model call is a curated view of everything so far.

    The scratchpad stays whole and reaches the memory when the run ends. Works with and without
    streaming, in an `AgentWorkflow`, and with any memory; without one it gets a `CuratedMemory`.

    Args:
        token_limit: the budget of every call, tools included; by default what the LLM takes.
        managers: history managers, in order.
        provider: whose rules hold; ``"auto"`` finds out from the LLM.
        counter: an encoding, a model name or a `TokenCounter`; by default the LLM's.
        recall: placeholders name a handle, and the agent gets the tool that takes it.
        mark_cache: put a `CachePoint` at the end of the stable prefix.
        curator: a curator made elsewhere, instead of all of the above but the mark.
        config: a `CuratorConfig`, a mapping or a file; limit, provider, counter and recall win
            over it.
        objects: what ``"@name"`` options of the config stand for.

    Raises:
        ConfigurationError: for an argument or a provider nobody knows.

    Example:
        >>> from llama_index.core.llms import MockLLM
        >>> agent = CuratedFunctionAgent(llm=MockLLM(), tools=[], token_limit=16_000)
        >>> agent
        CuratedFunctionAgent('Agent')
    """

    async def take_step(
        self,
        ctx: Any,
        llm_input: list[ChatMessage],
        tools: Sequence[AsyncBaseTool],
        memory: BaseMemory,
    ) -> AgentOutput:
        """Take one step from a curated view, and add what it did to the whole scratchpad."""
        pad = list(await ctx.store.get(self.scratchpad_key, default=[]))
        view = await self.curate_step([*llm_input, *pad], tools)
        step = _StepContext(ctx, self.scratchpad_key, pad)
        return await super().take_step(step, view, tools, memory)

    async def _generate_early_stopping_response(
        self, ctx: Context, max_iterations: int
    ) -> StopEvent:
        # LlamaIndex forgets the steps of a run it stops early; they were said and done.
        memory: BaseMemory = await ctx.store.get("memory")
        pad = await ctx.store.get(self.scratchpad_key, default=[])
        if pad:
            await memory.aput_messages(pad)
            await ctx.store.set(self.scratchpad_key, [])
        return await super()._generate_early_stopping_response(ctx, max_iterations)


class CuratedReActAgent(_CuratedAgent, ReActAgent):
    """A `ReActAgent` whose every model call is a curated view of everything so far.

    Actions and observations are curated as calls and results, so a long observation is shortened
    like a tool result and the question stays. A system message from memory is kept.

    Args:
        token_limit: the budget of every call, tools included; by default what the LLM takes.
        managers: history managers, in order.
        provider: whose rules hold; ``"auto"`` finds out from the LLM.
        counter: an encoding, a model name or a `TokenCounter`; by default the LLM's.
        recall: placeholders name a handle, and the agent gets the tool that takes it.
        mark_cache: put a `CachePoint` at the end of the stable prefix.
        curator: a curator made elsewhere, instead of all of the above but the mark.
        config: a `CuratorConfig`, a mapping or a file; limit, provider, counter and recall win
            over it.
        objects: what ``"@name"`` options of the config stand for.

    Raises:
        ConfigurationError: for an argument or a provider nobody knows.

    Example:
        >>> from llama_index.core.llms import MockLLM
        >>> CuratedReActAgent(llm=MockLLM(), tools=[], token_limit=16_000)
        CuratedReActAgent('Agent')
    """

    async def take_step(
        self,
        ctx: Any,
        llm_input: list[ChatMessage],
        tools: Sequence[AsyncBaseTool],
        memory: BaseMemory,
    ) -> AgentOutput:
        """Take one step from a curated view."""
        if llm_input and llm_input[0].role.value == "system" and not self.system_prompt:
            # The base class drops the first system message, taking it for the agent's own prompt.
            llm_input = [ChatMessage(role="system", content=""), *llm_input]
        llm_input = _asked_once(llm_input)
        token = _steps.set(tuple(await ctx.store.get(self.reasoning_key, default=[])))
        try:
            return await super().take_step(ctx, llm_input, tools, memory)
        finally:
            _steps.reset(token)

    async def _get_response(self, current_llm_input: list[ChatMessage]) -> ChatResponse:
        return await super()._get_response(await self._react_view(current_llm_input))

    async def _get_streaming_response(
        self, ctx: Any, current_llm_input: list[ChatMessage]
    ) -> ChatResponse:
        view = await self._react_view(current_llm_input)
        return await super()._get_streaming_response(ctx, view)

    async def _react_view(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        view = await self.curate_step(as_exchanges(messages, _steps.get()))
        return as_text(view, self.formatter.observation_role)


_steps: ContextVar[tuple[Any, ...]] = ContextVar("react_steps", default=())


def _asked_once(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Return the input of a retry without the question LlamaIndex adds to it a second time."""
    tail = messages[-4:]
    is_retry = [message.role.value for message in tail] == ["user", "user", "assistant", "user"]
    if is_retry and tail[0].content == tail[1].content:
        return [*messages[:-3], *messages[-2:]]
    return messages


class _StepContext:
    """The context of one step: the scratchpad looks empty, and what is put there is added.

    The real scratchpad is never emptied, so a context saved in the middle of a model call holds
    all of it.
    """

    def __init__(self, ctx: Any, key: str, pad: list[ChatMessage]) -> None:
        self._ctx = ctx
        self.store = _StepStore(ctx.store, key, pad)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


class _StepStore:
    def __init__(self, store: Any, key: str, pad: list[ChatMessage]) -> None:
        self._store = store
        self._key = key
        self._pad = pad
        self._new: list[ChatMessage] = []

    async def get(self, path: str, *args: Any, **kwargs: Any) -> Any:
        if path == self._key:
            return list(self._new)
        return await self._store.get(path, *args, **kwargs)

    async def set(self, path: str, value: Any) -> None:
        if path == self._key:
            self._new = list(value)
            value = [*self._pad, *self._new]
        await self._store.set(path, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
