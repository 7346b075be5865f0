"""The record: sessions, the loop that fills them, and what a store keeps of a conversation."""

from __future__ import annotations

from history_curator.events import ConversationRecorded, EventBus, HistoryCurated
from history_curator.record.retention import build_context, list_tools_used, load_messages
from history_curator.record.runner import ConversationRunner, RunResult
from history_curator.record.session import (
    HistorySession,
    get_evaluation_history,
    select_all,
    select_where,
)

__all__ = [
    "ConversationRecorded", "ConversationRunner", "EventBus", "HistoryCurated", "HistorySession",
    "RunResult", "build_context", "get_evaluation_history", "list_tools_used", "load_messages",
    "select_all", "select_where",
]  # fmt: skip
