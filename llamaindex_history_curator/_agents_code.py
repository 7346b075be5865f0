"""`CuratedCodeActAgent`: an agent that writes code, with every model call curated."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar

from llama_index.core.agent.workflow import CodeActAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.tools import BaseTool

from history_curator.errors import ConfigurationError
from llamaindex_history_curator._agents import CuratedAgent
from llamaindex_history_curator._options import check_keywords
from llamaindex_history_curator._react import Spoken
from llamaindex_history_curator._socket import Socket

_SPOKEN = Spoken("Result of executing the code given:", "\n\n", "code-")
_OWN = frozenset((*Socket.model_fields, "recall_tool"))
_ARGUMENTS = frozenset(inspect.signature(CodeActAgent.__init__).parameters) - {"self"}


class CuratedCodeActAgent(CuratedAgent, CodeActAgent):
    """A `CodeActAgent` whose every model call is a curated view of everything so far.

    Code and what it printed are curated as calls and results, so a long output is shortened like
    a tool result and the question stays.

    The arguments are those of `CodeActAgent` and those listed at `CuratedFunctionAgent`, without
    ``recall_tool``.

    Raises:
        ConfigurationError: for an argument nobody knows, and for ``recall_tool``: its tools cannot
            read the run they are called in.

    Examples:
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
                "recall_tool: code cannot call a tool that reads its own run. Fix: leave it off."
            )
        super()._check_settings()

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
        return self._spoken(await self.curate_step(_as_exchanges(messages), handoffs))

    def _spoken(self, view: list[ChatMessage]) -> list[ChatMessage]:
        return _SPOKEN.as_text(view)


def _as_exchanges(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return messages with code and its output as call and result."""
    out = list(messages)
    for place in range(1, len(out)):
        asked, told = out[place - 1], out[place]
        if told.role is not MessageRole.USER or asked.role is not MessageRole.ASSISTANT:
            continue
        if not (told.content or "").startswith(_SPOKEN.opening) or "<execute>" not in (
            asked.content or ""
        ):
            continue
        out[place - 1] = _SPOKEN.call(asked, place, "execute")
        out[place] = _SPOKEN.result(told, place)
    return out
