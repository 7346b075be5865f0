"""History Curator: the record is sacred, the view is curated.

Keep the whole conversation; send the model a view that fits its budget, never splits a tool
exchange, is never refused by the provider, and changes its prefix as rarely as possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from history_curator._lazy import lazily

if TYPE_CHECKING:
    from history_curator.boundary import (
        HistoryLimits as HistoryLimits,
    )
    from history_curator.boundary import (
        HistoryWarning as HistoryWarning,
    )
    from history_curator.boundary import (
        ValidatedHistory as ValidatedHistory,
    )
    from history_curator.boundary import (
        format_history as format_history,
    )
    from history_curator.boundary import (
        sanitize_history as sanitize_history,
    )
    from history_curator.boundary import (
        validate_history as validate_history,
    )
    from history_curator.curator import (
        Curation as Curation,
    )
    from history_curator.curator import (
        Curator as Curator,
    )
    from history_curator.errors import (
        BudgetUnsatisfiableError as BudgetUnsatisfiableError,
    )
    from history_curator.errors import (
        ConfigurationError as ConfigurationError,
    )
    from history_curator.errors import (
        ConversionError as ConversionError,
    )
    from history_curator.errors import (
        HistoryCuratorError as HistoryCuratorError,
    )
    from history_curator.errors import (
        HistoryValidationError as HistoryValidationError,
    )
    from history_curator.managers import (
        AdaptiveManager as AdaptiveManager,
    )
    from history_curator.managers import (
        ComposedManager as ComposedManager,
    )
    from history_curator.managers import (
        CurationContext as CurationContext,
    )
    from history_curator.managers import (
        DuplicateResultManager as DuplicateResultManager,
    )
    from history_curator.managers import (
        HistoryManager as HistoryManager,
    )
    from history_curator.managers import (
        ObservableManager as ObservableManager,
    )
    from history_curator.managers import (
        PassthroughManager as PassthroughManager,
    )
    from history_curator.managers import (
        PinManager as PinManager,
    )
    from history_curator.managers import (
        RelevanceManager as RelevanceManager,
    )
    from history_curator.managers import (
        RoleTruncator as RoleTruncator,
    )
    from history_curator.managers import (
        SlidingWindowManager as SlidingWindowManager,
    )
    from history_curator.managers import (
        SummarizingManager as SummarizingManager,
    )
    from history_curator.managers import (
        TokenBudgetManager as TokenBudgetManager,
    )
    from history_curator.managers import (
        ToolResultClearer as ToolResultClearer,
    )
    from history_curator.managers import (
        ToolResultTruncator as ToolResultTruncator,
    )
    from history_curator.managers import (
        TurnRetentionManager as TurnRetentionManager,
    )
    from history_curator.model import (
        ConversationEntry as ConversationEntry,
    )
    from history_curator.model import (
        MessageRole as MessageRole,
    )
    from history_curator.model import (
        ToolCall as ToolCall,
    )
    from history_curator.model import (
        entry_to_provider_message as entry_to_provider_message,
    )
    from history_curator.model import (
        provider_message_to_entry as provider_message_to_entry,
    )
    from history_curator.record import (
        ConversationRecorded as ConversationRecorded,
    )
    from history_curator.record import (
        ConversationRunner as ConversationRunner,
    )
    from history_curator.record import (
        EventBus as EventBus,
    )
    from history_curator.record import (
        HistoryCurated as HistoryCurated,
    )
    from history_curator.record import (
        HistorySession as HistorySession,
    )
    from history_curator.record import (
        get_evaluation_history as get_evaluation_history,
    )
    from history_curator.record import (
        select_all as select_all,
    )
    from history_curator.record import (
        select_where as select_where,
    )
    from history_curator.record.recall import (
        Recall as Recall,
    )
    from history_curator.report import (
        CurationReport as CurationReport,
    )
    from history_curator.report import (
        Decision as Decision,
    )
    from history_curator.rules import (
        ProviderProfile as ProviderProfile,
    )
    from history_curator.rules import (
        ReasoningBoundError as ReasoningBoundError,
    )
    from history_curator.rules import (
        Violation as Violation,
    )
    from history_curator.rules import (
        check_conversation as check_conversation,
    )
    from history_curator.rules import (
        get_profile as get_profile,
    )
    from history_curator.rules import (
        repair_conversation as repair_conversation,
    )
    from history_curator.settings import (
        CuratorConfig as CuratorConfig,
    )
    from history_curator.settings import (
        RetentionConfig as RetentionConfig,
    )
    from history_curator.tokens import (
        HeuristicCounter as HeuristicCounter,
    )
    from history_curator.tokens import (
        TiktokenCounter as TiktokenCounter,
    )
    from history_curator.tokens import (
        TokenCounter as TokenCounter,
    )
    from history_curator.tokens import (
        count_tokens as count_tokens,
    )

__version__ = "0.1.0"

# Where each public name lives. Modules are imported on first use, so that importing the package
# stays light.
_HOMES = {
    "AdaptiveManager": "managers",
    "BudgetUnsatisfiableError": "errors",
    "ComposedManager": "managers",
    "ConfigurationError": "errors",
    "ConversationEntry": "model",
    "ConversationRecorded": "record",
    "ConversationRunner": "record",
    "ConversionError": "errors",
    "Curation": "curator",
    "CurationContext": "managers",
    "CurationReport": "report",
    "Curator": "curator",
    "CuratorConfig": "settings",
    "Decision": "report",
    "DuplicateResultManager": "managers",
    "EventBus": "record",
    "HeuristicCounter": "tokens",
    "HistoryCurated": "record",
    "HistoryCuratorError": "errors",
    "HistoryLimits": "boundary",
    "HistoryManager": "managers",
    "HistorySession": "record",
    "HistoryValidationError": "errors",
    "HistoryWarning": "boundary",
    "MessageRole": "model",
    "ObservableManager": "managers",
    "PassthroughManager": "managers",
    "PinManager": "managers",
    "ProviderProfile": "rules",
    "ReasoningBoundError": "rules",
    "Recall": "record.recall",
    "RelevanceManager": "managers",
    "RetentionConfig": "settings",
    "RoleTruncator": "managers",
    "SlidingWindowManager": "managers",
    "SummarizingManager": "managers",
    "TiktokenCounter": "tokens",
    "TokenBudgetManager": "managers",
    "TokenCounter": "tokens",
    "ToolCall": "model",
    "ToolResultClearer": "managers",
    "ToolResultTruncator": "managers",
    "TurnRetentionManager": "managers",
    "ValidatedHistory": "boundary",
    "Violation": "rules",
    "check_conversation": "rules",
    "count_tokens": "tokens",
    "entry_to_provider_message": "model",
    "format_history": "boundary",
    "get_evaluation_history": "record",
    "get_profile": "rules",
    "provider_message_to_entry": "model",
    "repair_conversation": "rules",
    "sanitize_history": "boundary",
    "select_all": "record",
    "select_where": "record",
    "validate_history": "boundary",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - derived, so that a name cannot be listed twice

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
