"""Where histories come in: limits, validation, stateless requests, and prompts made of them."""

from __future__ import annotations

from history_curator.boundary._format import format_history
from history_curator.boundary._limits import HistoryLimits
from history_curator.boundary._sanitize import DroppedMessage, SanitizedHistory, sanitize_history
from history_curator.boundary._validate import validate_history
from history_curator.boundary._validated import HistoryWarning, ValidatedHistory, ValidatedMessage

__all__ = [
    "DroppedMessage",
    "HistoryLimits",
    "HistoryWarning",
    "SanitizedHistory",
    "ValidatedHistory",
    "ValidatedMessage",
    "format_history",
    "sanitize_history",
    "validate_history",
]
