"""The event LlamaIndex's instrumentation gets for every curation."""

from __future__ import annotations

from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base.event import BaseEvent
from llama_index_instrumentation.dispatcher import Dispatcher
from llama_index_instrumentation.event_handlers import NullEventHandler

from history_curator.curator import Curation
from history_curator.integrations import actions_of

dispatcher = get_dispatcher("llamaindex_history_curator")

span = dispatcher.span
"""Decorates what an event happens in: an exporter keeps no event outside of a span."""


class HistoryCuratedEvent(BaseEvent):
    """What one curation did: flat numbers and words, so that every exporter keeps them.

    Dispatched once per curation, inside the span of the memory, agent or LLM that curated.

    Examples:
        >>> event = HistoryCuratedEvent(socket="memory", original_count=9, curated_count=4)
        >>> event.socket, event.curated_count
        ('memory', 4)
    """

    socket: str
    """Where it happened: ``memory``, ``agent`` or ``llm``."""

    original_count: int
    """Messages before."""

    curated_count: int
    """Messages after."""

    dropped_count: int = 0
    """Messages left out, those merged into others included."""

    truncated_count: int = 0
    cleared_count: int = 0
    summarised_count: int = 0
    inserted_count: int = 0
    repaired_count: int = 0

    tokens: int = 0
    """Tokens of the view with tools and reserve, as counted."""

    max_tokens: int = 0
    """The budget; 0 for none."""

    prefix_count: int = 0
    """Messages the next call repeats byte for byte unless the cut compactions."""

    prefix_tokens: int = 0
    """Tokens of those messages."""

    degraded: bool = False
    """Whether the budget could not be kept and only the latest turn was returned."""

    strategy: str = ""
    provider: str = ""
    counter: str = ""

    @classmethod
    def class_name(cls) -> str:
        """Return the name exporters show."""
        return "HistoryCuratedEvent"


def publish(curation: Curation, socket: str, *, degraded: bool = False) -> None:
    """Dispatch the event of one curation to LlamaIndex's handlers."""
    if not _is_heard():
        return
    report, actions = curation.report, actions_of(curation)
    dispatcher.event(
        HistoryCuratedEvent(
            socket=socket,
            original_count=report.original_count,
            curated_count=report.curated_count,
            tokens=report.tokens,
            max_tokens=report.max_tokens or 0,
            prefix_count=report.prefix_entries,
            prefix_tokens=report.prefix_tokens,
            degraded=degraded,
            strategy=report.strategy,
            provider=report.provider,
            counter=report.counter,
            **{f"{action}_count": actions[action] for action in _ACTIONS},
        )
    )


_ACTIONS = ("dropped", "truncated", "cleared", "summarised", "inserted", "repaired")


def _is_heard() -> bool:
    """Whether some handler of events does more than the one that does nothing."""
    each: Dispatcher | None = dispatcher
    while each is not None:
        if any(type(handler) is not NullEventHandler for handler in each.event_handlers):
            return True
        each = each.parent if each.propagate else None
    return False
