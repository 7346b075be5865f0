"""`CuratedLLM`: any LLM, with every chat curated on the way in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
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
from llama_index.core.prompts import ChatPromptTemplate
from pydantic import BaseModel, Field, PrivateAttr

from history_curator.config import check_names
from history_curator.curator import Curation
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.integrations import RETRIES, CuratedModelCall, note_accepted
from history_curator.run_steps import Call, Steps, run_async, run_sync
from history_curator.tokens import read_usage, shorten_tokens
from llamaindex_history_curator import models, tools_and_events
from llamaindex_history_curator.messages import FORMAT
from llamaindex_history_curator.models import tool_schemas
from llamaindex_history_curator.tools_and_events import FRAME_TOKENS, LEFT_OUT, span

Model = TypeVar("Model", bound=BaseModel)
_TOOLS = "history_curator_tools"


class CuratedLLM(FunctionCallingLLM):
    """Wraps an LLM so that every chat, with or without tools, is sent as a curated view.

    Answers, streams and errors of the wrapped LLM pass through, and structured answers are asked for
    its own way. A chat that the provider refuses as too long is repeated with a smaller view.

    `token_limit` is the budget of every call, tools included; by default what the LLM takes.
    `mark_cache` puts a `CachePoint` where the cache plan says it pays, for LLMs that take it.
    `shorten_context` is for chat engines that retrieve: text that alone does not fit is shortened in
    its middle, with a warning in the log, rather than refused. Further arguments are ``managers``,
    the options of `Curator` and the fields of every LLM; a `curator` stands for them and the limit.

    Examples:
        >>> from llama_index.core.llms import ChatMessage, MockLLM
        >>> llm = CuratedLLM(llm=MockLLM(), token_limit=100)
        >>> said = [ChatMessage("word " * 30, role=role) for role in ("user", "assistant")] * 9
        >>> len(llm.chat([*said, ChatMessage("and?")]).message.content) < 1000
        True
    """

    llm: SerializeAsAny[LLM] = Field(frozen=True)
    token_limit: int | None = Field(default=None, frozen=True)
    mark_cache: bool = Field(default=False, frozen=True)
    shorten_context: bool = Field(default=False, frozen=True)
    curator: Any = Field(default=None, exclude=True, frozen=True)

    _place: str = PrivateAttr(default="llm")
    _read: Callable[..., list[ChatMessage]] = PrivateAttr(default=list)
    _write: Callable[..., list[ChatMessage]] = PrivateAttr(default=list)
    _adapter: models.AdapterWriter = PrivateAttr()

    def __init__(self, llm: LLM, **data: Any) -> None:
        known = {*type(self).model_fields, *models.CURATOR_OPTIONS, "class_name"}
        check_names(self.class_name(), data, known, models.FIXES)
        options = {name: data.pop(name) for name in models.CURATOR_OPTIONS if name in data}
        given, limit = data.pop("curator", None), data.get("token_limit")
        curator = models.make_curator(llm, given, limit, **options)
        inherited = {name: getattr(llm, name) for name in LLM.model_fields}
        super().__init__(llm=llm, curator=curator, **{**inherited, **data})
        self._adapter = models.AdapterWriter(curator.profile.name, llm)

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows this LLM by."""
        return "CuratedLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """The metadata of the wrapped LLM."""
        return self.llm.metadata

    @span
    def curate_call(
        self, messages: Sequence[ChatMessage], tools: Sequence[Any] | None = None
    ) -> Curation:
        """Return the curation of one call: its messages are what would be sent."""
        options = {"tail": "request", "tools": tool_schemas(tools), "format": FORMAT}
        return self._write_view(self.curator.curate(list(messages), **options))

    def _write_view(self, curation: Curation) -> Curation:
        """Return a curation with its messages as the LLM's adapter takes them."""
        tools_and_events.publish(curation, self._place)
        messages = curation.messages
        if self.curator.mode != "shadow":
            messages = self._adapter(messages)
            if self.mark_cache and models.takes_cache_points(self.llm):
                marked = tools_and_events.mark_cache(messages, curation, self._model or None)
                messages = self._adapter(marked)
        return replace(curation, messages=self._write(messages))

    @property
    def _model(self) -> str:
        return self.llm.metadata.model_name

    def _send(
        self, messages: Sequence[ChatMessage], tools: Any, ask: Any, aask: Any
    ) -> Steps[tuple[Curation, Any]]:
        curations: list[Curation] = []
        options: dict[str, Any] = {"tail": "request", "tools": tool_schemas(tools)}
        given = self._read(messages)
        transcript = tools_and_events.Transcript.read(given)
        if transcript is not None:
            given = transcript.messages
            options |= {"tail": "history", "reserve": FRAME_TOKENS}

        def send(curation: Curation) -> Call:
            curations.append(self._write_view(curation))
            view = curations[-1].messages
            return Call(ask, aask, (transcript.write(view) if transcript else view,))

        call = CuratedModelCall(
            self.curator,
            given,
            {**options, "format": FORMAT},
            send,
            retries=0 if isinstance(self.llm, CuratedLLM) else RETRIES,
            usage=lambda _: None,  # every answer is observed, not only surprises
            model=self._model,
        )
        # A provider may count more than we do: each time more is left out than seemed needed.
        for factor in (1, 2, 4, 8, 16):
            try:
                answer = yield from call.body()
            except BudgetUnsatisfiableError as error:  # noqa: PERF203
                if not self.shorten_context or factor == 16:
                    raise
                excess = factor * (error.needed - error.max_tokens)
                shortened = (call.messages, excess, self.curator.counter)
                call.messages = tools_and_events.shorten_context(*shortened)
            else:
                break
        return curations[-1], answer

    def _answer(self, messages: Sequence[ChatMessage], kwargs: Any) -> Steps[ChatResponse]:
        ask, aask, tools = self._bind("chat", kwargs)
        curation, answer = yield from self._send(messages, tools, ask, aask)
        curation.observe(answer)
        return answer  # type: ignore[no-any-return]

    def _open_stream(self, messages: Sequence[ChatMessage], kwargs: Any) -> Steps[Any]:
        """Return a curation and its stream, once a chunk is there: a refusal comes instead of it."""
        ask, aask, tools = self._bind("stream_chat", kwargs)

        def start(view: Any) -> Any:
            chunks = iter(ask(view))
            return chain(list(islice(chunks, 1)), chunks)

        async def astart(view: Any) -> Any:
            chunks = aiter(await aask(view))
            try:
                return _prepend(await anext(chunks), chunks)
            except StopAsyncIteration:
                return chunks

        return (yield from self._send(messages, tools, start, astart))

    def _bind(self, method: str, kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Return a method of the LLM, its async form, and the tools; both methods only lack the view."""
        tools = kwargs.pop(_TOOLS, None)
        given = () if tools is None else (tools, None)
        llm, suffix = (self.llm, "") if tools is None else (self._calling_llm, "_with_tools")
        names = (f"{method}{suffix}", f"a{method}{suffix}")
        ask, aask = (partial(getattr(llm, name), *given, **kwargs) for name in names)
        return ask, aask, tools or kwargs.get("tools")

    @span
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Chat from a curated view."""
        return run_sync(self._answer(messages, kwargs))

    @span
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Chat from a curated view."""
        return await run_async(self._answer(messages, kwargs))

    @span
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Chat from a curated view, and take the usage of a stream that is read to its end."""
        curation, chunks = run_sync(self._open_stream(messages, kwargs))

        def gen() -> ChatResponseGen:
            usage = None
            for chunk in chunks:
                usage = read_usage(chunk) or usage
                yield chunk
            self._observe(curation, usage)

        return gen()

    @span
    async def astream_chat(
        self, messages: Sequence[ChatMessage], **kwargs: Any
    ) -> ChatResponseAsyncGen:
        """Chat from a curated view; see `stream_chat`."""
        curation, chunks = await run_async(self._open_stream(messages, kwargs))

        async def gen() -> ChatResponseAsyncGen:
            usage = None
            async for chunk in chunks:
                usage = read_usage(chunk) or usage
                yield chunk
            self._observe(curation, usage)

        return gen()

    def _observe(self, curation: Curation, usage: Any) -> None:
        curation.observe(usage)
        note_accepted(self.curator, self._model, usage)

    def _prepare_chat_with_tools(  # type: ignore[override]
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        # Older adapters do not take all options, so only those that were set are passed on.
        asked = ChatMessage(user_msg, role="user") if isinstance(user_msg, str) else user_msg
        messages = [*(chat_history or ()), *(() if asked is None else (asked,))]
        given = {name: value for name, value in kwargs.items() if value is not False}
        return {"messages": messages, _TOOLS: tools, **given}

    def get_tool_calls_from_response(self, *args: Any, **kwargs: Any) -> list[ToolSelection]:
        """Return the calls of a response, as the wrapped LLM reads them."""
        return self._calling_llm.get_tool_calls_from_response(*args, **kwargs)

    @property
    def _calling_llm(self) -> FunctionCallingLLM:
        if isinstance(self.llm, FunctionCallingLLM):
            return self.llm
        name = self.llm.class_name()
        raise NotImplementedError(f"{name} cannot call functions. Fix: use a ReAct agent with it.")

    # Structured answers: the wrapped LLM's own way, native where it has one. Streamed ones are chats
    # with tools.

    def _predict(self, output_cls: type[BaseModel], prompt: Any, kwargs: Any) -> Steps[Any]:
        options = {"llm_kwargs": kwargs.pop("llm_kwargs", None)}
        messages = prompt.format_messages(llm=self.llm, **kwargs)
        function = {"name": output_cls.__name__, "parameters": output_cls.model_json_schema()}
        llm: Any = self.llm
        ready: Any = ReadyPrompt
        _, answer = yield from self._send(
            messages,
            [{"type": "function", "function": function}],
            lambda view: llm.structured_predict(output_cls, ready(view), **options),
            lambda view: llm.astructured_predict(output_cls, ready(view), **options),
        )
        return answer

    @span
    def structured_predict(self, output_cls: type[Model], prompt: Any, **kwargs: Any) -> Model:
        """Return an answer of a class, from a curated view."""
        steps = self._predict(output_cls, prompt, kwargs)
        return run_sync(steps)  # type: ignore[no-any-return]

    @span
    async def astructured_predict(
        self, output_cls: type[Model], prompt: Any, **kwargs: Any
    ) -> Model:
        """Return an answer of a class, from a curated view."""
        steps = self._predict(output_cls, prompt, kwargs)
        return await run_async(steps)

    # Completions have no history to curate; engines write one as text, to condense a question.

    def _shorten(self, prompt: str) -> str:
        budget, counter = self.curator.max_tokens, self.curator.counter
        if not self.shorten_context or budget is None:
            return prompt
        return shorten_tokens(prompt, budget - FRAME_TOKENS, counter, marker=LEFT_OUT)

    def complete(self, prompt: str, *args: Any, **kwargs: Any) -> CompletionResponse:
        """Complete a prompt."""
        return self.llm.complete(self._shorten(prompt), *args, **kwargs)

    async def acomplete(self, prompt: str, *args: Any, **kwargs: Any) -> CompletionResponse:
        """Complete a prompt."""
        return await self.llm.acomplete(self._shorten(prompt), *args, **kwargs)

    def stream_complete(self, prompt: str, *args: Any, **kwargs: Any) -> CompletionResponseGen:
        """Complete a prompt."""
        return self.llm.stream_complete(self._shorten(prompt), *args, **kwargs)

    async def astream_complete(
        self, prompt: str, *args: Any, **kwargs: Any
    ) -> CompletionResponseAsyncGen:
        """Complete a prompt."""
        return await self.llm.astream_complete(self._shorten(prompt), *args, **kwargs)

    def __repr__(self) -> str:
        return f"CuratedLLM({self.llm.class_name()})"

    __str__ = __repr__


async def _prepend(first: Any, rest: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    yield first
    async for chunk in rest:
        yield chunk


class ReadyPrompt(ChatPromptTemplate):  # type: ignore[no-redef]
    """Messages as a prompt that fills in no ``{…}``, for methods of an LLM that only take a prompt."""

    def format_messages(self, llm: Any = None, **kwargs: Any) -> list[ChatMessage]:
        """Return the messages, with the instructions of a parser."""
        messages, parser = list(self.message_templates), self.output_parser
        return parser.format_messages(messages) if parser else messages
