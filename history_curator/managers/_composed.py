"""Managers made of others: several as one, or one with an event each time it curates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from history_curator._drive import Ask, Body, adrive, drive
from history_curator.errors import ConfigurationError, a_type
from history_curator.managers._protocol import CurationContext, HistoryManager
from history_curator.managers._running import arun_manager, run_manager
from history_curator.model import ConversationEntry
from history_curator.record._events import EventBus, HistoryCurated, action_totals


@dataclass(frozen=True, slots=True)
class ComposedManager:
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

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> list[ConversationEntry]:
        """Return what the last manager returns."""
        return drive(self._steps(entries, context))

    async def acurate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> list[ConversationEntry]:
        """Like `curate`, for managers that call a model."""
        return await adrive(self._steps(entries, context))

    def _steps(
        self, entries: Sequence[ConversationEntry], context: CurationContext
    ) -> Body[list[ConversationEntry]]:
        for manager in self.managers:
            entries = yield Ask(run_manager, arun_manager, (manager, entries, context))
        return list(entries)


@dataclass(frozen=True, slots=True)
class ObservableManager:
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

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> Sequence[ConversationEntry]:
        """Return what the wrapped manager returns."""
        return drive(self._steps(entries, context))

    async def acurate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> Sequence[ConversationEntry]:
        """Like `curate`, for a manager that calls a model."""
        return await adrive(self._steps(entries, context))

    def _steps(
        self, before: Sequence[ConversationEntry], context: CurationContext
    ) -> Body[Sequence[ConversationEntry]]:
        after = yield Ask(run_manager, arun_manager, (self.inner, before, context))
        self.bus.publish(
            HistoryCurated(
                prompt_name=self.prompt_name,
                original_count=len(before),
                curated_count=len(after),
                strategy=_strategy(self.inner),
                session_id=getattr(context.session, "session_id", None),
                created_at=datetime.now(timezone.utc),
                actions=action_totals(before, after),
                max_tokens=context.max_tokens,
            )
        )
        return list(after)


def _strategy(manager: HistoryManager) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(manager).__name__).lower()
    return name.removesuffix("_manager")
