"""What the core asks about messages of LlamaIndex: their dialect, as JSON, as rows of a table."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from llamaindex_history_curator._dialect import DIALECT
from llamaindex_history_curator._serialize import message_from_dict as from_json
from llamaindex_history_curator._serialize import message_to_dict as to_json

__all__ = ["DIALECT", "dump", "from_json", "load", "to_json"]


def load(data: dict[str, Any]) -> ChatMessage:
    """Return the message of a row."""
    return ChatMessage.model_validate(data)


def dump(message: ChatMessage) -> dict[str, Any]:
    """Return what a row holds of a message."""
    return message.model_dump(mode="json")
