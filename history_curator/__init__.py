"""History Curator: the record is sacred, the view is curated.

Your application keeps the full history. The model is sent a view that fits the budget, never splits
a tool exchange, follows the provider's rules, and changes its prefix as rarely as possible.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# fmt: off
if TYPE_CHECKING:
    from history_curator.boundary import (
        HistoryLimits, HistoryWarning, ValidatedHistory, format_history, sanitize_history,
        validate_history,
    )
    from history_curator.cache_loss import CacheLost
    from history_curator.config import CuratorConfig, RetentionConfig
    from history_curator.curator import Curation, Curator
    from history_curator.entries import ConversationEntry, MessageRole, ToolCall
    from history_curator.errors import (
        BudgetUnsatisfiableError, ConfigurationError, ConversionError, HistoryCuratorError,
        HistoryValidationError,
    )
    from history_curator.formats import entry_to_provider_message, provider_message_to_entry
    from history_curator.managers import (
        ComposedManager, CurationContext, HistoryManager, ObservableManager, PassthroughManager,
        RelevanceManager, RoleTruncator, SlidingWindowManager, SummarizingManager,
        ToolResultClearer, ToolResultTruncator, TurnRetentionManager,
    )
    from history_curator.record import (
        ConversationRecorded, ConversationRunner, EventBus, HistoryCurated, HistorySession,
        get_evaluation_history, select_all, select_where,
    )
    from history_curator.record.recall import Recall
    from history_curator.report import CurationReport, Decision
    from history_curator.rules import (
        ProviderProfile, Violation, check_conversation, get_profile,
        repair_conversation,
    )
    from history_curator.tokens import HeuristicCounter, TiktokenCounter, TokenCounter, count_tokens

__version__ = "0.1.0"

__all__ = [
    "BudgetUnsatisfiableError", "CacheLost", "ComposedManager", "ConfigurationError", "ConversationEntry",
    "ConversationRecorded", "ConversationRunner", "ConversionError", "Curation", "CurationContext",
    "CurationReport", "Curator", "CuratorConfig", "Decision", "EventBus",
    "HeuristicCounter", "HistoryCurated", "HistoryCuratorError", "HistoryLimits", "HistoryManager",
    "HistorySession", "HistoryValidationError", "HistoryWarning", "MessageRole",
    "ObservableManager", "PassthroughManager", "ProviderProfile",
    "Recall", "RelevanceManager", "RetentionConfig", "RoleTruncator",
    "SlidingWindowManager", "SummarizingManager", "TiktokenCounter",
    "TokenCounter", "ToolCall", "ToolResultClearer", "ToolResultTruncator", "TurnRetentionManager",
    "ValidatedHistory", "Violation", "check_conversation", "count_tokens",
    "entry_to_provider_message", "format_history", "get_evaluation_history", "get_profile",
    "provider_message_to_entry", "repair_conversation", "sanitize_history", "select_all",
    "select_where", "validate_history",
]
# fmt: on

_NAMES = {
    "boundary": (
        "HistoryLimits HistoryWarning ValidatedHistory format_history sanitize_history "
        "validate_history"
    ),
    "cache_loss": "CacheLost",
    "config": "CuratorConfig RetentionConfig",
    "curator": "Curation Curator",
    "entries": "ConversationEntry MessageRole ToolCall",
    "errors": (
        "BudgetUnsatisfiableError ConfigurationError ConversionError HistoryCuratorError "
        "HistoryValidationError"
    ),
    "formats": "entry_to_provider_message provider_message_to_entry",
    "managers": (
        "ComposedManager CurationContext HistoryManager ObservableManager PassthroughManager "
        "RelevanceManager RoleTruncator SlidingWindowManager SummarizingManager ToolResultClearer "
        "ToolResultTruncator TurnRetentionManager"
    ),
    "record": (
        "ConversationRecorded ConversationRunner EventBus HistoryCurated HistorySession "
        "get_evaluation_history select_all select_where"
    ),
    "record.recall": "Recall",
    "report": "CurationReport Decision",
    "rules": ("ProviderProfile Violation check_conversation get_profile repair_conversation"),
    "tokens": "HeuristicCounter TiktokenCounter TokenCounter count_tokens",
}
"""The public names of each module, which is imported when one of them is first used."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
