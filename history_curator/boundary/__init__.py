"""Where histories come in: limits, validation, stateless requests, and prompts made of them."""

from __future__ import annotations

from history_curator.boundary.limits import HistoryLimits
from history_curator.boundary.sanitize import SanitizedHistory, format_history, sanitize_history
from history_curator.boundary.validate import (
    HistoryWarning,
    ValidatedHistory,
    calculate_history_size,
    truncate_conversation_history,
    validate_conversation_history,
    validate_history,
)

__all__ = [
    "HistoryLimits", "HistoryWarning", "SanitizedHistory", "ValidatedHistory",
    "calculate_history_size", "format_history", "sanitize_history",
    "truncate_conversation_history", "validate_conversation_history", "validate_history",
]  # fmt: skip
