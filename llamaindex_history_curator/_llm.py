"""`CuratedLLM`: any LLM, with every chat curated on the way in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

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
from llama_index.core.bridge.pydantic import SerializeAsAny
from llama_index.core.llms import LLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.tools.types import BaseTool
from pydantic import BaseModel

from llamaindex_history_curator._events import span
from llamaindex_history_curator._options import check_keywords
from llamaindex_history_curator._socket import Socket
from llamaindex_history_curator._view import View

Model = TypeVar("Model", bound=BaseModel)

_INHERITED = (
    "callback_manager",
    "completion_to_prompt",
    "messages_to_prompt",
    "output_parser",
    "pydantic_program_mode",
    "query_wrapper_prompt",
    "system_prompt",
)


class CuratedLLM(Socket, FunctionCallingLLM):
    """Wraps an LLM so that every chat, with or without tools, is sent as a curated view.

    For everything that has no socket of its own: custom workflows, an agent of another kind, a
    chat engine whose retrieved text must stay within the budget as well. Answers, streams and
    errors of the wrapped LLM pass through untouched, structured answers are asked for its own
    way, and whatever else it has, such as its ``model``, is there. What a chat reports as its
    usage is noted, and the next view is counted from there. A chat that the provider refuses as
    too long is repeated with a smaller view, at most twice.

    Args:
        llm: the LLM to wrap.
        token_limit: the budget of every call, tools included; by default what the LLM takes.
        managers: history managers, in order.
        provider: whose rules hold; ``"auto"`` finds out from the LLM.
        counter: an encoding, a model name or a `TokenCounter`; by default the LLM's.
        mark_cache: put a `CachePoint` where the cache plan says it pays.
        retrieve: bring what matters to the question back from before the cut; for long chats.
        curator: a curator made elsewhere, instead of limit, managers, provider and counter.
        config: a `CuratorConfig`, a mapping or a file; limit, provider and counter win over it.
        objects: what ``"@name"`` options of the config stand for.

    Raises:
        ConfigurationError: for an argument or a provider nobody knows.

    Examples:
        >>> from llama_index.core.llms import ChatMessage, MockLLM
        >>> llm = CuratedLLM(llm=MockLLM(), token_limit=100)
        >>> said = [ChatMessage("word " * 30, role=role) for role in ("user", "assistant")] * 9
        >>> len(llm.chat([*said, ChatMessage("and?")]).message.content) < 1000
        True
    """

    llm: SerializeAsAny[LLM]

    def __init__(self, llm: LLM, **data: Any) -> None:
        check_keywords(self.class_name(), data, {*type(self).model_fields, "class_name"})
        inherited = {name: getattr(llm, name) for name in _INHERITED if hasattr(llm, name)}
        super().__init__(llm=llm, **{**inherited, **data})
        self._check_settings()
        self._viewer()

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows this LLM by."""
        return "CuratedLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """What the wrapped LLM says about itself."""
        return self.llm.metadata

    def __getattr__(self, name: str) -> Any:
        # Whatever else the LLM has: its model, its temperature, a method of its own.
        try:
            return super().__getattr__(name)  # type: ignore[misc]
        except AttributeError:
            llm = self.__dict__.get("llm")
            if llm is None or name.startswith("_"):
                raise
            return getattr(llm, name)

    def __setattr__(self, name: str, value: Any) -> None:
        llm = self.__dict__.get("llm")
        if name in type(self).model_fields or name.startswith("_") or not hasattr(llm, name):
            super().__setattr__(name, value)
            return
        setattr(llm, name, value)
        self._viewing = None  # the budget of another model

    @span
    def curate_call(
        self, messages: Sequence[ChatMessage], tools: Sequence[Any] | None = None
    ) -> View:
        """Return the view of the messages one call would send."""
        return self._viewer().view(messages, tools=tools)

    @span
    async def acurate_call(
        self, messages: Sequence[ChatMessage], tools: Sequence[Any] | None = None
    ) -> View:
        """Return the view of the messages one call would send."""
        return await self._viewer().aview(messages, tools=tools)

    # Chat.

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Chat from a curated view."""
        view = self.curate_call(messages, kwargs.get("tools"))
        return view.asked(lambda view: self.llm.chat(view, **kwargs))

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Chat from a curated view."""
        view = await self.acurate_call(messages, kwargs.get("tools"))
        return await view.aasked(lambda view: self.llm.achat(view, **kwargs))

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Chat from a curated view."""
        view = self.curate_call(messages, kwargs.get("tools"))
        return view.streamed(lambda view: self.llm.stream_chat(view, **kwargs))

    async def astream_chat(
        self, messages: Sequence[ChatMessage], **kwargs: Any
    ) -> ChatResponseAsyncGen:
        """Chat from a curated view."""
        view = await self.acurate_call(messages, kwargs.get("tools"))
        return await view.astreamed(lambda view: self.llm.astream_chat(view, **kwargs))

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
        ask = self._calling.chat_with_tools
        return view.asked(lambda view: ask(tools, chat_history=view, **kwargs))

    async def achat_with_tools(  # type: ignore[override]
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        **kwargs: Any,
    ) -> ChatResponse:
        """Chat with tools from a curated view."""
        view = await self.acurate_call(_joined(chat_history, user_msg), tools)
        ask = self._calling.achat_with_tools
        return await view.aasked(lambda view: ask(tools, chat_history=view, **kwargs))

    def stream_chat_with_tools(  # type: ignore[override]
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        **kwargs: Any,
    ) -> ChatResponseGen:
        """Chat with tools from a curated view."""
        view = self.curate_call(_joined(chat_history, user_msg), tools)
        ask = self._calling.stream_chat_with_tools
        return view.streamed(lambda view: ask(tools, chat_history=view, **kwargs))

    async def astream_chat_with_tools(  # type: ignore[override]
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        **kwargs: Any,
    ) -> ChatResponseAsyncGen:
        """Chat with tools from a curated view."""
        view = await self.acurate_call(_joined(chat_history, user_msg), tools)
        ask = self._calling.astream_chat_with_tools
        return await view.astreamed(lambda view: ask(tools, chat_history=view, **kwargs))

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

    # Structured answers: the wrapped LLM's own way, native where it has one.

    def structured_predict(
        self,
        output_cls: type[Model],
        prompt: Any,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Model:
        """Return an answer of a class, from a curated view."""
        view = self.curate_call(self._formatted(prompt, prompt_args), [_schema(output_cls)])
        ask: Callable[..., Model] = self.llm.structured_predict
        return view.sent(lambda view: ask(output_cls, _ready(view), llm_kwargs=llm_kwargs))

    async def astructured_predict(
        self,
        output_cls: type[Model],
        prompt: Any,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Model:
        """Return an answer of a class, from a curated view."""
        messages = self._formatted(prompt, prompt_args)
        view = await self.acurate_call(messages, [_schema(output_cls)])
        ask = self.llm.astructured_predict
        return await view.asent(lambda view: ask(output_cls, _ready(view), llm_kwargs=llm_kwargs))

    def stream_structured_predict(
        self,
        output_cls: type[Model],
        prompt: Any,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Any:
        """Stream an answer of a class, from a curated view."""
        view = self.curate_call(self._formatted(prompt, prompt_args), [_schema(output_cls)])
        return self.llm.stream_structured_predict(output_cls, _ready(view), llm_kwargs=llm_kwargs)

    async def astream_structured_predict(
        self,
        output_cls: type[Model],
        prompt: Any,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Any:
        """Stream an answer of a class, from a curated view."""
        messages = self._formatted(prompt, prompt_args)
        view = await self.acurate_call(messages, [_schema(output_cls)])
        return await self.llm.astream_structured_predict(
            output_cls, _ready(view), llm_kwargs=llm_kwargs
        )

    def _formatted(self, prompt: Any, given: dict[str, Any]) -> list[ChatMessage]:
        return list(prompt.format_messages(llm=self.llm, **given))

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


def _ready(view: list[ChatMessage]) -> Any:
    return ReadyPrompt.of(view)


def _schema(output_cls: type[BaseModel]) -> dict[str, Any]:
    """Return a class as the tool or response format it is sent as."""
    function = {"name": output_cls.__name__, "parameters": output_cls.model_json_schema()}
    return {"type": "function", "function": function}


def _joined(
    history: list[ChatMessage] | None, question: str | ChatMessage | None
) -> list[ChatMessage]:
    if question is None:
        return list(history or ())
    if isinstance(question, str):
        question = ChatMessage(role="user", content=question)
    return [*(history or ()), question]


class ReadyPrompt(BasePromptTemplate):  # type: ignore[no-redef]
    """Messages as a prompt, for methods of an LLM that take a prompt only.

    Examples:
        >>> prompt = ReadyPrompt.of([ChatMessage("braces {stay}")])
        >>> prompt.format_messages(stay="gone")[0].content
        'braces {stay}'
    """

    ready: list[ChatMessage]

    @classmethod
    def of(cls, messages: Sequence[ChatMessage]) -> ReadyPrompt:
        """Return a prompt of messages."""
        return cls(
            ready=list(messages), metadata={}, template_vars=[], kwargs={}, output_parser=None
        )

    def partial_format(self, **kwargs: Any) -> ReadyPrompt:
        """Return the same."""
        return self

    def format(self, llm: Any = None, **kwargs: Any) -> str:
        """Return the messages as one text."""
        return "\n".join(str(message) for message in self.format_messages(llm))

    def format_messages(self, llm: Any = None, **kwargs: Any) -> list[ChatMessage]:
        """Return the messages, with what a parser asks for."""
        if self.output_parser is None:
            return list(self.ready)
        return self.output_parser.format_messages(list(self.ready))

    def get_template(self, llm: Any = None) -> str:
        """Return the messages as one text."""
        return self.format(llm)
