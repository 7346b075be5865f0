"""`CuratedLLM`: any LLM, with every chat curated on the way in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.bridge.pydantic import Field, PrivateAttr, SerializeAsAny
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools.types import BaseTool

from history_curator.curator import Curator
from llamaindex_history_curator._events import span
from llamaindex_history_curator._setup import check_alone, check_keywords, make_curator
from llamaindex_history_curator._view import Viewer

__all__ = ["CuratedLLM"]

_INHERITED = (
    "callback_manager",
    "completion_to_prompt",
    "messages_to_prompt",
    "output_parser",
    "pydantic_program_mode",
    "query_wrapper_prompt",
    "system_prompt",
)


class CuratedLLM(FunctionCallingLLM):
    """Wraps an LLM so that every chat, with or without tools, is sent as a curated view.

    For everything that has no socket of its own: query pipelines, custom workflows, an agent of
    another kind. Answers, streams and errors of the wrapped LLM pass through untouched.

    Args:
        llm: the LLM to wrap.
        token_limit: the budget of every call, tools included; by default what the LLM takes.
        managers: history managers, in order.
        provider: whose rules hold; ``"auto"`` finds out from the LLM.
        counter: an encoding, a model name or a `TokenCounter`; by default the LLM's.
        mark_cache: put a `CachePoint` at the end of the stable prefix.
        curator: a curator made elsewhere, instead of limit, managers, provider and counter.
        config: a `CuratorConfig`, a mapping or a file; limit, provider and counter win over it.
        objects: what ``"@name"`` options of the config stand for.

    Raises:
        ConfigurationError: for an argument or a provider nobody knows.

    Example:
        >>> from llama_index.core.llms import ChatMessage, MockLLM
        >>> llm = CuratedLLM(llm=MockLLM(), token_limit=100)
        >>> said = [ChatMessage("word " * 30, role=role) for role in ("user", "assistant")] * 9
        >>> len(llm.chat([*said, ChatMessage("and?")]).message.content) < 1000
        True
    """

    llm: SerializeAsAny[LLM]
    token_limit: int | None = Field(default=None, gt=0)
    managers: Any = Field(default=(), exclude=True)
    provider: str = "auto"
    counter: Any = Field(default=None, exclude=True)
    mark_cache: bool = False
    curator: Any = Field(default=None, exclude=True)
    config: Any = Field(default=None, exclude=True)
    objects: Any = Field(default=None, exclude=True)

    _viewer: Viewer = PrivateAttr()

    def __init__(self, llm: LLM, **data: Any) -> None:
        check_keywords(self.class_name(), data, {*type(self).model_fields, "class_name"})
        inherited = {name: getattr(llm, name) for name in _INHERITED if hasattr(llm, name)}
        super().__init__(llm=llm, **{**inherited, **data})
        check_alone(self.curator, config=self.config, objects=self.objects)
        curator: Curator = self.curator or make_curator(
            self.managers,
            llm=llm,
            token_limit=self.token_limit,
            provider=self.provider,
            counter=self.counter,
            config=self.config,
            objects=self.objects,
        )
        self._viewer = Viewer(curator, "llm", mark_cache=self.mark_cache, llm=llm)

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows this LLM by."""
        return "CuratedLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """What the wrapped LLM says about itself."""
        return self.llm.metadata

    @span
    def curate_call(
        self, messages: Sequence[ChatMessage], tools: Sequence[BaseTool] | None = None
    ) -> list[ChatMessage]:
        """Return the view of the messages one call would send."""
        return self._viewer.view(messages, tools=tools)

    @span
    async def acurate_call(
        self, messages: Sequence[ChatMessage], tools: Sequence[BaseTool] | None = None
    ) -> list[ChatMessage]:
        """Return the view of the messages one call would send."""
        return await self._viewer.aview(messages, tools=tools)

    # Chat.

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Chat from a curated view."""
        return self.llm.chat(self.curate_call(messages, kwargs.get("tools")), **kwargs)

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Chat from a curated view."""
        view = await self.acurate_call(messages, kwargs.get("tools"))
        return await self.llm.achat(view, **kwargs)

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Chat from a curated view."""
        return self.llm.stream_chat(self.curate_call(messages, kwargs.get("tools")), **kwargs)

    async def astream_chat(
        self, messages: Sequence[ChatMessage], **kwargs: Any
    ) -> ChatResponseAsyncGen:
        """Chat from a curated view."""
        view = await self.acurate_call(messages, kwargs.get("tools"))
        return await self.llm.astream_chat(view, **kwargs)

    # Chat with tools: the wrapped LLM's own way, from a view that leaves room for the schemas.
    # Options go through as they come, since older adapters do not take all of them.

    def chat_with_tools(  # type: ignore[override]
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        **kwargs: Any,
    ) -> ChatResponse:
        """Chat with tools from a curated view."""
        view = self.curate_call(_joined(chat_history, user_msg), tools)
        return self._calling.chat_with_tools(tools, chat_history=view, **kwargs)

    async def achat_with_tools(  # type: ignore[override]
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        **kwargs: Any,
    ) -> ChatResponse:
        """Chat with tools from a curated view."""
        view = await self.acurate_call(_joined(chat_history, user_msg), tools)
        return await self._calling.achat_with_tools(tools, chat_history=view, **kwargs)

    def stream_chat_with_tools(  # type: ignore[override]
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        **kwargs: Any,
    ) -> ChatResponseGen:
        """Chat with tools from a curated view."""
        view = self.curate_call(_joined(chat_history, user_msg), tools)
        return self._calling.stream_chat_with_tools(tools, chat_history=view, **kwargs)

    async def astream_chat_with_tools(  # type: ignore[override]
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        **kwargs: Any,
    ) -> ChatResponseAsyncGen:
        """Chat with tools from a curated view."""
        view = await self.acurate_call(_joined(chat_history, user_msg), tools)
        return await self._calling.astream_chat_with_tools(tools, chat_history=view, **kwargs)

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """Return the calls of a response, as the wrapped LLM reads them."""
        return self._calling.get_tool_calls_from_response(
            response, error_on_no_tool_call=error_on_no_tool_call, **kwargs
        )

    def _prepare_chat_with_tools(self, tools: Sequence[BaseTool], **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        return self._calling._prepare_chat_with_tools(tools, **kwargs)

    @property
    def _calling(self) -> FunctionCallingLLM:
        if isinstance(self.llm, FunctionCallingLLM):
            return self.llm
        raise NotImplementedError(
            f"{self.llm.class_name()} cannot call functions. Fix: use a ReAct agent with it."
        )

    # Completion has no history to curate.

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Complete a prompt."""
        return self.llm.complete(prompt, formatted=formatted, **kwargs)

    async def acomplete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        """Complete a prompt."""
        return await self.llm.acomplete(prompt, formatted=formatted, **kwargs)

    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        """Complete a prompt."""
        return self.llm.stream_complete(prompt, formatted=formatted, **kwargs)

    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseAsyncGen:
        """Complete a prompt."""
        return await self.llm.astream_complete(prompt, formatted=formatted, **kwargs)

    def __repr__(self) -> str:
        return f"CuratedLLM({self.llm.class_name()})"

    __str__ = __repr__


def _joined(
    history: list[ChatMessage] | None, question: str | ChatMessage | None
) -> list[ChatMessage]:
    if question is None:
        return list(history or ())
    if isinstance(question, str):
        question = ChatMessage(role="user", content=question)
    return [*(history or ()), question]
