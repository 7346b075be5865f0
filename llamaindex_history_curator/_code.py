"""`CuratedCodeActAgent`: an agent that writes code, with every model call curated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from llama_index.core.agent.workflow import CodeActAgent
from llama_index.core.agent.workflow.workflow_events import AgentOutput
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, ToolCallBlock
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import BaseTool

from history_curator.errors import ConfigurationError
from llamaindex_history_curator._agents import CuratedAgent
from llamaindex_history_curator._run import Run
from llamaindex_history_curator._setup import check_keywords
from llamaindex_history_curator._socket import Socket

_RESULT = "Result of executing the code given:"
_ID = "code-"
_OWN = frozenset((*Socket.model_fields, "recall"))
_ARGUMENTS = frozenset(
    ("code_execute_fn", "name", "description", "system_prompt", "tools", "tool_retriever",
     "can_handoff_to", "llm", "code_act_system_prompt", "streaming")
)  # fmt: skip


class CuratedCodeActAgent(CuratedAgent, CodeActAgent):
    """A `CodeActAgent` whose every model call is a curated view of everything so far.

    Code and what it printed are curated as calls and results, so a long output is shortened like
    a tool result and the question stays.

    Args:
        code_execute_fn: runs the code; see `CodeActAgent`, as for all arguments not listed here.
        token_limit: the budget of every call; by default what the LLM takes.
        managers: history managers, in order.
        provider: whose rules hold; ``"auto"`` finds out from the LLM.
        counter: an encoding, a model name or a `TokenCounter`; by default the LLM's.
        mark_cache: put a `CachePoint` where the cache plan says it pays.
        curator: a curator made elsewhere, instead of all of the above but the mark.
        config: a `CuratorConfig`, a mapping or a file.
        objects: what ``"@name"`` options of the config stand for.

    Raises:
        ConfigurationError: for an argument nobody knows, and for ``recall``: its tools cannot
            read the run they are called in.

    Example:
        >>> from llama_index.core.llms import MockLLM
        >>> CuratedCodeActAgent(code_execute_fn=lambda code: code, llm=MockLLM(), token_limit=9_000)
        CuratedCodeActAgent('code_act_agent')
    """

    _rides: ClassVar[bool] = False  # it is sent the view in words of its own

    def __init__(self, code_execute_fn: Any, **given: Any) -> None:
        check_keywords(type(self).__name__, given, _OWN | _ARGUMENTS)
        own = {name: given.pop(name) for name in _OWN & given.keys()}
        # The base class takes no further fields, so they are set when it is done.
        CodeActAgent.__init__(self, code_execute_fn, **given)
        self.__dict__.update(own)
        self.__pydantic_fields_set__.update(own)
        self._check_settings()

    def _check_settings(self) -> None:
        if self._recalls:
            raise ConfigurationError(
                "recall: code cannot call a tool that reads its own run. Fix: leave it off."
            )
        super()._check_settings()

    async def take_step(
        self,
        ctx: Any,
        llm_input: list[ChatMessage],
        tools: Sequence[BaseTool],
        memory: BaseMemory,
    ) -> AgentOutput:
        """Take one step from a curated view."""
        run = Run(self, ctx, memory)
        llm_input = await run.begin(llm_input)
        output = await super().take_step(ctx, llm_input, tools, run.memory)
        await run.end()
        return output

    async def _get_response(
        self, current_llm_input: list[ChatMessage], tools: Sequence[BaseTool]
    ) -> ChatResponse:
        view = await self._code_view(current_llm_input, tools)
        answer: ChatResponse = await super()._get_response(view, tools)
        return answer

    async def _get_streaming_response(
        self, ctx: Any, current_llm_input: list[ChatMessage], tools: Sequence[BaseTool]
    ) -> tuple[ChatResponse, str]:
        view = await self._code_view(current_llm_input, tools)
        answer: tuple[ChatResponse, str] = await super()._get_streaming_response(ctx, view, tools)
        return answer

    async def _code_view(
        self, messages: list[ChatMessage], tools: Sequence[Any]
    ) -> list[ChatMessage]:
        handoffs = [tool for tool in tools if tool.metadata.name == "handoff"]
        view = await self.curate_step(_as_exchanges(messages), handoffs)
        return [_as_text(message) for message in view]


def _as_exchanges(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return messages with code and its output as call and result."""
    out = list(messages)
    for place in range(1, len(out)):
        asked, told = out[place - 1], out[place]
        if told.role is not MessageRole.USER or asked.role is not MessageRole.ASSISTANT:
            continue
        if not (told.content or "").startswith(_RESULT) or "<execute>" not in (asked.content or ""):
            continue
        call = ToolCallBlock(tool_call_id=f"{_ID}{place}", tool_name="execute")
        keywords = {"tool_call_id": f"{_ID}{place}"}
        out[place - 1] = asked.model_copy(update={"blocks": [*asked.blocks, call]})
        out[place] = told.model_copy(
            update={"role": MessageRole.TOOL, "additional_kwargs": keywords}
        )
    return out


def _as_text(message: ChatMessage) -> ChatMessage:
    """Return a message of the view in the words the agent has for it."""
    if _is_ours(message.additional_kwargs.get("tool_call_id")):
        text = message.content or ""
        if not text.startswith(_RESULT):
            text = f"{_RESULT}\n\n{text}"
        return ChatMessage(role="user", content=text)
    kept = [block for block in message.blocks if not _is_ours(getattr(block, "tool_call_id", None))]
    if len(kept) == len(message.blocks):
        return message
    return message.model_copy(update={"blocks": kept})


def _is_ours(call_id: Any) -> bool:
    return isinstance(call_id, str) and call_id.startswith(_ID)
