"""What every socket shares: the step from messages to their view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from llama_index.core.base.llms.types import ChatMessage

from history_curator.curator import Curation, Curator
from history_curator.errors import ConfigurationError
from llamaindex_history_curator._budget import tool_schemas
from llamaindex_history_curator._cache import mark_cache as place_mark
from llamaindex_history_curator._cache import marks_for
from llamaindex_history_curator._dialect import LlamaIndexDialect
from llamaindex_history_curator._events import publish
from llamaindex_history_curator._steady import Steady
from llamaindex_history_curator._twins import Twins
from llamaindex_history_curator._wire import Wire

if TYPE_CHECKING:
    from llama_index.core.llms import LLM

__all__ = ["Viewer", "check_reserve", "limit_of"]

_DIALECT = LlamaIndexDialect()


def limit_of(curator: Curator) -> int:
    """Return the budget of a curator.

    Raises:
        ConfigurationError: when it has none.
    """
    if curator.max_tokens is None:
        raise ConfigurationError(
            "curator: it has no budget. Fix: give the Curator max_tokens, or pass managers and "
            "token_limit instead of a curator."
        )
    return curator.max_tokens


def check_reserve(reserve: int, limit: int) -> None:
    """Refuse to keep all of a budget free.

    Raises:
        ConfigurationError: when nothing is left of it.
    """
    if reserve >= limit:
        raise ConfigurationError(
            f"reserve is {reserve}, which leaves nothing of {limit} tokens. "
            "Fix: a smaller reserve, or a larger token_limit."
        )


class Viewer:
    """Turns messages into their view, marks the cache and publishes the event.

    Args:
        curator: decides.
        socket: what events call the place it happens.
        mark_cache: put a `CachePoint` at the end of the stable prefix.
        llm: the LLM that gets the view; one that takes no cache points gets no mark.
        steady: whether a message is the same object every time.
        copy: returns a copy of a message, for a socket that gives out copies.
    """

    def __init__(
        self,
        curator: Curator,
        socket: str,
        *,
        mark_cache: bool = False,
        llm: LLM | None = None,
        steady: bool = False,
        copy: Callable[[ChatMessage], ChatMessage] | None = None,
    ) -> None:
        self.curator = curator
        self.socket = socket
        self._marks = marks_for(llm, mark_cache)
        self._wire = wire = Wire(curator.profile.name, llm)
        self._copied = list if copy is None else Twins(copy)
        self._write = wire if copy is None else Twins(lambda message: wire.one(copy(message)))
        self._steady = list if steady else Steady()

    def view(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[Any] | None = None,
        reserve: int = 0,
        tail: Literal["request", "history"] = "request",
        query: str | None = None,
        key: str | None = None,
    ) -> list[ChatMessage]:
        """Return the view of the messages."""
        curation = self.curator.curate(
            self._steady(messages),
            tools=tool_schemas(tools),
            reserve=reserve,
            tail=tail,
            dialect=_DIALECT,
            query=query,
            key=key,
        )
        return self._finish(curation)

    async def aview(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[Any] | None = None,
        reserve: int = 0,
        tail: Literal["request", "history"] = "request",
        query: str | None = None,
        key: str | None = None,
    ) -> list[ChatMessage]:
        """Return the view of the messages."""
        curation = await self.curator.acurate(
            self._steady(messages),
            tools=tool_schemas(tools),
            reserve=reserve,
            tail=tail,
            dialect=_DIALECT,
            query=query,
            key=key,
        )
        return self._finish(curation)

    def _finish(self, curation: Curation) -> list[ChatMessage]:
        publish(curation, self.socket)
        if self.curator.mode == "shadow":
            return self._copied(curation.messages)
        messages = self._write(curation.messages)
        if self._marks:
            return self._wire(place_mark(messages, curation.report.prefix_entries))
        return messages
