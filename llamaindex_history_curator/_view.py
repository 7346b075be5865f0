"""What every socket shares: a curator for an LLM, and the step from messages to their view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from llama_index.core.base.llms.types import ChatMessage

from history_curator.curator import Curation, Curator
from history_curator.errors import ConfigurationError
from llamaindex_history_curator._budget import budget_for_llm, counter_for_llm, tool_schemas
from llamaindex_history_curator._cache import mark_cache as place_mark
from llamaindex_history_curator._cache import marks_for
from llamaindex_history_curator._dialect import LlamaIndexDialect
from llamaindex_history_curator._events import publish
from llamaindex_history_curator._steady import Steady

if TYPE_CHECKING:
    from llama_index.core.llms import LLM

    from history_curator.managers._protocol import HistoryManager

__all__ = ["Viewer", "limit_of", "make_curator"]

_DIALECT = LlamaIndexDialect()


def make_curator(
    managers: Sequence[HistoryManager] = (),
    *,
    llm: LLM | None = None,
    token_limit: int | None = None,
    provider: str = "auto",
    counter: Any = None,
    **options: Any,
) -> Curator:
    """Return a curator whose budget, counter and provider fit an LLM, where not given."""
    if token_limit is None and llm is not None:
        token_limit = budget_for_llm(llm)
    return Curator(
        *managers,
        max_tokens=token_limit,
        counter=counter_for_llm(llm) if counter is None else counter,
        provider=_provider(provider, llm),
        **options,
    )


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


class Viewer:
    """Turns messages into their view, marks the cache and publishes the event.

    Args:
        curator: decides.
        socket: what events call the place it happens.
        mark_cache: put a `CachePoint` at the end of the stable prefix.
        llm: the LLM that gets the view; one that takes no cache points gets no mark.
    """

    def __init__(
        self, curator: Curator, socket: str, *, mark_cache: bool = False, llm: LLM | None = None
    ) -> None:
        self.curator = curator
        self.socket = socket
        self._marks = marks_for(llm, mark_cache)
        self._steady = Steady()

    def view(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[Any] | None = None,
        reserve: int = 0,
        tail: Literal["request", "history"] = "request",
    ) -> list[ChatMessage]:
        """Return the view of the messages."""
        curation = self.curator.curate(
            self._steady(messages),
            tools=tool_schemas(tools),
            reserve=reserve,
            tail=tail,
            dialect=_DIALECT,
        )
        return self._finish(curation)

    async def aview(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[Any] | None = None,
        reserve: int = 0,
        tail: Literal["request", "history"] = "request",
    ) -> list[ChatMessage]:
        """Return the view of the messages."""
        curation = await self.curator.acurate(
            self._steady(messages),
            tools=tool_schemas(tools),
            reserve=reserve,
            tail=tail,
            dialect=_DIALECT,
        )
        return self._finish(curation)

    def _finish(self, curation: Curation) -> list[ChatMessage]:
        publish(curation, self.socket)
        if self._marks:
            return place_mark(curation.messages, curation.report.prefix_entries)
        return curation.messages


def _provider(provider: str, llm: LLM | None) -> Any:
    if provider != "auto":
        return provider
    if llm is None:
        return "core"
    from history_curator.detect_provider import provider_for

    found = provider_for(llm.class_name())
    return found if found != "core" else provider_for(llm.metadata.model_name)
