"""Messages as LlamaIndex's SQL stores keep them."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from llamaindex_history_curator._dialect import LlamaIndexDialect
from llamaindex_history_curator._serialize import message_from_dict, message_to_dict

__all__ = ["DIALECT", "dump", "from_json", "load", "to_json"]

DIALECT = LlamaIndexDialect()


def load(data: dict[str, Any]) -> ChatMessage:
    """Return the message of a row."""
    return ChatMessage.model_validate(data)


def dump(message: ChatMessage) -> dict[str, Any]:
    """Return what a row holds of a message."""
    return message.model_dump(mode="json")


def to_json(message: ChatMessage) -> dict[str, Any]:
    """Return a message as JSON data, all of it."""
    return message_to_dict(message)


def from_json(data: dict[str, Any]) -> ChatMessage:
    """Return the message that `to_json` wrote."""
    return message_from_dict(data)
