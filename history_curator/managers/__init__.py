"""Managers: each selects, shortens or clears, and each is one small file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from history_curator._lazy import lazily

if TYPE_CHECKING:
    from history_curator.managers._adaptive import AdaptiveManager
    from history_curator.managers._budget import TokenBudgetManager
    from history_curator.managers._clear import ToolResultClearer
    from history_curator.managers._composed import ComposedManager
    from history_curator.managers._duplicates import DuplicateResultManager
    from history_curator.managers._observable import ObservableManager
    from history_curator.managers._passthrough import PassthroughManager
    from history_curator.managers._pins import PinManager
    from history_curator.managers._protocol import CurationContext, HistoryManager
    from history_curator.managers._relevance import RelevanceManager
    from history_curator.managers._retention import TurnRetentionManager
    from history_curator.managers._roles import RoleTruncator
    from history_curator.managers._summarizing import SummarizingManager
    from history_curator.managers._truncate import ToolResultTruncator
    from history_curator.managers._window import SlidingWindowManager

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
]

# Imported on first use: a pipeline pays for the managers it has.
_HOMES = {
    "AdaptiveManager": "_adaptive",
    "ComposedManager": "_composed",
    "CurationContext": "_protocol",
    "DuplicateResultManager": "_duplicates",
    "HistoryManager": "_protocol",
    "ObservableManager": "_observable",
    "PassthroughManager": "_passthrough",
    "PinManager": "_pins",
    "RelevanceManager": "_relevance",
    "RoleTruncator": "_roles",
    "SlidingWindowManager": "_window",
    "SummarizingManager": "_summarizing",
    "TokenBudgetManager": "_budget",
    "ToolResultClearer": "_clear",
    "ToolResultTruncator": "_truncate",
    "TurnRetentionManager": "_retention",
}

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
