"""Agents whose every model call is curated: the memory's view, and what the run has done so far."""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from typing import Any

from llama_index.core import Settings
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import LLM
from llama_index.core.memory import BaseMemory
from llama_index.core.workflow import Context, Workflow
from pydantic import Field

from history_curator.config import check_names
from history_curator.entries import recall_tool_name
from history_curator.record.recall import RecallRequest
from llamaindex_history_curator import tools_and_events
from llamaindex_history_curator.llm import CuratedLLM
from llamaindex_history_curator.memory import CuratedMemory
from llamaindex_history_curator.messages import FORMAT
from llamaindex_history_curator.models import CURATOR_OPTIONS, FIXES

_OPTIONS = ({*CURATOR_OPTIONS} - {"name"}) | {"token_limit", "mark_cache", "curator"}
_ARGUMENTS = {*inspect.signature(Workflow.__init__).parameters} - {"self", "args", "kwargs"}
_STATED = "history_curator_stated"


class CuratedAgent(BaseWorkflowAgent):
    """The parts that all kinds of curated agents share: their LLM is a `CuratedLLM`."""

    llm: LLM = Field(frozen=True)

    def __init__(self, *, llm: LLM | None = None, **kwargs: Any) -> None:
        fields = type(self).model_fields
        check_names(type(self).__name__, kwargs, {*fields, *_ARGUMENTS, *_OPTIONS}, FIXES)
        options = {name: kwargs.pop(name) for name in _OPTIONS if name in kwargs}
        if options.get("curator") is None:
            options["name"] = kwargs.get("name", fields["name"].default)
        curated = CuratedLLM(llm or Settings.llm, **options)
        curated._place = "agent"
        super().__init__(llm=curated, **kwargs)
        tools, wanted = list[Any](self.tools or ()), curated.curator.recall_tool
        if wanted and not any(tool.metadata.fn_schema is RecallRequest for tool in tools):
            # Among the agent's own tools, because a workflow of several agents looks there only.
            counter, name = curated.curator.counter, recall_tool_name(wanted)
            self.tools = [*tools, tools_and_events.recall_tool(counter=counter, name=name)]

    async def take_step(self, ctx: Any, llm_input: Any, tools: Any, memory: Any) -> AgentOutput:
        """Take one step from a curated view of everything so far."""
        llm_input = await _show_state(ctx, llm_input)
        output: AgentOutput = await super().take_step(ctx, llm_input, tools, memory)  # type: ignore[safe-super]
        done = 1 + await ctx.store.get("num_iterations", default=0)
        if done >= await ctx.store.get("max_iterations", default=done + 1):
            # LlamaIndex stops the run here, and a last answer is asked for from the memory alone.
            await self._remember_run(ctx, memory)
        return output

    async def _remember_run(self, ctx: Any, memory: BaseMemory) -> None:
        await memory.aput_messages(await ctx.store.get("scratchpad", default=[]))
        await ctx.store.set("scratchpad", [])

    async def _init_context(self, ctx: Context, ev: Any) -> None:
        await _use_memory(ctx, ev, self)
        await super()._init_context(ctx, ev)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class CuratedFunctionAgent(CuratedAgent, FunctionAgent):
    """A `FunctionAgent` whose every model call is a curated view of everything so far.

    Works with any memory, and in an `AgentWorkflow`; without a memory it gets a `CuratedMemory`. The
    arguments are those of `FunctionAgent` and of `CuratedLLM`, which its `llm` becomes.

    Examples:
        >>> from llama_index.core.llms import MockLLM
        >>> CuratedFunctionAgent(llm=MockLLM(), tools=[], token_limit=16_000)
        CuratedFunctionAgent('Agent')
    """


class CuratedReActAgent(CuratedAgent, ReActAgent):
    """A `ReActAgent` whose every model call is a curated view of everything so far.

    Actions and observations are curated as calls and results. A system message from memory is kept.
    The arguments are those of `ReActAgent` and of `CuratedLLM`, see `CuratedFunctionAgent`.

    Examples:
        >>> from llama_index.core.llms import MockLLM
        >>> CuratedReActAgent(llm=MockLLM(), tools=[], token_limit=16_000)
        CuratedReActAgent('Agent')
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        role = self.formatter.observation_role
        curated: Any = self.llm
        curated._read = lambda messages: tools_and_events.read_react_steps(messages, _steps.get())
        curated._write = lambda messages: tools_and_events.write_react_steps(messages, role)

    async def take_step(self, ctx: Any, llm_input: Any, tools: Any, memory: Any) -> AgentOutput:
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

    Unlike a plain one it uses a memory that is passed also in a context that had another, and starts
    with a `CuratedMemory` where none is passed.

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


async def _use_memory(ctx: Any, ev: Any, agent: CuratedAgent) -> None:
    """Put the memory that was passed to a run into its context, or a new one where there is none.

    LlamaIndex looks at a memory only in a context that has none yet.
    """
    given = ev.get("memory", default=None)
    if given is None and await ctx.store.get("memory", default=None) is None:
        llm: Any = agent.llm
        limit, rules, recalls = llm.curator.max_tokens, llm.curator.profile, llm.curator.recall_tool
        options = {"token_limit": limit, "provider": rules.name, "recall_tool": recalls}
        given = CuratedMemory.from_defaults(llm=llm.llm, **options)
    if given is not None:
        await ctx.store.set("memory", given)


async def _show_state(ctx: Any, messages: list[ChatMessage]) -> list[ChatMessage]:
    """Show the state in the question at every step, as it was when the run began.

    LlamaIndex writes it into the message it got from the memory, at the first step only, and
    relies on a memory that hands out its own objects.
    """
    asked = await ctx.store.get("user_msg_str", default=None)
    if await ctx.store.get("num_iterations", default=0) == 0:
        last = (messages[-1].content or "") if messages else ""
        await ctx.store.set(_STATED, last if str(asked) in last else asked)
        return messages
    stated = await ctx.store.get(_STATED, default=asked)
    out = list(messages)
    for place, one in enumerate(messages):
        if one.role.value == "user" and one.content == asked != stated:
            (entry,) = FORMAT.read(one, place)
            (out[place],) = FORMAT.write([entry.evolve(content=stated)])
    return out
