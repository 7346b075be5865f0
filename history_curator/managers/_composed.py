"""Managers made of others: several as one, or one with an event each time it curates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from history_curator._drive import Ask, Body
from history_curator.errors import ConfigurationError, a_type
from history_curator.managers._protocol import CurationContext, HistoryManager
from history_curator.managers._running import Driven, arun_manager, run_manager
from history_curator.entries import ConversationEntry
from history_curator.events import EventBus, HistoryCurated, action_totals


@dataclass(frozen=True, slots=True)
class ComposedManager(Driven):
    """Applies managers one after the other, each to what the one before returned.

    Examples:
        >>> from history_curator.managers import SlidingWindowManager, ToolResultTruncator
        >>> manager = ComposedManager((ToolResultTruncator(1_000), SlidingWindowManager(50)))
        >>> len(manager.managers)
        2
    """

    managers: tuple[HistoryManager, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "managers", tuple(self.managers))
        for position, manager in enumerate(self.managers):
            if not (hasattr(manager, "curate") or hasattr(manager, "acurate")):
                raise ConfigurationError(
                    f"ComposedManager.managers[{position}] is {a_type(manager)} without "
                    "a curate method. Fix: pass objects with curate(entries, *, context)."
                )

    def _steps(
        self, entries: Sequence[ConversationEntry], context: CurationContext
    ) -> Body[list[ConversationEntry]]:
        for manager in self.managers:
            entries = yield Ask(run_manager, arun_manager, (manager, entries, context))
        return list(entries)


@dataclass(frozen=True, slots=True)
class ObservableManager(Driven):
    """Wraps a manager and publishes `HistoryCurated` on a bus after each curation.

    The event describes what the wrapped manager did. A `Curator` with a bus publishes one for the
    whole pipeline.

    Examples:
        >>> from history_curator import Curator, EventBus, HistoryCurated, SlidingWindowManager
        >>> bus, seen = EventBus(), []
        >>> unsubscribe = bus.subscribe(HistoryCurated, seen.append)
        >>> manager = ObservableManager(SlidingWindowManager(1), bus, "support")
        >>> said = [{"role": "user", "content": text} for text in ("one", "two")]
        >>> _ = Curator(manager).curate(said)
        >>> seen[0].strategy, seen[0].original_count, seen[0].curated_count
        ('sliding_window', 2, 1)
    """

    inner: HistoryManager
    bus: EventBus
    prompt_name: str = "history"

    def _steps(
        self, before: Sequence[ConversationEntry], context: CurationContext
    ) -> Body[Sequence[ConversationEntry]]:
        from history_curator.managers.registry import snake_case

        after = yield Ask(run_manager, arun_manager, (self.inner, before, context))
        self.bus.publish(
            HistoryCurated(
                prompt_name=self.prompt_name,
                original_count=len(before),
                curated_count=len(after),
                strategy=snake_case(type(self.inner).__name__),
                session_id=getattr(context.session, "session_id", None),
                created_at=datetime.now(timezone.utc),
                actions=action_totals(before, after),
                max_tokens=context.max_tokens,
            )
        )
        return list(after)
