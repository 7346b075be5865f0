"""A view on its way to the LLM: sent, made smaller when it is refused, and told what was reported."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Sequence,
)
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from llama_index.core.base.llms.types import ChatMessage

from history_curator.curator import Curation
from history_curator.integrations import Ask, Body, CuratedCall, adrive, drive, is_too_long
from history_curator.tokens import read_usage

if TYPE_CHECKING:
    from llamaindex_history_curator._socket import Viewer

Answer = TypeVar("Answer")


class Request(NamedTuple):
    """What a view is curated for.

    Attributes:
        viewer: who makes it.
        messages: the conversation.
        tools: sent along.
        options: arguments of `Curator.curate`.
    """

    viewer: Viewer
    messages: list[ChatMessage]
    tools: Sequence[Any] | None
    options: dict[str, Any]


class View(list[ChatMessage]):
    """The messages of a view, to be sent; a smaller one is where the provider says it is too long.

    Told what the provider reported, the next view is counted from there.

    Args:
        messages: what is sent.
        curation: where they come from.
        request: what it was curated for.
    """

    __slots__ = ("_curation", "_request")

    def __init__(
        self, messages: Sequence[ChatMessage], curation: Curation, request: Request
    ) -> None:
        super().__init__(messages)
        self._curation = curation
        self._request = request

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (list(self),)  # a copy is messages, not somebody's view

    def observe(self, answer: Any) -> None:
        """Take what was reported: a `ChatResponse`, or the usage of any provider."""
        self._curation.observe(answer, model=self._request.viewer.model)

    def sent(self, ask: Callable[[View], Answer]) -> Answer:
        """Return what is answered to this view, or to a smaller one when it is refused as too long."""
        answer: Answer = drive(self._call(ask))
        return answer

    async def asent(
        self,
        ask: Callable[[View], Awaitable[Answer]],
        too_long: Callable[[Exception], bool] = is_too_long,
    ) -> Answer:
        """Return what is answered; see `sent`. `too_long` tells which errors are refusals."""
        answer: Answer = await adrive(self._call(ask, too_long))
        return answer

    def _call(
        self, ask: Callable[[View], Any], too_long: Callable[[Exception], bool] = is_too_long
    ) -> Body[Any]:
        asked = self._request

        def send(curation: Curation) -> Ask:
            view = self if curation is self._curation else asked.viewer.finished(curation, asked)
            return Ask(ask, ask, (view,))

        return CuratedCall(
            asked.viewer.curator,
            asked.messages,
            asked.options,
            send,
            too_long,
            curating=lambda: asked.viewer.riding(asked),
            first=self._curation,
            usage=lambda _: None,  # every answer is noted, not only surprises
        ).body()

    def asked(self, ask: Callable[[View], Answer]) -> Answer:
        """Return an answer, once what it reports is noted."""

        def answered(view: View) -> Answer:
            answer = ask(view)
            view.observe(answer)
            return answer

        return self.sent(answered)

    async def aasked(self, ask: Callable[[View], Awaitable[Answer]]) -> Answer:
        """Return an answer; see `asked`."""

        async def answered(view: View) -> Answer:
            answer = await ask(view)
            view.observe(answer)
            return answer

        return await self.asent(answered)

    def streamed(self, ask: Callable[[View], Iterator[Answer]]) -> Generator[Answer, None, None]:
        """Pass chunks on, and note the last report.

        Only that of a stream read to its end: before, a provider may say less than it will. The
        first chunk is waited for, because a refusal comes in its place.
        """

        def started(view: View) -> tuple[View, Iterator[Answer]]:
            chunks = iter(ask(view))
            return view, chain(list(islice(chunks, 1)), chunks)

        view, chunks = self.sent(started)
        return view._noting(chunks)

    def _noting(self, chunks: Iterator[Answer]) -> Generator[Answer, None, None]:
        usage = None
        for chunk in chunks:
            usage = read_usage(chunk) or usage
            yield chunk
        self.observe(usage)

    async def astreamed(
        self, ask: Callable[[View], Awaitable[AsyncIterator[Answer]]]
    ) -> AsyncGenerator[Answer, None]:
        """Pass chunks on; see `streamed`."""

        async def started(view: View) -> tuple[View, list[Answer], AsyncIterator[Answer]]:
            chunks = aiter(await ask(view))
            async for first in chunks:
                return view, [first], chunks
            return view, [], chunks

        return _anoting(*await self.asent(started))


async def _anoting(
    view: View, first: list[Answer], rest: AsyncIterator[Answer]
) -> AsyncGenerator[Answer, None]:
    usage = None
    for chunk in first:
        usage = read_usage(chunk)
        yield chunk
    async for chunk in rest:
        usage = read_usage(chunk) or usage
        yield chunk
    view.observe(usage)
