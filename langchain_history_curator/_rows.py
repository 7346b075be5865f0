"""What the core asks about messages of LangChain: their format, as JSON, as rows of a table."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage, messages_from_dict
from langchain_core.messages import message_to_dict as to_json

from langchain_history_curator._format import DIALECT

__all__ = ["DIALECT", "dump", "from_json", "load", "to_json"]


def load(data: dict[str, Any]) -> BaseMessage:
    """Return the message of a row."""
    return messages_from_dict([data])[0]


from_json = load


def dump(message: BaseMessage) -> dict[str, Any]:
    """Return what a row holds of a message."""
    data = to_json(message)
    # A tool's artifact is its whole result once more.
    if message.type == "tool":
        data["data"].pop("artifact", None)
    return data
