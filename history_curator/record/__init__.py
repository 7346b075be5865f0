"""The record: sessions, the events they publish, and the loop that fills them."""

from __future__ import annotations

from history_curator.events import ConversationRecorded, EventBus, HistoryCurated
from history_curator.record._runner import ConversationRunner, RunResult
from history_curator.record._session import (
    HistorySession,
    get_evaluation_history,
    select_all,
    select_where,
)

__all__ = [
    "ConversationRecorded",
    "ConversationRunner",
    "EventBus",
    "HistoryCurated",
    "HistorySession",
    "RunResult",
    "get_evaluation_history",
    "select_all",
    "select_where",
]
