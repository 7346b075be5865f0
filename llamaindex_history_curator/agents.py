"""Agents whose every model call is curated, the running tool loop included.

A memory alone cannot do it: an agent sends the memory's view and then everything the current run
has done so far, which reaches the memory only when the run ends.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from contextvars import ContextVar
from operator import is_not
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, TextBlock
from llama_index.core.llms import LLM
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import AsyncBaseTool
from llama_index.core.workflow import Context, Workflow
from pydantic import Field, PrivateAttr

from history_curator.entries import recall_tool_name
from history_curator.errors import ConfigurationError
from history_curator.record.recall import RecallRequest
from llamaindex_history_curator.llm import CuratedLLM, View
from llamaindex_history_curator.memory import CuratedMemory
from llamaindex_history_curator.models import CurationSettings, check_keywords, counter_for_llm
from llamaindex_history_curator.plain_values import copy_value
from llamaindex_history_curator.tools_and_events import (
    read_react_steps,
    recall_tool,
    write_react_steps,
)

_ARGUMENTS = {
    name
    for owner in (BaseWorkflowAgent, Workflow)
    for name in inspect.signature(owner.__init__).parameters
} - {"self", "args", "kwargs"}
_STATED = "history_curator_stated"


class CuratedAgent(CurationSettings, BaseWorkflowAgent):
    """The parts that all kinds of curated agents share."""

    recall_tool: bool | str | None = Field(default=None, frozen=True)

    _curated: tuple[tuple[Any, ...], CuratedLLM] | None = PrivateAttr(default=None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check_keywords(type(self).__name__, kwargs, {*type(self).model_fields, *_ARGUMENTS})
        super().__init__(*args, **kwargs)
        self._current_settings()
        self._add_recall_tool(self._make_curator(None).recall_tool)

    def _add_recall_tool(self, configured: bool | str) -> None:
        recalls = configured if self.recall_tool is None else self.recall_tool
        tools = list[Any](self.tools or ())
        if not recalls or any(tool.metadata.fn_schema is RecallRequest for tool in tools):
            return
        name = recall_tool_name(recalls)
        if any(tool.metadata.name == name for tool in tools):
            raise ConfigurationError(
                f"tools: two are named {name!r}, yours and the recall tool. Fix: rename "
                'yours, or pass recall_tool="look_back".'
            )
        tools.append(
            recall_tool(
                counter=self.counter or counter_for_llm(self.llm),
                scratchpad_key=getattr(self, "scratchpad_key", "scratchpad"),
                reasoning_key=getattr(self, "reasoning_key", "current_reasoning"),
                name=name,
            )
        )
        # Among the agent's own tools, because a workflow of several agents looks there only.
        self.__dict__["tools"] = tools

    def _curator_options(self) -> dict[str, Any]:
        options = {"name": self.name, **super()._curator_options()}
        return options if self.recall_tool is None else {**options, "recall_tool": self.recall_tool}

    def _curated_llm(self) -> CuratedLLM:
        """Return the LLM with the settings of the agent, made anew when one was exchanged."""
        settings = (self.llm, *self._current_settings())
        if self._curated is None or any(map(is_not, settings, self._curated[0])):
            curator = self._make_curator(self.llm)
            curated = CuratedLLM(self.llm, curator=curator, mark_cache=self.mark_cache)
            curated._place = "agent"
            self._curated = settings, curated
        return self._curated[1]

    async def curate_step(
        self, messages: Sequence[ChatMessage], tools: Sequence[AsyncBaseTool] | None = None
    ) -> View:
        """Return the view of everything one model call would be sent."""
        return await self._curated_llm().acurate_call(messages, tools)

    def new_memory(self) -> CuratedMemory:
        """Return the memory of a run that was given none."""
        curator = self._curated_llm().curator
        return CuratedMemory.from_defaults(
            llm=self.llm,
            token_limit=curator.max_tokens,
            provider=curator.profile.name,
            counter=curator.counter if self.curator else self.counter or counter_for_llm(self.llm),
            recall_tool=curator.recall_tool,
        )

    async def take_step(
        self, ctx: Any, llm_input: list[ChatMessage], tools: Sequence[Any], memory: BaseMemory
    ) -> AgentOutput:
        """Take one step from a curated view of everything so far."""
        llm_input = await _show_state(ctx, llm_input)
        # A stand-in whose LLM is curated; `llm` of the agent stays the one it was given.
        agent = copy.copy(self)
        agent.__dict__["llm"] = self._curated_llm()
        step = super(CuratedAgent, agent).take_step  # type: ignore[safe-super]
        output = await step(ctx, llm_input, tools, memory)
        if await _is_last_step(ctx):
            # LlamaIndex asks for a last answer from the memory, and forgets the steps of the run.
            await self._remember_run(ctx, memory)
        return output

    async def _remember_run(self, ctx: Any, memory: BaseMemory) -> None:
        """Put the steps of the run into the memory."""
        key = getattr(self, "scratchpad_key", "scratchpad")
        scratchpad = await ctx.store.get(key, default=[])
        if scratchpad:
            await memory.aput_messages(scratchpad)
            await ctx.store.set(key, [])

    async def _init_context(self, ctx: Context, ev: Any) -> None:
        await _use_memory(ctx, ev, self)
        await super()._init_context(ctx, ev)

    async def _get_llm_response(
        self, ctx: Context, llm_input: list[ChatMessage], llm: LLM | None = None
    ) -> ChatResponse:
        return await super()._get_llm_response(ctx, llm_input, llm or self._curated_llm())

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
        recall_tool: placeholders name a handle, and the agent gets the tool that takes it; a text
            is its name.
        mark_cache: put a `CachePoint` where the cache plan says it pays.
        retrieve: bring what matters to the question back from before the cutoff; for long chats.
        curator: a curator made elsewhere, instead of all of the above but the mark.
        config: a `CuratorConfig`, a mapping or a file; what is given beside it wins.
        objects: what ``"@name"`` options of the config stand for.

    Raises:
        ConfigurationError: for an unknown argument or provider.

    Examples:
        >>> from llama_index.core.llms import MockLLM
        >>> agent = CuratedFunctionAgent(llm=MockLLM(), tools=[], token_limit=16_000)
        >>> agent
        CuratedFunctionAgent('Agent')
    """


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

    def _curated_llm(self) -> CuratedLLM:
        curated = super()._curated_llm()
        role = self.formatter.observation_role
        curated._read = lambda messages: read_react_steps(messages, _steps.get())
        curated._write = lambda messages: write_react_steps(messages, role)
        return curated

    async def take_step(
        self, ctx: Any, llm_input: list[ChatMessage], tools: Sequence[Any], memory: BaseMemory
    ) -> AgentOutput:
        """Take one step from a curated view of everything so far."""
        if llm_input and llm_input[0].role.value == "system" and not self.system_prompt:
            # The base class drops the first system message, taking it for the agent's own prompt.
            llm_input = [ChatMessage(role="system", content=""), *llm_input]
        token = _steps.set(tuple(await ctx.store.get(self.reasoning_key, default=[])))
        try:
            return await super().take_step(ctx, llm_input, tools, memory)
        finally:
            _steps.reset(token)

    async def _remember_run(self, ctx: Any, memory: BaseMemory) -> None:
        steps = await ctx.store.get(self.reasoning_key, default=[])
        if steps:
            text = "\n".join(step.get_content() for step in steps)
            await memory.aput(ChatMessage(role="assistant", content=text))
            await ctx.store.set(self.reasoning_key, [])


_steps: ContextVar[tuple[Any, ...]] = ContextVar("react_steps", default=())


class CuratedAgentWorkflow(AgentWorkflow):
    """An `AgentWorkflow` of curated agents, with one complete record.

    Curated agents work in a plain `AgentWorkflow` as well. In this one, a memory that is passed is
    used also in a context that had another, the first run without one starts with a
    `CuratedMemory`, and the last answer of a run that is stopped early is curated.

    Examples:
        >>> from llama_index.core.llms import MockLLM
        >>> from llamaindex_history_curator import CuratedFunctionAgent
        >>> agent = CuratedFunctionAgent(llm=MockLLM(), tools=[], token_limit=16_000)
        >>> CuratedAgentWorkflow(agents=[agent]).root_agent
        'Agent'
    """

    async def _init_context(self, ctx: Context, ev: Any) -> None:
        agents = (self.agents[self.root_agent], *self.agents.values())
        curated = next((agent for agent in agents if isinstance(agent, CuratedAgent)), None)
        if curated is not None:
            await _use_memory(ctx, ev, curated)
        await super()._init_context(ctx, ev)

    async def _get_llm_response(
        self, ctx: Context, llm_input: list[ChatMessage], agent: BaseWorkflowAgent
    ) -> ChatResponse:
        if isinstance(agent, CuratedAgent):
            return await agent._get_llm_response(ctx, llm_input)
        return await super()._get_llm_response(ctx, llm_input, agent)


async def _use_memory(ctx: Any, ev: Any, agent: CuratedAgent) -> None:
    """Put the memory that was passed to a run into its context, or a new one where there is none.

    LlamaIndex looks at a memory only in a context that has none yet.
    """
    given = ev.get("memory", default=None)
    if given is None and await ctx.store.get("memory", default=None) is None:
        given = agent.new_memory()
    if given is not None:
        await ctx.store.set("memory", given)


async def _is_last_step(ctx: Any) -> bool:
    if await ctx.store.get("early_stopping_method", default="force") != "generate":
        return False
    number = await ctx.store.get("num_iterations", default=0)
    return bool(number + 1 >= await ctx.store.get("max_iterations", default=number + 2))


async def _show_state(ctx: Any, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Show the state in the question at every step, as it was when the run began.

    LlamaIndex writes it into the message it got from the memory, at the first step only, and
    relies on a memory that hands out its own objects. The state of the beginning stays, because
    what was sent is not changed.
    """
    store, out = ctx.store, list(messages)
    if not await store.get("state", default=None) or not out:
        return out
    if await store.get("num_iterations", default=0) == 0:
        texts = _texts_of(out[-1])
        if out[-1].role.value == "user" and texts:
            await store.set(_STATED, texts[-1].text)
        return out
    asked = await store.get("user_msg_str", default=None)
    stated = await store.get(_STATED, default=None)
    for place in range(len(out) - 1, -1, -1):
        texts = _texts_of(out[place])
        if out[place].role.value != "user" or not texts or stated is None:
            continue
        if "\n".join(block.text for block in texts) == asked:
            out[place] = copy_value(out[place])
            _texts_of(out[place])[-1].text = stated
            break
    return out


def _texts_of(message: ChatMessage) -> list[TextBlock]:
    return [block for block in message.blocks if isinstance(block, TextBlock)]
