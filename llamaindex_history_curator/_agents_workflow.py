"""`CuratedAgentWorkflow`: several agents over one record."""

from __future__ import annotations

from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.workflow import Context

from llamaindex_history_curator._agents import CuratedAgent
from llamaindex_history_curator._agents_run import use_memory


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
