"""Messages as the frameworks' SQL stores keep them: JSON, read and edited without a framework.

Only what retention needs is understood; everything else in a row survives an edit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from history_curator.model import ContentPart, ConversationEntry, MessageRole, ToolCall

Row = dict[str, Any]

_ROLES = {
    "human": MessageRole.USER,
    "user": MessageRole.USER,
    "ai": MessageRole.ASSISTANT,
    "assistant": MessageRole.ASSISTANT,
    "model": MessageRole.ASSISTANT,
    "chatbot": MessageRole.ASSISTANT,
    "tool": MessageRole.TOOL,
    "function": MessageRole.TOOL,
    "system": MessageRole.SYSTEM,
    "developer": MessageRole.SYSTEM,
}
_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call", "server_tool_use"})
_THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking", "reasoning"})


@dataclass(frozen=True, slots=True)
class Layout:
    """How one framework lays out its table.

    Attributes:
        name: the framework.
        session: the column that names the conversation.
        payload: the column that holds the message.
        order: the columns that sort a conversation.
    """

    name: str
    session: str
    payload: str
    order: tuple[str, ...]

    @property
    def columns(self) -> frozenset[str]:
        """What a table must have to be of this layout."""
        return frozenset({self.session, self.payload, *self.order})


LAYOUTS = (
    Layout("LangChain", "session_id", "message", ("id",)),
    Layout("LlamaIndex", "key", "data", ("timestamp", "id")),
)


def read_stored(data: Mapping[str, Any]) -> ConversationEntry | None:
    """Return the entry of a stored message, or None when its role is unknown."""
    body = _body(data)
    role = _ROLES.get(str(body.get("role") or data.get("type") or body.get("type")))
    if role is None:
        return None
    extra = body.get("additional_kwargs") or {}
    text, media = _content(body)
    return ConversationEntry(
        role=role,
        content=text,
        tool_calls=_calls(body, extra) or None,
        tool_call_id=body.get("tool_call_id") or extra.get("tool_call_id"),
        tool_name=(body.get("name") or extra.get("name")) if role is MessageRole.TOOL else None,
        status=body.get("status") if body.get("status") in ("success", "error") else None,
        parts=(ContentPart("other"),) if media else None,
        source=data,
    )


def write_stored(entry: ConversationEntry) -> Row:
    """Return a new row for an edited entry: the stored one, with what retention changed."""
    row: Row = json.loads(json.dumps(entry.source))
    body = _body(row)
    extra = body.get("additional_kwargs")
    if entry.role is MessageRole.TOOL:
        _set_text(body, entry.content or "")
        body.pop("artifact", None)
    elif entry.tool_calls is None:
        _strip_calls(body, extra)
    else:
        _empty_calls(body, extra)
    return row


def _body(data: Mapping[str, Any]) -> Any:
    inner = data.get("data")
    return inner if isinstance(inner, Mapping) and "type" in data else data


def _blocks(body: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Return which field holds the blocks, and the blocks."""
    for field in ("blocks", "content"):
        if isinstance(body.get(field), list):
            return field, body[field]
    return "", []


def _kind(block: Any) -> str:
    if not isinstance(block, Mapping):
        return "text"
    return str(block.get("block_type") or block.get("type") or "text")


def _content(body: Mapping[str, Any]) -> tuple[str | None, bool]:
    """Return the text, and whether there is more than text to show."""
    if isinstance(body.get("content"), str):
        return body["content"], False
    _, blocks = _blocks(body)
    texts = [
        block if isinstance(block, str) else str(block.get("text") or "")
        for block in blocks
        if _kind(block) == "text"
    ]
    shown = {"text", *_CALL_BLOCKS, *_THINKING_BLOCKS}
    return "\n".join(texts) or None, any(_kind(block) not in shown for block in blocks)


def _calls(body: Mapping[str, Any], extra: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    found: dict[str, ToolCall] = {}
    given = [*(body.get("tool_calls") or ()), *(body.get("invalid_tool_calls") or ())]
    given += extra.get("tool_calls") or ()
    given += [block for block in _blocks(body)[1] if _kind(block) in _CALL_BLOCKS]
    for call in given:
        if not isinstance(call, Mapping):
            continue
        function = call.get("function")
        inner: Mapping[str, Any] = function if isinstance(function, Mapping) else call
        identity = str(call.get("id") or call.get("tool_call_id") or call.get("call_id") or "")
        name = str(inner.get("name") or inner.get("tool_name") or "tool")
        arguments: Any = next(
            (inner[key] for key in ("args", "arguments", "input", "tool_kwargs") if key in inner),
            {},
        )
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        current = found.get(identity)
        # The same call is often stored twice; it is trimmed only when every copy is.
        if current is None or current.arguments == "{}":
            found[identity] = ToolCall(identity, name, text or "{}")
    return tuple(found.values())


def _set_text(body: Any, text: str) -> None:
    field, blocks = _blocks(body)
    if field == "blocks":
        body["blocks"] = [{"block_type": "text", "text": text}]
    elif blocks or "content" in body:
        body["content"] = text


def _strip_calls(body: Any, extra: Any) -> None:
    for field in ("tool_calls", "invalid_tool_calls"):
        if field in body:
            body[field] = []
    if isinstance(extra, dict):
        for field in ("tool_calls", "function_call"):
            extra.pop(field, None)
    field, blocks = _blocks(body)
    if field:
        gone = _CALL_BLOCKS | _THINKING_BLOCKS
        body[field] = [block for block in blocks if _kind(block) not in gone]


def _empty_calls(body: Any, extra: Any) -> None:
    calls = [*(body.get("tool_calls") or ()), *(body.get("invalid_tool_calls") or ())]
    if isinstance(extra, dict):
        calls += extra.get("tool_calls") or ()
    calls += [block for block in _blocks(body)[1] if _kind(block) in _CALL_BLOCKS]
    for call in calls:
        if not isinstance(call, dict):
            continue
        inner = call["function"] if isinstance(call.get("function"), dict) else call
        for field in ("args", "arguments", "input", "tool_kwargs"):
            if field in inner:
                inner[field] = "{}" if isinstance(inner[field], str) else {}
