"""History Curator: the record is sacred, the view is curated.

Your application keeps the full history. The model is sent a view that fits the budget, never splits
a tool exchange, follows the provider's rules, and changes its prefix as rarely as possible.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from history_curator.boundary import (
        HistoryLimits as HistoryLimits,
        HistoryWarning as HistoryWarning,
        ValidatedHistory as ValidatedHistory,
        format_history as format_history,
        sanitize_history as sanitize_history,
        validate_history as validate_history,
    )
    from history_curator.curator import (
        Curation as Curation,
        Curator as Curator,
    )
    from history_curator.errors import (
        BudgetUnsatisfiableError as BudgetUnsatisfiableError,
        ConfigurationError as ConfigurationError,
        ConversionError as ConversionError,
        HistoryCuratorError as HistoryCuratorError,
        HistoryValidationError as HistoryValidationError,
    )
    from history_curator.managers import (
        ComposedManager as ComposedManager,
        CurationContext as CurationContext,
        DuplicateResultManager as DuplicateResultManager,
        HistoryManager as HistoryManager,
        ObservableManager as ObservableManager,
        PassthroughManager as PassthroughManager,
        PinManager as PinManager,
        RelevanceManager as RelevanceManager,
        RoleTruncator as RoleTruncator,
        SlidingWindowManager as SlidingWindowManager,
        SummarizingManager as SummarizingManager,
        TokenBudgetManager as TokenBudgetManager,
        ToolResultClearer as ToolResultClearer,
        ToolResultTruncator as ToolResultTruncator,
        TurnRetentionManager as TurnRetentionManager,
    )
    from history_curator.entries import (
        ConversationEntry as ConversationEntry,
        MessageRole as MessageRole,
        ToolCall as ToolCall,
    )
    from history_curator.formats import (
        entry_to_provider_message as entry_to_provider_message,
        provider_message_to_entry as provider_message_to_entry,
    )
    from history_curator.record import (
        ConversationRecorded as ConversationRecorded,
        ConversationRunner as ConversationRunner,
        EventBus as EventBus,
        HistoryCurated as HistoryCurated,
        HistorySession as HistorySession,
        get_evaluation_history as get_evaluation_history,
        select_all as select_all,
        select_where as select_where,
    )
    from history_curator.record.recall import (
        Recall as Recall,
    )
    from history_curator.report import (
        CurationReport as CurationReport,
        Decision as Decision,
    )
    from history_curator.rules import (
        ProviderProfile as ProviderProfile,
        ReasoningBoundError as ReasoningBoundError,
        Violation as Violation,
        check_conversation as check_conversation,
        get_profile as get_profile,
        repair_conversation as repair_conversation,
    )
    from history_curator.config import (
        CuratorConfig as CuratorConfig,
        RetentionConfig as RetentionConfig,
    )
    from history_curator.tokens import (
        HeuristicCounter as HeuristicCounter,
        TiktokenCounter as TiktokenCounter,
        TokenCounter as TokenCounter,
        count_tokens as count_tokens,
    )

__version__ = "0.1.0"

_NAMES = {
    "boundary": (
        "HistoryLimits HistoryWarning ValidatedHistory format_history sanitize_history "
        "validate_history"
    ),
    "config": "CuratorConfig RetentionConfig",
    "curator": "Curation Curator",
    "entries": "ConversationEntry MessageRole ToolCall",
    "errors": (
        "BudgetUnsatisfiableError ConfigurationError ConversionError HistoryCuratorError "
        "HistoryValidationError"
    ),
    "formats": "entry_to_provider_message provider_message_to_entry",
    "managers": (
        "ComposedManager CurationContext DuplicateResultManager HistoryManager "
        "ObservableManager PassthroughManager PinManager RelevanceManager RoleTruncator "
        "SlidingWindowManager SummarizingManager TokenBudgetManager ToolResultClearer "
        "ToolResultTruncator TurnRetentionManager"
    ),
    "record": (
        "ConversationRecorded ConversationRunner EventBus HistoryCurated HistorySession "
        "get_evaluation_history select_all select_where"
    ),
    "record.recall": "Recall",
    "report": "CurationReport Decision",
    "rules": (
        "ProviderProfile ReasoningBoundError Violation check_conversation get_profile "
        "repair_conversation"
    ),
    "tokens": "HeuristicCounter TiktokenCounter TokenCounter count_tokens",
}
"""The public names of each module, which is imported when one of them is first used."""

_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - derived, so that a name cannot be listed twice


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
