"""Recall: get back what is no longer in the view, from the caller's own conversation only."""

from __future__ import annotations

from history_curator.entries import (
    RECALL_TOOL_NAME,
    handle_of,
    is_handle,
    recall_hint,
    span_handle,
)
from history_curator.record.recall._recall import RECALL_DESCRIPTION, Recall, RecallRequest

__all__ = [
    "RECALL_DESCRIPTION",
    "RECALL_TOOL_NAME",
    "Recall",
    "RecallRequest",
    "handle_of",
    "is_handle",
    "recall_hint",
    "span_handle",
]
