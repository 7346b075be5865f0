"""Getting back what is no longer in the view; it lives in `history_curator.record.recall`."""

from __future__ import annotations

from history_curator.record.recall import (
    RECALL_DESCRIPTION,
    RECALL_TOOL_NAME,
    Recall,
    RecallRequest,
    handle_of,
    is_handle,
    recall_hint,
    span_handle,
)

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
