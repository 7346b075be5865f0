"""`ComposedManager`: several managers as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from history_curator._drive import Ask, Body, adrive, drive
from history_curator.errors import ConfigurationError, a_type
from history_curator.managers._protocol import CurationContext, HistoryManager
from history_curator.managers._running import arun_manager, run_manager
from history_curator.model import ConversationEntry


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
