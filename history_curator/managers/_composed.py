"""`ComposedManager`: several managers as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import isawaitable, iscoroutinefunction
from typing import Any

from history_curator.errors import ConfigurationError
from history_curator.managers._protocol import CurationContext, HistoryManager
from history_curator.model import ConversationEntry


@dataclass(frozen=True, slots=True)
class ComposedManager:
    """Applies managers one after the other, each to what the one before returned.

    Example:
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
                    f"ComposedManager.managers[{position}] is a {type(manager).__name__} without "
                    "a curate method. Fix: pass objects with curate(entries, *, context)."
                )

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> list[ConversationEntry]:
        """Return what the last manager returns."""
        for manager in self.managers:
            entries = require_sync(manager)(entries, context=context)
        return list(entries)

    async def acurate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> list[ConversationEntry]:
        """Like `curate`, for managers that call a model."""
        for manager in self.managers:
            entries = await curate_either(manager, entries, context)
        return list(entries)


def require_sync(manager: Any) -> Any:
    """Return a manager's sync ``curate``.

    Raises:
        ConfigurationError: when it has none.
    """
    curate = getattr(manager, "curate", None)
    if curate is None or iscoroutinefunction(curate):
        raise ConfigurationError(
            f"{type(manager).__name__} is async only. Fix: use `await curator.acurate(…)`."
        )
    return curate


async def curate_either(
    manager: Any, entries: Sequence[ConversationEntry], context: CurationContext
) -> Sequence[ConversationEntry]:
    """Run a manager's ``acurate`` where it has one, else its ``curate``."""
    curate = getattr(manager, "acurate", None) or manager.curate
    returned = curate(entries, context=context)
    curated: Sequence[ConversationEntry] = await returned if isawaitable(returned) else returned
    return curated
