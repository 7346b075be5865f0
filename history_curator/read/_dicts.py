"""Read OpenAI- and Anthropic-style dicts. Both may stand in one list."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from history_curator.dialect import copied
from history_curator.errors import ConversionError
from history_curator.model import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
    new_call,
    new_entry,
)
from history_curator.read._parts import join_text, read_part
from history_curator.read._reasoning import read_reasoning, reasoning_block
from history_curator.write import stand_alone, write_dicts

ROLES: dict[str, MessageRole] = {
    "system": MessageRole.SYSTEM,
    "developer": MessageRole.SYSTEM,
    "user": MessageRole.USER,
    "human": MessageRole.USER,
    "assistant": MessageRole.ASSISTANT,
    "ai": MessageRole.ASSISTANT,
    "orchestrator": MessageRole.ASSISTANT,
    "tool": MessageRole.TOOL,
    "function": MessageRole.TOOL,
}

# Everything a provider is known to take; other keys are carried as `metadata`.
KNOWN_KEYS = frozenset(
    [
        "role",
        "content",
        "name",
        "tool_calls",
        "tool_call_id",
        "function_call",
        "refusal",
        "audio",
        "reasoning_content",
        "reasoning",
        "thinking_blocks",
        "annotations",
        "cache_control",
        "status",
        "is_error",
        "id",
    ]
)
PLAIN_KEYS = frozenset(("role", "content", "name", "tool_call_id", "tool_calls"))
_PLAIN_ROLES = {given: role for given, role in ROLES.items() if given != "orchestrator"}
_REASONING_BLOCKS = {"thinking", "redacted_thinking", "reasoning"}


class DictDialect:
    """Messages as dicts, as the OpenAI and Anthropic clients take them.

    Example:
        >>> entries = DictDialect().read({"role": "user", "content": "hi"}, 0)
        >>> entries[0].role, entries[0].content
        (<MessageRole.USER: 'user'>, 'hi')
    """

    name = "dicts"

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entries of one dict."""
        if message.__class__ is dict:
            content = message.get("content")
            if content.__class__ is str and message.keys() <= PLAIN_KEYS:
                given = message.get("role")
                role = _PLAIN_ROLES.get(given) if given.__class__ is str else None
                if role is not None and (
                    role is MessageRole.ASSISTANT or "tool_calls" not in message
                ):
                    return (_plain_entry(message, role, content, index),)
        elif not isinstance(message, Mapping):
            raise ConversionError(
                f"expected a mapping, got {type(message).__name__}.",
                index=index,
                fix='pass {"role": …, "content": …}; one list holds one kind of message.',
            )
        role = _read_role(message, index)
        content = message.get("content")
        if isinstance(content, (list, tuple)):
            return _read_blocks(message, role, content, index)
        if content is not None and not isinstance(content, str):
            raise ConversionError(
                f"content is a {type(content).__name__}.",
                index=index,
                field="content",
                fix="make it a string (json.dumps for data), a list of blocks, or None.",
            )
        if "content" not in message and role in (MessageRole.USER, MessageRole.SYSTEM):
            raise ConversionError(
                f"a {role} message has no content.",
                index=index,
                field="content",
                fix="add the text, or leave the message out.",
            )
        return (_entry(message, role, content, None, index),)

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return dicts; untouched ones are the same objects."""
        return write_dicts(entries)

    def glance(self, messages: Sequence[Any]) -> list[Any]:
        """Return the content of every message."""
        try:
            return [message["content"] for message in messages]
        except (KeyError, TypeError, IndexError):
            return [
                message.get("content") if isinstance(message, Mapping) else message
                for message in messages
            ]

    def alone(self, entries: Sequence[ConversationEntry]) -> bool:
        """Blocks of calls and results ask for their neighbours in the same style."""
        return stand_alone(entries)

    def peek(self, messages: Sequence[Any]) -> list[Any]:
        """Return the messages as dicts."""
        return [
            message if message.__class__ is dict else dict(message)  # any other mapping
            for message in messages
        ]

    def snapshot(self, message: Any) -> Any:
        """Return a copy of the message that shares its texts."""
        seen = dict(message)
        for key, value in seen.items():
            if value.__class__ is not str:
                seen[key] = copied(value)
        return seen


def _read_role(message: Mapping[str, Any], index: int) -> MessageRole:
    if "role" not in message:
        raise ConversionError(
            "the message has no role.",
            index=index,
            field="role",
            fix=f"add one of {', '.join(ROLES)}.",
        )
    given = message["role"]
    role = ROLES.get(given) if isinstance(given, str) else None
    if role is None and isinstance(given, str):
        role = ROLES.get(given.strip().lower())
    if role is None:
        raise ConversionError(
            f"unknown role {given!r}.",
            index=index,
            field="role",
            fix=f"use one of {', '.join(ROLES)}.",
        )
    return role


def _plain_entry(
    message: Mapping[str, Any], role: MessageRole, content: str, index: int
) -> ConversationEntry:
    """The common case, text and calls, without looking for anything else."""
    name = message.get("name")
    if name is not None and name.__class__ is not str:
        return _entry(message, role, content, None, index)
    if role is MessageRole.ASSISTANT:
        calls = _read_calls(message, index) if message.get("tool_calls") else ()
        return new_entry(role, content, index, message, tool_calls=calls or None, name=name)
    if role is not MessageRole.TOOL:
        return new_entry(role, content, index, message, name=name)
    call_id = message.get("tool_call_id")
    return new_entry(
        role,
        content,
        index,
        message,
        tool_call_id=call_id if call_id is None or call_id.__class__ is str else str(call_id),
        tool_name=name,
    )


def _entry(
    message: Mapping[str, Any],
    role: MessageRole,
    content: str | None,
    parts: tuple[ContentPart, ...] | None,
    index: int,
    *,
    calls: tuple[ToolCall, ...] = (),
    reasoning: tuple[Reasoning, ...] = (),
) -> ConversationEntry:
    name = message.get("name")
    if name is not None and not isinstance(name, str):
        raise ConversionError(
            f"name is a {type(name).__name__}.", index=index, field="name", fix="make it a string."
        )
    is_tool = role is MessageRole.TOOL
    if role is MessageRole.ASSISTANT:
        listed = message.get("tool_calls")
        if listed or "function_call" in message:
            calls = _merge_calls(calls, _read_calls(message, index))
        if content is None and parts is None and isinstance(message.get("refusal"), str):
            content = message["refusal"]
        reasoning = reasoning or read_reasoning(message)
        if message.get("role") == "orchestrator" and name is None:
            name = "orchestrator"
    call_id = message.get("tool_call_id") if is_tool else None
    extra = None
    if not message.keys() <= KNOWN_KEYS:
        extra = {key: value for key, value in message.items() if key not in KNOWN_KEYS}
    return new_entry(
        role,
        content,
        index,
        message,
        tool_calls=calls or None,
        tool_call_id=call_id if call_id is None or isinstance(call_id, str) else str(call_id),
        tool_name=name if is_tool else None,
        name=None if is_tool else name,
        parts=parts,
        reasoning=reasoning or None,
        status=_read_status(message) if is_tool else None,
        pinned=bool(extra and extra.get("pinned")),
        metadata=extra,
    )


def _read_status(message: Mapping[str, Any]) -> Literal["success", "error"] | None:
    status = message.get("status")
    if status == "error" or message.get("is_error") is True:
        return "error"
    return "success" if status == "success" else None


def _read_calls(message: Mapping[str, Any], index: int) -> tuple[ToolCall, ...]:
    listed = message.get("tool_calls") or ()
    if not isinstance(listed, (list, tuple)):
        raise ConversionError(
            f"tool_calls is a {type(listed).__name__}.",
            index=index,
            field="tool_calls",
            fix="make it a list of calls.",
        )
    calls = []
    for position, call in enumerate(listed):
        if call.__class__ is not dict and not isinstance(call, Mapping):
            raise ConversionError(
                f"the call is a {type(call).__name__}.",
                index=index,
                field=f"tool_calls[{position}]",
                fix='use {"id": …, "type": "function", "function": {"name": …, "arguments": …}}.',
            )
        body = call.get("function")
        if body.__class__ is dict and "type" in call and call["type"] == "function":
            name, given, arguments = body.get("name"), call.get("id"), body.get("arguments")
            if name.__class__ is given.__class__ is arguments.__class__ is str:
                calls.append(new_call(given, name, arguments))
                continue
        body = call.get("function", call.get("custom", call))
        if body.__class__ is not dict and not isinstance(body, Mapping):
            body = {}
        arguments = body.get("arguments", body.get("args", body.get("input")))
        if call.get("type") == "custom":  # free text, not JSON
            arguments = {"input": arguments}
        calls.append(
            ToolCall(
                "" if call.get("id") is None else str(call["id"]),
                str(body.get("name") or ""),
                arguments_text(arguments),
            )
        )
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        arguments = arguments_text(legacy.get("arguments"))
        calls.append(ToolCall("", str(legacy.get("name") or ""), arguments))
    return tuple(calls)


def _merge_calls(
    blocks: tuple[ToolCall, ...], listed: tuple[ToolCall, ...]
) -> tuple[ToolCall, ...]:
    """A call present both as a content block and in ``tool_calls`` is one call."""
    if not blocks:
        return listed
    seen = {call.id for call in blocks if call.id}
    return blocks + tuple(call for call in listed if call.id not in seen)


def arguments_text(arguments: Any) -> str:
    """Arguments as JSON text; text is kept as it is, even when it is not JSON."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return "{}"
    try:
        return json.dumps(arguments, ensure_ascii=False, default=str)
    except (TypeError, ValueError):  # keys that JSON has no words for
        return repr(arguments)


def _read_blocks(
    message: Mapping[str, Any], role: MessageRole, blocks: Sequence[Any], index: int
) -> tuple[ConversationEntry, ...]:
    """Split a message of blocks: each tool result is an entry, what lies between is one."""
    groups: list[ConversationEntry] = []
    parts: list[ContentPart] = []
    calls: list[ToolCall] = []
    reasoning: list[Reasoning] = []

    def close() -> None:
        if parts or calls or reasoning:
            text = tuple(parts)
            groups.append(
                _entry(
                    message,
                    role,
                    join_text(text),
                    text,
                    index,
                    calls=tuple(calls),
                    reasoning=tuple(reasoning),
                )
            )
            parts.clear()
            calls.clear()
            reasoning.clear()

    for position, block in enumerate(blocks):
        kind = block.get("type") if isinstance(block, Mapping) else None
        kind = kind if isinstance(kind, str) else None
        if kind == "tool_result" and role is not MessageRole.ASSISTANT:
            close()
            groups.append(_read_result_block(message, block, index, position))
        elif kind == "tool_use":
            arguments = arguments_text(block.get("input"))
            calls.append(
                ToolCall(str(block.get("id") or ""), str(block.get("name") or ""), arguments)
            )
        elif kind in _REASONING_BLOCKS:
            reasoning.append(reasoning_block(block))
        else:
            parts.append(read_part(block, index, f"content[{position}]"))
    close()
    if not groups:
        return (_entry(message, role, None, (), index),)
    if len(groups) == 1:
        return (groups[0],)
    count = len(groups)
    return tuple(_with_span(entry, (place, count)) for place, entry in enumerate(groups))


def _with_span(entry: ConversationEntry, span: tuple[int, int]) -> ConversationEntry:
    object.__setattr__(entry, "span", span)  # still private to the reader
    return entry


def _read_result_block(
    message: Mapping[str, Any], block: Mapping[str, Any], index: int, position: int
) -> ConversationEntry:
    content = block.get("content")
    parts: tuple[ContentPart, ...] | None = None
    if isinstance(content, (list, tuple)):
        field = f"content[{position}].content"
        parts = tuple(read_part(item, index, field) for item in content)
        content = join_text(parts)
    elif content is not None and not isinstance(content, str):
        raise ConversionError(
            f"the tool result is a {type(content).__name__}.",
            index=index,
            field=f"content[{position}].content",
            fix="make it a string or a list of blocks.",
        )
    call_id = block.get("tool_use_id")
    return ConversationEntry(
        role=MessageRole.TOOL,
        content=content,
        sequence=index,
        tool_call_id=None if call_id is None else str(call_id),
        parts=parts,
        status="error" if block.get("is_error") else None,
        source=message,
        span=(0, 1),
    )
