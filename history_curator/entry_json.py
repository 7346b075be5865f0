"""Entries as plain JSON data, and back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
)
from history_curator.errors import ConversionError

BYTES = "__bytes__"
"""The key that marks bytes in JSON."""

_PLAIN = (
    *("content", "sequence", "tool_call_id", "tool_name", "name", "status", "pinned", "truncated"),
    *("original_length", "handle", "origin", "role_name", "barrier", "repairs", "action", "reason"),
)
_DEFAULTS = {name: ConversationEntry.__dataclass_fields__[name].default for name in _PLAIN}


def entry_to_dict(entry: ConversationEntry) -> dict[str, Any]:
    """Return an entry as JSON data; fields at their default are left out.

    `source` and `original` are objects of the running program and are not part of it.
    """
    plain = {name: getattr(entry, name) for name in _PLAIN}
    data = {name: value for name, value in plain.items() if value != _DEFAULTS[name]}
    data["role"] = entry.role.value
    if entry.evaluation_id is not None:
        data["evaluation_id"] = str(entry.evaluation_id)
    if entry.created_at is not None:
        data["created_at"] = entry.created_at.isoformat()
    if entry.tool_calls is not None:
        data["tool_calls"] = [_call_to_dict(call) for call in entry.tool_calls]
    if entry.parts is not None:
        data["parts"] = [_fields_to_dict(part) for part in entry.parts]
    if entry.reasoning is not None:
        data["reasoning"] = [_fields_to_dict(block) for block in entry.reasoning]
    if entry.metadata:
        data["metadata"] = {key: value for key, value in entry.metadata.items() if key != "merged"}
    return data


def entry_from_dict(data: Mapping[str, Any]) -> ConversationEntry:
    """Return the entry that `entry_to_dict` wrote, or raise a `ConversionError`."""
    try:
        return ConversationEntry(
            role=MessageRole(data["role"]),
            evaluation_id=_read(data.get("evaluation_id"), UUID),
            created_at=_read(data.get("created_at"), datetime.fromisoformat),
            tool_calls=_tuple(data.get("tool_calls"), ToolCall),
            parts=_tuple(data.get("parts"), ContentPart),
            reasoning=_tuple(data.get("reasoning"), Reasoning),
            metadata=data.get("metadata") or None,
            **{name: data[name] for name in _PLAIN if name in data},
        )
    except (KeyError, TypeError, ValueError) as error:
        problem = f"not an entry as written by entry_to_dict ({error})."
        raise ConversionError(problem, fix="pass the data unchanged.") from error


def _call_to_dict(call: ToolCall) -> dict[str, Any]:
    data = {"id": call.id, "name": call.name, "arguments": call.arguments}
    return {**data, "extra": dict(call.extra)} if call.extra else data


def _fields_to_dict(value: Any) -> dict[str, Any]:
    data = {name: getattr(value, name) for name in value.__slots__}
    return {name: item for name, item in data.items() if item is not None and item is not False}


def _read(text: Any, kind: Any) -> Any:
    return kind(text) if text else None


def _tuple(items: Any, kind: Any) -> Any:
    return None if items is None else tuple(kind(**item) for item in items)


def encode_value(value: Any) -> Any:
    """Return plain data with bytes made safe for JSON."""
    if isinstance(value, Mapping):
        return {str(key): encode_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode_value(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return {BYTES: base64.b64encode(value).decode("ascii")}
    return value


def decode_value(value: Any) -> Any:
    """Return plain data with the bytes that `encode_value` hid in it."""
    if isinstance(value, Mapping):
        if value.keys() == {BYTES}:
            return base64.b64decode(value[BYTES])
        return {key: decode_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    return value
