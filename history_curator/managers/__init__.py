"""Managers: each selects, shortens, clears, summarises, or brings back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from history_curator._lazy import lazily

if TYPE_CHECKING:
    from history_curator.managers._adaptive import AdaptiveManager
    from history_curator.managers._composed import ComposedManager, ObservableManager
    from history_curator.managers._cut import TokenBudgetManager
    from history_curator.managers._protocol import CurationContext, HistoryManager
    from history_curator.managers._relevance import RelevanceManager
    from history_curator.managers._select import (
        PassthroughManager,
        PinManager,
        SlidingWindowManager,
        TurnRetentionManager,
    )
    from history_curator.managers._shorten import (
        DuplicateResultManager,
        RoleTruncator,
        ToolResultClearer,
        ToolResultTruncator,
    )
    from history_curator.managers._summarizing import SummarizingManager
    from history_curator.managers.registry import (
        build_managers,
        manager_names,
        register_manager,
    )

__all__ = [
    "AdaptiveManager",
    "ComposedManager",
    "CurationContext",
    "DuplicateResultManager",
    "HistoryManager",
    "ObservableManager",
    "PassthroughManager",
    "PinManager",
    "RelevanceManager",
    "RoleTruncator",
    "SlidingWindowManager",
    "SummarizingManager",
    "TokenBudgetManager",
    "ToolResultClearer",
    "ToolResultTruncator",
    "TurnRetentionManager",
    "build_managers",
    "manager_names",
    "register_manager",
]

# Imported on first use: a pipeline pays for the managers it has.
_HOMES = {
    "AdaptiveManager": "_adaptive",
    "ComposedManager": "_composed",
    "CurationContext": "_protocol",
    "DuplicateResultManager": "_shorten",
    "HistoryManager": "_protocol",
    "ObservableManager": "_composed",
    "PassthroughManager": "_select",
    "PinManager": "_select",
    "RelevanceManager": "_relevance",
    "RoleTruncator": "_shorten",
    "SlidingWindowManager": "_select",
    "SummarizingManager": "_summarizing",
    "TokenBudgetManager": "_cut",
    "ToolResultClearer": "_shorten",
    "ToolResultTruncator": "_shorten",
    "TurnRetentionManager": "_select",
    "build_managers": "registry",
    "manager_names": "registry",
    "register_manager": "registry",
}

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
