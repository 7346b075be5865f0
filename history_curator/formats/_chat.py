"""Chat Completions: calls stand beside the content, every result is a message of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from history_curator.formats._chat_calls import (
    merged_calls,
    plain_calls,
    read_calls,
    write_call,
)
from history_curator.formats._fields import Reading, mapping
from history_curator.formats._parts import join_text, read_part, text_first, write_part
from history_curator.errors import a_type, named
from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
    new_entry,
)

__all__ = [
    "KNOWN_KEYS",
    "ROLES",
    "entry_of",
    "is_kept",
    "read_message",
    "read_plain",
    "read_reasoning",
    "read_role",
    "sendable",
    "write_message",
]

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
_NAMES = {"developer", "function"}
"""Roles that providers know beside our four."""

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
_PLAIN_KEYS = frozenset(("role", "content", "name", "tool_call_id", "tool_calls"))
_ASSISTANT, _TOOL = MessageRole.ASSISTANT, MessageRole.TOOL
_PLAIN_ROLES = {role.value: role for role in MessageRole}
_BESIDE: dict[str, type | tuple[type, ...]] = {
    "refusal": str,
    "audio": Mapping,
    "annotations": (list, tuple),
    "reasoning_content": str,
    "reasoning": str,
    "thinking_blocks": (list, tuple),
    "cache_control": Mapping,
    "id": str,
    "status": str,
    "is_error": bool,
}
"""What may stand beside the content, and of which type it is."""
_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking_blocks")


def read_plain(message: Any, index: int) -> ConversationEntry | None:
    """Read the common case, text and calls; None when there is anything else to look at."""
    if message.__class__ is not dict or not _PLAIN_KEYS.issuperset(message):
        return None
    content, given, name = message.get("content"), message.get("role"), message.get("name")
    if content.__class__ is not str or given.__class__ is not str:
        return None
    if name is not None and name.__class__ is not str:
        return None
    role = _PLAIN_ROLES.get(given)
    if role is _TOOL:
        call_id = message.get("tool_call_id")
        if "tool_calls" in message or (call_id is not None and call_id.__class__ is not str):
            return None
        return new_entry(role, content, index, message, tool_call_id=call_id, tool_name=name)
    calls = message.get("tool_calls")
    read = plain_calls(calls) if calls and role is _ASSISTANT else None
    if role is None or (calls and read is None):
        return None
    return new_entry(role, content, index, message, tool_calls=read, name=name)


def read_role(message: Mapping[str, Any], reading: Reading) -> MessageRole:
    """Read who speaks; a name that only we know is noted."""
    if "role" not in message:
        raise reading.error("the message has no role.", "role", f"add one of {', '.join(ROLES)}.")
    given = message["role"]
    plain = given.strip().lower() if isinstance(given, str) else None
    role = ROLES.get(plain) if plain is not None else None
    if role is None:
        raise reading.error(
            f"unknown role: {named(given)}.", "role", f"use one of {', '.join(ROLES)}."
        )
    if plain != given or (plain not in _PLAIN_ROLES and plain not in _NAMES):
        reading.repaired(f"role: {given!r} is read as {role.value}")
    if plain == "function" and message.get("tool_call_id") is not None:
        reading.repaired("role: a function message with a tool_call_id is a tool message")
    return role


def read_message(
    message: Mapping[str, Any], role: MessageRole, reading: Reading
) -> ConversationEntry:
    """Read a message without calls or results among its blocks."""
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        parts = tuple(
            read_part(block, reading.index, f"content[{at}]", reading)
            for at, block in enumerate(content)
        )
        return entry_of(message, role, join_text(parts), parts, reading)
    if content is not None and not isinstance(content, str):
        raise reading.error(
            f"content is {a_type(content)}.",
            "content",
            "make it a string (json.dumps for data), a list of blocks, or None.",
        )
    if "content" not in message and role in (MessageRole.USER, MessageRole.SYSTEM):
        raise reading.error(
            f"a {role} message has no content.",
            "content",
            "add the text, or leave the message out.",
        )
    return entry_of(message, role, content, None, reading)


def entry_of(
    message: Mapping[str, Any],
    role: MessageRole,
    content: str | None,
    parts: tuple[ContentPart, ...] | None,
    reading: Reading,
    *,
    calls: tuple[ToolCall, ...] = (),
    reasoning: tuple[Reasoning, ...] = (),
    known: frozenset[str] = KNOWN_KEYS,
    barrier: bool = False,
) -> ConversationEntry:
    """Make the entry of a message whose content was read."""
    name = message.get("name") if "name" in known else None
    if name is not None and not isinstance(name, str):
        raise reading.error(f"name is {a_type(name)}.", "name", "make it a string.")
    is_tool = role is MessageRole.TOOL
    given = message.get("role")
    if role is MessageRole.ASSISTANT:
        if message.get("tool_calls") or "function_call" in message:
            calls = merged_calls(calls, read_calls(message, reading))
        if content is None and parts is None and isinstance(message.get("refusal"), str):
            content = message["refusal"]
        reasoning = reasoning or read_reasoning(message)
        if name is None and isinstance(given, str) and given.strip().lower() == "orchestrator":
            name = "orchestrator"
    call_id = message.get("tool_call_id") if is_tool else None
    if call_id is not None:
        call_id = reading.name_of(call_id, "tool_call_id", "the call id")
    if not _BESIDE.keys().isdisjoint(message):
        _fields_beside(message, reading)
    extra = None
    if not message.keys() <= known:
        extra = {key: value for key, value in message.items() if key not in known}
        reading.checked(extra, "metadata", sent=False)
    seldom: dict[str, Any] = {}
    if given in _NAMES and not (given == "function" and call_id is not None):
        seldom["role_name"] = given
    if barrier:
        seldom["barrier"] = True
    if reading.repairs:
        seldom["repairs"] = reading.note
    return new_entry(
        role,
        content,
        reading.index,
        message,
        tool_calls=calls or None,
        tool_call_id=call_id,
        tool_name=name if is_tool else None,
        name=None if is_tool else name,
        parts=parts,
        reasoning=reasoning or None,
        status=_read_status(message) if is_tool else None,
        pinned=barrier or bool(extra and extra.get("pinned")),
        metadata=extra,
        seldom=seldom or None,
    )


def _fields_beside(message: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """What stands beside the content as it can be sent: left out where it is of another type."""
    fields = {}
    for key, kind in _BESIDE.items():
        value = message.get(key)
        if value is None:
            continue
        if isinstance(value, kind):
            fields[key] = reading.checked(value, key)
        else:
            reading.repaired(f"{key}: it was {a_type(value)}, and is left out")
    return fields


def sendable(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message whose fields beside the content are as they can be sent."""
    fields = _fields_beside(message, Reading(0))
    return {
        key: fields.get(key, value)
        for key, value in message.items()
        if key in fields or key not in _BESIDE
    }


def _read_status(message: Mapping[str, Any]) -> Literal["success", "error"] | None:
    status = message.get("status")
    if status == "error" or message.get("is_error") is True:
        return "error"
    return "success" if status == "success" else None


def read_reasoning(message: Mapping[str, Any]) -> tuple[Reasoning, ...]:
    """The reasoning kept beside the content."""
    blocks = message.get("thinking_blocks")
    if isinstance(blocks, list) and blocks:
        from history_curator.formats._anthropic import reasoning_block

        return tuple(reasoning_block(block) for block in blocks if isinstance(block, Mapping))
    text = message.get("reasoning_content", message.get("reasoning"))
    return (Reasoning(text, raw=None),) if isinstance(text, str) and text else ()


def write_message(entry: ConversationEntry, *, keep: bool = True) -> dict[str, Any]:
    """Return an entry as a message of its own. Fields of the source that were not edited survive.

    Args:
        entry: the entry.
        keep: whether the fields of the source are of this format; else none of them is kept.
    """
    root = entry.root
    source = mapping(entry.source) if keep else {}
    # Without a message, or with one that was not as it should be, everything is written.
    fresh = root is entry or root.repairs is not None or not source
    message = {key: value for key, value in source.items() if is_kept(key, entry, KNOWN_KEYS)}
    if root.repairs is not None:
        message = sendable(message)
    message["role"] = _role(entry)
    if fresh or entry.span is not None or _says_other(entry, root) or "content" not in message:
        if root.content is not None and root.content == message.get("refusal"):
            message.pop("refusal", None)
        message["content"] = _content(entry)
    _set_calls(message, entry, fresh=fresh)
    _set_author(message, entry)
    if entry.reasoning != (root.reasoning if source else None):
        _set_reasoning(message, entry)
    return message


def is_kept(key: str, entry: ConversationEntry, known: frozenset[str]) -> bool:
    """Whether a key of the source is still sent: one that no provider knows may be taken away."""
    return key in known or key in (entry.metadata or ())


def _says_other(entry: ConversationEntry, root: ConversationEntry) -> bool:
    return entry.content != root.content or entry.parts != root.parts


def _role(entry: ConversationEntry) -> str:
    if entry.role_name and ROLES.get(entry.role_name) is entry.role and not entry.tool_call_id:
        return entry.role_name
    return entry.role.value


def _content(entry: ConversationEntry) -> Any:
    if entry.parts is None:
        return entry.content
    if entry.reasoning and entry.reasoning[0].raw in (mapping(entry.source).get("content") or ()):
        from history_curator.formats._anthropic import written_blocks

        return written_blocks(entry, ())
    return [write_part(part) for part in text_first(entry)]


def _set_calls(message: dict[str, Any], entry: ConversationEntry, *, fresh: bool) -> None:
    calls = entry.tool_calls if entry.role is MessageRole.ASSISTANT else None
    if fresh or calls != entry.root.tool_calls:
        message.pop("function_call", None)
        if calls:
            message["tool_calls"] = [write_call(call) for call in calls]
    if not calls:
        message.pop("tool_calls", None)


def _set_reasoning(message: dict[str, Any], entry: ConversationEntry) -> None:
    for key in _REASONING_KEYS:
        message.pop(key, None)
    blocks = [block.raw for block in entry.reasoning or () if block.raw is not None]
    said = message.get("content")
    if blocks and not (isinstance(said, list) and blocks[0] in said):
        message["thinking_blocks"] = blocks
    text = "\n".join(
        block.text for block in entry.reasoning or () if block.raw is None and block.text
    )
    if text:
        message["reasoning_content"] = text


def _set_author(message: dict[str, Any], entry: ConversationEntry) -> None:
    is_tool = entry.role is MessageRole.TOOL
    _set(message, "tool_call_id", entry.tool_call_id if is_tool else None)
    _set(message, "name", entry.tool_name if is_tool else entry.name)


def _set(message: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        message.pop(key, None)
    else:
        message[key] = value
