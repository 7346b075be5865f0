"""Chat Completions: calls stand beside the content, every result is a message of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from history_curator.entries import ConversationEntry, MessageRole, Reasoning, ToolCall
from history_curator.formats.base import Reading, as_mapping, free_input
from history_curator.formats.blocks import read_thinking, update_text, write_part

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
_ROLE_NAMES = {"developer", "function"}
"""Roles that providers know beside our four."""
_SENT_ROLES = {*_ROLE_NAMES, *(role.value for role in MessageRole)}
_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking_blocks")
_OTHER_FIELDS: dict[str, type | tuple[type, ...]] = {
    "refusal": str,
    "audio": Mapping,
    "annotations": (list, tuple),
    "reasoning_content": str,
    "reasoning": str,
    "thinking_blocks": (list, tuple),
    "cache_control": Mapping,
    "id": str,
    "status": str,
    "is_error": (bool, int),
}
"""Fields that a provider takes beside the plain ones, each with its type: add a new field here.

A field that is not listed is read as metadata, and the rules do not send it.
"""
_PLAIN_KEYS = ("role", "content", "name", "tool_call_id", "tool_calls", "function_call")
KNOWN_KEYS = frozenset((*_PLAIN_KEYS, *_OTHER_FIELDS))
"""Everything a provider is known to take; other keys are carried as `metadata`."""
_ASSISTANT, _TOOL = MessageRole.ASSISTANT, MessageRole.TOOL


def read_role(message: Mapping[str, Any], reading: Reading) -> MessageRole:
    """Read the role; a name that only we know is noted."""
    role = reading.role_of(message.get("role"), ROLES)
    if message["role"] not in _SENT_ROLES:
        reading.repairs.append(f"role: {message['role']!r} is read as {role.value}")
    return role


def build_entry(
    message: Mapping[str, Any],
    role: MessageRole,
    reading: Reading,
    content: str | None,
    *,
    tool_calls: tuple[ToolCall, ...] | None = None,
    reasoning: tuple[Reasoning, ...] | None = None,
    known: frozenset[str] = KNOWN_KEYS,
    **fields: Any,
) -> ConversationEntry:
    """Return the entry of a message whose content was read; its other fields are read here.

    Keys that are not `known`, those a provider takes, become metadata.
    """
    given, status, call_id = message.get("role"), None, None
    name = message.get("name") if "name" in known else None
    if name is not None:
        reading.require(name, str, "name")
    if role is _ASSISTANT:
        if message.get("tool_calls") or "function_call" in message:
            ids = {call.id for call in tool_calls or () if call.id}
            listed = [call for call in _read_calls(message, reading) if call.id not in ids]
            tool_calls = (*(tool_calls or ()), *listed)
        if content is None and "parts" not in fields and isinstance(message.get("refusal"), str):
            content = message["refusal"]
        reasoning = reasoning or _read_reasoning(message)
        if name is None and given == "orchestrator":
            name = given
    elif role is _TOOL:
        call_id, status = message.get("tool_call_id"), message.get("status")
        call_id = None if call_id is None else reading.text_of(call_id, "tool_call_id")
        if message.get("is_error") is True:
            status = "error"
    for key in _OTHER_FIELDS.keys() & message.keys() & known:
        if message[key] is not None:
            reading.check_json(reading.require(message[key], _OTHER_FIELDS[key], key), key)
    extra = {key: value for key, value in message.items() if key not in known}
    return ConversationEntry(
        role,
        content,
        sequence=reading.index,
        source=message,
        tool_calls=tool_calls or None,
        tool_call_id=call_id,
        tool_name=name if role is _TOOL else None,
        name=None if role is _TOOL else name,
        reasoning=reasoning or None,
        status=status if status in ("error", "success") else None,
        pinned=bool(fields.get("barrier") or extra.get("pinned")),
        metadata=extra or None,
        role_name=given if given in _ROLE_NAMES else None,
        repairs=reading.note,
        **fields,
    )


def _read_reasoning(message: Mapping[str, Any]) -> tuple[Reasoning, ...]:
    blocks = message.get("thinking_blocks")
    if isinstance(blocks, list) and blocks:
        return tuple(read_thinking(block) for block in blocks if isinstance(block, Mapping))
    text = message.get("reasoning_content", message.get("reasoning"))
    return (Reasoning(text, raw=None),) if isinstance(text, str) and text else ()


def _read_calls(message: Mapping[str, Any], reading: Reading) -> list[ToolCall]:
    listed = message.get("tool_calls") or ()
    reading.require(listed, (list, tuple), "tool_calls")
    calls = [_read_call(call, f"tool_calls[{n}]", reading) for n, call in enumerate(listed)]
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        call = {"type": "function", "function": legacy}
        calls.append(_read_call(call, "function_call", reading))
    return calls


def _read_call(call: Any, field: str, reading: Reading) -> ToolCall:
    reading.require(call, Mapping, field)
    reading.check_json(call, field)
    kind = "custom" if call.get("type") == "custom" else "function"
    body = call.get(kind)
    if call.get("type") != kind or not isinstance(body, Mapping):
        reading.repairs.append(f"{field}: the call had no type that is known, or no {kind}")
    body = body if isinstance(body, Mapping) else call
    call_id = reading.text_of(call.get("id"), f"{field}.id")
    name = reading.text_of(body.get("name"), f"{field}.{kind}.name")
    if kind == "custom":
        arguments = reading.free_text(body.get("input"), f"{field}.custom.input")
    else:
        given = body.get("arguments", body.get("args"))
        arguments = reading.arguments(given, f"{field}.function.arguments")
    extra = {key: call[key] for key in call if key not in ("id", "type", kind)}
    inside = {key: body[key] for key in body if key not in ("name", "arguments", "args", "input")}
    if body is call or (kind == "function" and not extra and not inside):
        return ToolCall(call_id, name, arguments)
    return ToolCall(call_id, name, arguments, {"chat": {"type": kind, **extra, "body": inside}})


def _write_call(call: ToolCall) -> dict[str, Any]:
    extra = dict((call.extra or {}).get("chat") or {})
    kind, body = extra.pop("type", "function"), {**extra.pop("body", {}), "name": call.name}
    if kind == "custom":
        body["input"] = free_input(call.arguments)
    else:
        body["arguments"] = call.arguments
    return {"id": call.id, "type": kind, kind: body, **extra}


def is_sent(key: str, entry: ConversationEntry, known: frozenset[str]) -> bool:
    """Return whether a key of the source is still sent: an unknown one may be taken away."""
    metadata = entry.root.metadata or ()
    return key in (entry.metadata or ()) or (key in known and key not in metadata)


def write_message(
    entry: ConversationEntry, *, patch: bool = True, blocks: list[Any] | None = None
) -> dict[str, Any]:
    """Return an entry as a message of its own: its source, patched where it was edited.

    Without `patch` no field of the source is used, as it is of another format. `blocks` are its
    content, where it is in blocks that only the caller can write.
    """
    root = entry.root
    source = as_mapping(entry.source) if patch else {}
    # Without a message, or with one that was not as it should be, everything is written.
    is_new = root is entry or root.repairs is not None or not source
    message = {key: value for key, value in source.items() if is_sent(key, entry, KNOWN_KEYS)}
    message["role"] = entry.role.value
    if entry.role_name and ROLES.get(entry.role_name) is entry.role and not entry.tool_call_id:
        message["role"] = entry.role_name
    is_edited = entry.content != root.content or entry.parts != root.parts
    if is_new or entry.span is not None or is_edited or "content" not in message:
        if root.content is not None and root.content == message.get("refusal"):
            message.pop("refusal", None)
        if blocks is None and entry.parts is not None:
            blocks = [write_part(part) for part in update_text(entry)]
        message["content"] = entry.content if blocks is None else blocks
    is_tool, calls = entry.role is _TOOL, entry.tool_calls if entry.role is _ASSISTANT else None
    before, now = ([(c, c.extra) for c in each or ()] for each in (root.tool_calls, calls))
    if is_new or now != before:
        message.pop("function_call", None)
        message["tool_calls"] = [_write_call(call) for call in calls or ()]
    if not calls:
        message.pop("tool_calls", None)
    call_id, name = (entry.tool_call_id, entry.tool_name) if is_tool else (None, entry.name)
    for key, value in (("tool_call_id", call_id), ("name", name)):
        message[key] = value
        if value is None:
            del message[key]
    if entry.reasoning != (root.reasoning if source else None):
        _write_reasoning(message, entry.reasoning or ())
    return message


def _write_reasoning(message: dict[str, Any], reasoning: Sequence[Reasoning]) -> None:
    for key in _REASONING_KEYS:
        message.pop(key, None)
    blocks = [each.raw for each in reasoning if each.raw is not None]
    content = message.get("content")
    if blocks and not (isinstance(content, list) and blocks[0] in content):
        message["thinking_blocks"] = blocks
    text = "\n".join(each.text for each in reasoning if each.raw is None and each.text)
    if text:
        message["reasoning_content"] = text
