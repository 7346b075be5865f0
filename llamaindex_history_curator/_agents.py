"""Agents whose every model call is curated, the running tool loop included.

A memory alone cannot do it: an agent sends the memory's view and then everything the current run
has done so far, which reaches the memory only when the run ends.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, TypeVar

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms import LLM
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import AsyncBaseTool, BaseTool
from llama_index.core.workflow import Context, Workflow
from pydantic import PrivateAttr

from history_curator.errors import ConfigurationError
from history_curator.entries import recall_tool_name
from history_curator.record.recall import RecallRequest
from history_curator.integrations import is_too_long
from llamaindex_history_curator._agents_run import Run, use_memory
from llamaindex_history_curator._events import span
from llamaindex_history_curator._llm import CuratedLLM
from llamaindex_history_curator._memory import CuratedMemory
from llamaindex_history_curator._models import counter_for_llm
from llamaindex_history_curator._options import check_keywords
from llamaindex_history_curator._recall import recall_tool
from llamaindex_history_curator._socket import Socket
from llamaindex_history_curator._view import View

Answer = TypeVar("Answer")

_ARGUMENTS = {
    name
    for owner in (BaseWorkflowAgent, Workflow)
    for name in inspect.signature(owner.__init__).parameters
} - {"self", "args", "kwargs"}


class CuratedAgent(Socket, BaseWorkflowAgent):
    """What all kinds of curated agents share."""

    recall_tool: bool | str = False

    _socket: ClassVar[str] = "agent"
    _watched: ClassVar[frozenset[str]] = Socket._watched | {"recall_tool"}
    _added: Any = PrivateAttr(default=None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check_keywords(type(self).__name__, kwargs, {*type(self).model_fields, *_ARGUMENTS})
        super().__init__(*args, **kwargs)
        self._check_settings()

    def _check_settings(self) -> None:
        super()._check_settings()
        tools: list[Any] = [one for one in self.tools or () if one is not self._added]
        self._added = None
        if self._recalls and not any(one.metadata.fn_schema is RecallRequest for one in tools):
            name = recall_tool_name(self._recalls)
            if any(one.metadata.name == name for one in tools):
                raise ConfigurationError(
                    f"tools: two are named {name!r}, yours and the recall tool. Fix: rename "
                    'yours, or pass recall_tool="look_back".'
                )
            self._added = self._recall_tool()
            tools.append(self._added)
        if self.tools is not None or tools:
            # Among the agent's own tools, because a workflow of several agents looks there only.
            self.__dict__["tools"] = tools

    def _own_options(self) -> dict[str, Any]:
        options = {"name": self.name, "recall_tool": self.recall_tool, **super()._own_options()}
        if self.config is None:
            return options
        own = self.config.model_fields_set
        return {
            name: value
            for name, value in options.items()
            if name not in own or (name != "name" and name in self.model_fields_set)
        }

    @property
    def _recalls(self) -> bool | str:
        if self.curator is not None or self.config is None:
            return self.recall_tool
        recall_tool: bool | str = self._own_options().get("recall_tool", self.config.recall_tool)
        return recall_tool

    def _recall_tool(self) -> BaseTool:
        return recall_tool(
            counter=self.counter or counter_for_llm(self.llm),
            scratchpad_key=getattr(self, "scratchpad_key", "scratchpad"),
            reasoning_key=getattr(self, "reasoning_key", "current_reasoning"),
            name=recall_tool_name(self._recalls),
        )

    @span
    async def curate_step(
        self, messages: Sequence[ChatMessage], tools: Sequence[AsyncBaseTool] | None = None
    ) -> list[ChatMessage]:
        """Return the view of everything one model call would be sent."""
        view = await self._viewer().aview(messages, tools=tools)
        _asked.set(view)
        return view

    def new_memory(self) -> CuratedMemory:
        """Return the memory of a run that was given none."""
        curator = self._viewer().curator
        return CuratedMemory.from_defaults(
            llm=self.llm,
            token_limit=curator.max_tokens,
            provider=curator.profile.name,
            counter=curator.counter,
            recall_tool=self._recalls,
        )

    async def take_step(
        self,
        ctx: Any,
        llm_input: list[ChatMessage],
        tools: Sequence[Any],
        memory: BaseMemory,
    ) -> AgentOutput:
        """Take one step from a curated view of everything so far."""
        run = Run(self, ctx, memory)
        output = await self._take_step(ctx, await run.begin(llm_input), tools, run.memory)
        await run.end()
        return output

    async def _take_step(
        self, ctx: Any, llm_input: list[ChatMessage], tools: Sequence[Any], memory: BaseMemory
    ) -> AgentOutput:
        """Take a step the way of this kind of agent."""
        return await super().take_step(ctx, llm_input, tools, memory)  # type: ignore[safe-super]

    async def _init_context(self, ctx: Context, ev: Any) -> None:
        await use_memory(ctx, ev, self)
        await super()._init_context(ctx, ev)

    async def _get_llm_response(
        self, ctx: Context, llm_input: list[ChatMessage], llm: LLM | None = None
    ) -> ChatResponse:
        view, ask = await self.curate_step(llm_input), super()._get_llm_response
        stream: Any = _Stream(ctx)
        return await self._asks(view, lambda messages: ask(stream, messages, llm), stream)

    # Every kind of agent asks its LLM in one of these, for a view made just before.

    async def _get_response(self, messages: list[ChatMessage], *rest: Any) -> Any:
        ask = super()._get_response  # type: ignore[misc]
        return await self._asks(messages, lambda messages: ask(messages, *rest))

    async def _get_streaming_response(
        self, ctx: Any, messages: list[ChatMessage], *rest: Any
    ) -> Any:
        ask, stream = super()._get_streaming_response, _Stream(ctx)  # type: ignore[misc]
        return await self._asks(messages, lambda messages: ask(stream, messages, *rest), stream)

    async def _asks(
        self,
        messages: list[ChatMessage],
        ask: Callable[[list[ChatMessage]], Awaitable[Answer]],
        stream: _Stream | None = None,
    ) -> Answer:
        """Return what an LLM answered, once what it reports for the view is noted.

        Nothing is asked again once part of an answer was shown, nor where the LLM does so itself.
        """
        first = _asked.get()
        if first is None:
            return await ask(messages)
        _asked.set(None)

        async def answered(view: View) -> Answer:
            answer = await ask(messages if view is first else self._spoken(view))
            view.observe(answer[0] if isinstance(answer, tuple) else answer)
            return answer

        def too_long(error: Exception) -> bool:
            shown = stream is not None and stream.shown
            return not shown and not isinstance(self.llm, CuratedLLM) and is_too_long(error)

        return await first.asent(answered, too_long)

    def _spoken(self, view: list[ChatMessage]) -> list[ChatMessage]:
        """Return a view in the words of this kind of agent."""
        return view

    async def _remember_run(self, ctx: Any, memory: BaseMemory) -> None:
        """Put the steps of the run into the memory."""
        key = getattr(self, "scratchpad_key", "scratchpad")
        pad = await ctx.store.get(key, default=[])
        if pad:
            await memory.aput_messages(pad)
            await ctx.store.set(key, [])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class CuratedFunctionAgent(CuratedAgent, FunctionAgent):
    """A `FunctionAgent` whose every model call is a curated view of everything so far.

    The scratchpad stays whole and reaches the memory when the run ends. A call that the provider
    refuses as too long is repeated with a smaller view, at most twice. Works with and without
    streaming, in an `AgentWorkflow`, and with any memory; without one it gets a `CuratedMemory`.

    Args:
        token_limit: the budget of every call, tools included; by default what the LLM takes.
        managers: history managers, in order.
        provider: whose rules hold; ``"auto"`` finds out from the LLM.
        counter: an encoding, a model name or a `TokenCounter`; by default the LLM's.
        recall_tool: placeholders name a handle, and the agent gets the tool that takes it; a text is
            its name.
        mark_cache: put a `CachePoint` where the cache plan says it pays.
        retrieve: bring what matters to the question back from before the cut; for long chats.
        curator: a curator made elsewhere, instead of all of the above but the mark.
        config: a `CuratorConfig`, a mapping or a file; limit, provider, counter and recall win
            over it.
        objects: what ``"@name"`` options of the config stand for.

    Raises:
        ConfigurationError: for an argument or a provider nobody knows.

    Examples:
        >>> from llama_index.core.llms import MockLLM
        >>> agent = CuratedFunctionAgent(llm=MockLLM(), tools=[], token_limit=16_000)
        >>> agent
        CuratedFunctionAgent('Agent')
    """

    async def _take_step(
        self, ctx: Any, llm_input: list[ChatMessage], tools: Sequence[Any], memory: BaseMemory
    ) -> AgentOutput:
        pad = list(await ctx.store.get(self.scratchpad_key, default=[]))
        view = await self.curate_step([*llm_input, *pad], tools)
        step = _StepContext(ctx, self.scratchpad_key, pad)
        return await super()._take_step(step, view, tools, memory)


_asked: ContextVar[View | None] = ContextVar("curated_view", default=None)


class _Stream:
    """The context of a model call, which knows whether any of its answer was shown."""

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        self.shown = False

    def write_event_to_stream(self, event: Any) -> None:
        self.shown = True
        self._ctx.write_event_to_stream(event)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


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


class CuratedAgentWorkflow(AgentWorkflow):
    """An `AgentWorkflow` of curated agents, with one complete record.

    Curated agents work in a plain `AgentWorkflow` as well. This one adds what only the workflow
    can do: a memory that is passed is used also in a context that had another, the first run
    without one starts with a `CuratedMemory`, and the last answer of a run that is stopped early
    is asked for from a curated view.

    Examples:
        >>> from llama_index.core.llms import MockLLM
        >>> from llamaindex_history_curator import CuratedFunctionAgent
        >>> agent = CuratedFunctionAgent(llm=MockLLM(), tools=[], token_limit=16_000)
        >>> CuratedAgentWorkflow(agents=[agent]).root_agent
        'Agent'
    """

    async def _init_context(self, ctx: Context, ev: Any) -> None:
        root = self.agents[self.root_agent]
        curated = [one for one in (root, *self.agents.values()) if isinstance(one, CuratedAgent)]
        if curated:
            await use_memory(ctx, ev, curated[0])
        await super()._init_context(ctx, ev)

    async def _get_llm_response(
        self, ctx: Context, llm_input: list[ChatMessage], agent: BaseWorkflowAgent
    ) -> ChatResponse:
        if isinstance(agent, CuratedAgent):
            return await agent._get_llm_response(ctx, llm_input)
        return await super()._get_llm_response(ctx, llm_input, agent)
