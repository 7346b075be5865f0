"""The core's own form of a conversation: entries, their parts and their calls."""

from __future__ import annotations

from history_curator.model._entry import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
    new_call,
    new_entry,
)
from history_curator.model._plain import entry_from_dict, entry_to_dict
from history_curator.model._provider import entry_to_provider_message, provider_message_to_entry

__all__ = [
    "ContentPart",
    "ConversationEntry",
    "MessageRole",
    "Reasoning",
    "ToolCall",
    "entry_from_dict",
    "entry_to_dict",
    "entry_to_provider_message",
    "new_call",
    "new_entry",
    "provider_message_to_entry",
]
