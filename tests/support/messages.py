"""Conversations readable on one line: OpenAI-style dicts from short factories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from history_curator.entries import ConversationEntry
from history_curator.formats import DictFormat

Message = dict[str, Any]


def system(text: str = "be brief") -> Message:
    return {"role": "system", "content": text}


def user(text: str = "hi", **extra: Any) -> Message:
    return {"role": "user", "content": text, **extra}


def assistant(text: str | None = "hello", **extra: Any) -> Message:
    return {"role": "assistant", "content": text, **extra}


def call(*ids: str, name: str = "look", text: str | None = None, **arguments: Any) -> Message:
    """One assistant message that asks for a call per id, all of the same tool."""
    return {
        "role": "assistant",
        "content": text,
        "tool_calls": [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for call_id in ids
        ],
    }


def result(call_id: str, text: str = "found", **extra: Any) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text, **extra}


def exchange(*ids: str, text: str = "found", name: str = "look") -> list[Message]:
    """A call message and the result of each of its calls."""
    return [call(*ids, name=name), *(result(call_id, text) for call_id in ids)]


def entries(messages: Sequence[Message]) -> list[ConversationEntry]:
    """The messages as the core reads them."""
    format = DictFormat()
    return [
        entry for index, message in enumerate(messages) for entry in format.read(message, index)
    ]


def texts(items: Sequence[ConversationEntry | Message]) -> list[str | None]:
    """The content of every entry or message."""
    return [item["content"] if isinstance(item, dict) else item.content for item in items]
