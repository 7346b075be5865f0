"""`EventBus` and the two events: an entry was recorded, a history was curated."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from history_curator.entries import ConversationEntry
from history_curator.errors import without_text

if TYPE_CHECKING:
    from history_curator.report import CurationReport

__all__ = ["ConversationRecorded", "EventBus", "HistoryCurated"]

logger = logging.getLogger("history_curator.events")

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class ConversationRecorded:
    """An entry was added to a session."""

    entry: ConversationEntry
    session_id: UUID | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class HistoryCurated:
    """A history was curated, by the curator named `prompt_name`.

    `strategy` are the managers that ran, by their names in configurations, such as
    ``sliding_window``; ``budget`` without any. `tokens` is the cost of the view, and `actions` says
    how many entries were kept, dropped, truncated, cleared, …
    """

    prompt_name: str
    original_count: int
    curated_count: int
    strategy: str
    session_id: UUID | None
    created_at: datetime = field(default_factory=partial(datetime.now, timezone.utc))
    tokens: int | None = None
    max_tokens: int | None = None
    actions: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, report: CurationReport, *, session: Any = None, prompt_name: str = "history"
    ) -> HistoryCurated:
        """Describe a report."""
        return cls(
            prompt_name=prompt_name,
            original_count=report.original_count,
            curated_count=report.curated_count,
            strategy=report.strategy,
            session_id=getattr(session, "session_id", None),
            tokens=report.tokens,
            max_tokens=report.max_tokens,
            actions=action_totals(report.record, report.view),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON data, for logs and framework events."""
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "session_id": None if self.session_id is None else str(self.session_id),
            "created_at": self.created_at.isoformat(),
            "actions": dict(self.actions),
        }


def action_totals(
    before: Sequence[ConversationEntry], after: Sequence[ConversationEntry]
) -> dict[str, int]:
    """Return how many entries were kept, dropped, cleared, …, without tokenising anything."""
    given = {id(entry) for entry in before}
    totals = Counter("kept" if id(entry) in given else entry.action or "kept" for entry in after)
    merged = {
        id(root)
        for entry in after
        if entry.original is not None
        for root in (entry.metadata or {}).get("merged", ())
    }
    gone = {id(entry.root) for entry in before} - {id(entry.root) for entry in after}
    totals["merged"] += len(gone & merged)
    totals["dropped"] += len(gone - merged)
    return {action: count for action, count in sorted(totals.items()) if count}


class EventBus:
    """Hands events to the handlers that subscribed to their type.

    Handlers run in the publishing thread, in the order they subscribed. An error in one stops no
    other: its kind and where it was raised are logged. Thread-safe.

    Examples:
        >>> bus, seen = EventBus(), []
        >>> unsubscribe = bus.subscribe(str, seen.append)
        >>> bus.publish("hello")
        >>> seen
        ['hello']
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handlers: tuple[tuple[type, Callable[[Any], object]], ...] = ()

    def subscribe(self, kind: type[E], handler: Callable[[E], object]) -> Callable[[], None]:
        """Call ``handler`` with every event of a type; return a function that ends it."""
        subscription = kind, handler
        with self._lock:
            self._handlers += (subscription,)

        def unsubscribe() -> None:
            with self._lock:
                self._handlers = tuple(one for one in self._handlers if one is not subscription)

        return unsubscribe

    def publish(self, event: object) -> None:
        """Hand an event to its subscribers."""
        for kind, handler in self._handlers:
            if isinstance(event, kind):
                try:
                    handler(event)
                except Exception as error:  # noqa: BLE001 - whatever a handler raises
                    # Not what it says: it may quote the event, and so the conversation.
                    logger.error(  # noqa: TRY400
                        "A handler of %s raised %s", type(event).__name__, without_text(error)
                    )

    def __reduce__(self) -> tuple[Any, ...]:
        return (EventBus, ())  # handlers are functions of the running program
