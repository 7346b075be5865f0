"""History Curator: the record is sacred, the view is curated.

Keep the whole conversation; send the model a view that fits its budget, never splits a tool
exchange, is never refused by the provider, and changes its prefix as rarely as possible.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Where each public name lives. Modules are imported on first use, so that importing the package
# stays light.
_HOMES = {
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
    "CuratorConfig": "config",
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
    "ProviderProfile": "profiles",
    "RelevanceManager": "managers",
    "RetentionConfig": "config",
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
    "Violation": "conformance",
    "check_conversation": "conformance",
    "count_tokens": "tokens",
    "entry_to_provider_message": "model",
    "format_history": "boundary",
    "get_evaluation_history": "record",
    "provider_message_to_entry": "model",
    "repair_conversation": "conformance",
    "sanitize_history": "boundary",
    "select_all": "record",
    "select_where": "record",
    "validate_history": "boundary",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - derived, so that a name cannot be listed twice


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
