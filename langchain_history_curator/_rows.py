"""Messages as LangChain's SQL stores keep them."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from langchain_history_curator._options import DIALECT

__all__ = ["DIALECT", "dump", "from_json", "load", "to_json"]


def load(data: dict[str, Any]) -> BaseMessage:
    """Return the message of a row."""
    return messages_from_dict([data])[0]


def dump(message: BaseMessage) -> dict[str, Any]:
    """Return what a row holds of a message."""
    data = message_to_dict(message)
    # A tool's artifact is its whole result once more.
    if message.type == "tool":
        data["data"].pop("artifact", None)
    return data


def to_json(message: BaseMessage) -> dict[str, Any]:
    """Return a message as JSON data, all of it."""
    return message_to_dict(message)


def from_json(data: dict[str, Any]) -> BaseMessage:
    """Return the message that `to_json` wrote."""
    return load(data)
