"""The core's own form of a conversation: entries, their parts and their calls."""

from __future__ import annotations

from history_curator.entries._entry import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
    new_call,
    new_entry,
)
from history_curator.entries._handles import (
    RECALL_TOOL_NAME,
    find_handle,
    handle_of,
    is_handle,
    recall_hint,
    recall_tool_name,
    span_handle,
)
from history_curator.entries._marks import looks_like_ours, neutralise, one_line, quote
from history_curator.entries._plain import entry_from_dict, entry_to_dict
from history_curator.entries._private_file import check_folder, write_private
from history_curator.entries._provider import entry_to_provider_message, provider_message_to_entry

__all__ = [
    "RECALL_TOOL_NAME",
    "ContentPart",
    "ConversationEntry",
    "MessageRole",
    "Reasoning",
    "ToolCall",
    "check_folder",
    "entry_from_dict",
    "entry_to_dict",
    "entry_to_provider_message",
    "find_handle",
    "handle_of",
    "is_handle",
    "looks_like_ours",
    "neutralise",
    "new_call",
    "new_entry",
    "one_line",
    "provider_message_to_entry",
    "quote",
    "recall_hint",
    "recall_tool_name",
    "span_handle",
    "write_private",
]
