"""Provider responses as messages, and tool outcomes in the style the model asked in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from history_curator.errors import ConversionError, a_type
from history_curator.model import ToolCall

_FIELDS = ("role", "content", "tool_calls", "name", "refusal", "reasoning_content")


def assistant_message(response: Any) -> dict[str, Any]:
    """Return the assistant message of a response.

    Takes a message dict, a message object, or a whole response of the OpenAI (``choices``) or
    Anthropic (``content`` blocks) clients.

    Raises:
        ConversionError: when there is no assistant message in it.
    """
    data = _plain(response)
    if isinstance(data, str):
        return {"role": "assistant", "content": data}
    if isinstance(data, Mapping) and data.get("choices"):
        data = _plain(data["choices"][0])
        data = _plain(data.get("message")) if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or data.get("role") != "assistant":
        raise ConversionError(
            f"call_provider returned {a_type(response)} without an assistant message.",
            fix="return the assistant message as a dict, or the client's response.",
        )
    if "stop_reason" in data:  # a whole Anthropic response, not only its message
        return {"role": "assistant", "content": data.get("content")}
    if isinstance(response, dict) and data is response:
        return response
    return {
        key: data[key]
        for key in _FIELDS
        if key in data and (data[key] or key in ("role", "content"))
    }


def result_messages(
    message: Mapping[str, Any],
    calls: Sequence[ToolCall],
    outcomes: Sequence[tuple[str, bool]],
) -> list[dict[str, Any]]:
    """Return tool results as messages: one each, or one of blocks where the call came in blocks."""
    if not _asked_in_blocks(message):
        return [
            {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": text}
            for call, (text, _) in zip(calls, outcomes, strict=True)
        ]
    blocks = [
        {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": text,
            **({"is_error": True} if failed else {}),
        }
        for call, (text, failed) in zip(calls, outcomes, strict=True)
    ]
    return [{"role": "user", "content": blocks}]


def result_text(returned: Any) -> str:
    """Return what a tool returned as text: JSON unless it is a string."""
    if isinstance(returned, str):
        return returned
    return json.dumps(returned, ensure_ascii=False, default=str)


def _asked_in_blocks(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(block, Mapping) and block.get("type") == "tool_use" for block in content
    )


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(exclude_none=True)
    if isinstance(value, Mapping) or not hasattr(value, "__dict__"):
        return value
    return {key: _plain_item(item) for key, item in vars(value).items()}


def _plain_item(item: Any) -> Any:
    return [_plain(part) for part in item] if isinstance(item, list) else _plain(item)
