"""Managers: each selects, shortens, clears, summarises, or brings back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from history_curator._lazy import lazily

if TYPE_CHECKING:
    from history_curator.managers.base import (
        ComposedManager as ComposedManager,
    )
    from history_curator.managers.base import (
        CurationContext as CurationContext,
    )
    from history_curator.managers.base import (
        HistoryManager as HistoryManager,
    )
    from history_curator.managers.base import (
        ObservableManager as ObservableManager,
    )
    from history_curator.managers.base import (
        Step as Step,
    )
    from history_curator.managers.base import (
        apply_managers as apply_managers,
    )
    from history_curator.managers.registry import (
        build_managers as build_managers,
    )
    from history_curator.managers.registry import (
        manager_names as manager_names,
    )
    from history_curator.managers.registry import (
        register_manager as register_manager,
    )
    from history_curator.managers.relevance import RelevanceManager as RelevanceManager
    from history_curator.managers.search import Bm25Scorer as Bm25Scorer
    from history_curator.managers.search import Scorer as Scorer
    from history_curator.managers.select import (
        PassthroughManager as PassthroughManager,
    )
    from history_curator.managers.select import (
        PinManager as PinManager,
    )
    from history_curator.managers.select import (
        SlidingWindowManager as SlidingWindowManager,
    )
    from history_curator.managers.select import (
        TokenBudgetManager as TokenBudgetManager,
    )
    from history_curator.managers.select import (
        TurnRetentionManager as TurnRetentionManager,
    )
    from history_curator.managers.select import (
        is_answered as is_answered,
    )
    from history_curator.managers.select import (
        start_of_turns as start_of_turns,
    )
    from history_curator.managers.shorten import (
        DuplicateResultManager as DuplicateResultManager,
    )
    from history_curator.managers.shorten import (
        RoleTruncator as RoleTruncator,
    )
    from history_curator.managers.shorten import (
        ToolResultClearer as ToolResultClearer,
    )
    from history_curator.managers.shorten import (
        ToolResultTruncator as ToolResultTruncator,
    )
    from history_curator.managers.summarize import (
        SummarizingManager as SummarizingManager,
    )
    from history_curator.managers.summarize import (
        keeping_summaries as keeping_summaries,
    )

# Imported on first use: a pipeline pays for the managers it has.
_HOMES = {
    name: home
    for home, names in {
        "base": "ComposedManager CurationContext HistoryManager ObservableManager Step apply_managers",
        "registry": "build_managers manager_names register_manager",
        "relevance": "RelevanceManager",
        "search": "Bm25Scorer Scorer",
        "select": "PassthroughManager PinManager SlidingWindowManager TokenBudgetManager "
        "TurnRetentionManager is_answered start_of_turns",
        "shorten": "DuplicateResultManager RoleTruncator ToolResultClearer ToolResultTruncator",
        "summarize": "SummarizingManager keeping_summaries",
    }.items()
    for name in names.split()
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - derived, so that a name cannot be listed twice

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
