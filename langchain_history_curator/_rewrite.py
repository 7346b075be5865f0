"""Messages for entries that were changed, invented, or read from something else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    messages_from_dict,
)

from history_curator.dialects import text_first, write_part
from history_curator.model import ContentPart, ConversationEntry, MessageRole
from langchain_history_curator._blocks import (
    free_aside,
    free_blocks,
    is_item,
    kind_of,
    read_call,
    write_call,
)
from langchain_history_curator._calls import Renewed, call_rows, changed_calls

_THINKING = frozenset({"reasoning_content", "reasoning", "thinking_blocks"})
_KNOWN = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "id", "status"})


def invent(entry: ConversationEntry) -> BaseMessage:
    """A new message for an entry nobody said: a placeholder, a bridge, a summary."""
    content: Any = entry.content or ""
    if entry.parts is not None:
        content = [write_part(part) for part in text_first(entry)]
    return _build(entry, content, {})


def message_of(given: Any) -> BaseMessage:
    """What LangChain makes of a string, a tuple or a stored message."""
    if isinstance(given, dict) and "data" in given and "type" in given:
        return messages_from_dict([given])[0]
    return convert_to_messages([tuple(given) if isinstance(given, list) else given])[0]


def adopt(entry: ConversationEntry) -> BaseMessage:
    """The message for an entry read from a dict, or from one block of a message."""
    source = entry.source
    if isinstance(source, BaseMessage):
        return invent(entry)
    if not isinstance(source, dict) or "role" not in source:
        return message_of(source)
    content = source.get("content")
    if entry.span is not None or not isinstance(content, (str, list)):
        content = entry.content or ""
        if entry.parts is not None:
            content = [write_part(part) for part in entry.parts]
    elif isinstance(content, list):
        content = list(content)
    extra = {} if entry.span else {k: v for k, v in source.items() if k not in _KNOWN}
    if source.get("role") == "developer":
        extra["__openai_role__"] = "developer"
    raw = source.get("tool_calls")
    if raw and isinstance(raw, list) and all(isinstance(call, dict) for call in raw):
        extra["tool_calls"] = raw
    message = _build(entry, content, extra)
    if isinstance(source.get("id"), str) and entry.span is None:
        message.id = source["id"]
    return message


def rewrite(message: BaseMessage, entry: ConversationEntry) -> BaseMessage:
    """A copy of a message that says what the entry now says, and keeps everything else.

    A result that retention reduced to name and status loses its artifact too: that is the result.
    """
    before = entry.root
    update: dict[str, Any] = {}
    if isinstance(message, FunctionMessage):
        return ToolMessage(
            entry.content or "",
            tool_call_id=entry.tool_call_id or "",
            name=entry.tool_name,
            id=message.id,
            additional_kwargs=message.additional_kwargs,
            response_metadata=message.response_metadata,
            status=entry.status or "success",
        )
    if isinstance(message, ToolMessage):
        if entry.tool_call_id != before.tool_call_id:
            update["tool_call_id"] = entry.tool_call_id or ""
        if entry.tool_name != before.tool_name:
            update["name"] = entry.tool_name
        if entry.status is not None and entry.status != before.status:
            update["status"] = entry.status
        if message.artifact is not None and _is_name_and_status(entry):
            update["artifact"] = None
    elif entry.name != before.name:
        update["name"] = entry.name
    if isinstance(message, AIMessage):
        update |= _rewritten_ai(message, entry, before)
    else:
        update["content"] = _content(message.content, entry, before, None)
    return message.model_copy(update=update)


def _is_name_and_status(entry: ConversationEntry) -> bool:
    if entry.action != "cleared" or not (entry.content or "").startswith('{"name": '):
        return False
    try:
        said = json.loads(entry.content or "")
    except ValueError:
        return False
    return isinstance(said, dict) and said.keys() == {"name", "status"}


def _rewritten_ai(
    message: AIMessage, entry: ConversationEntry, before: ConversationEntry
) -> dict[str, Any]:
    fields, renewed = changed_calls(message, before.tool_calls or (), entry.tool_calls or ())
    extra = fields.get("additional_kwargs", message.additional_kwargs)
    content = _content(message.content, entry, before, renewed)
    if before.reasoning and not entry.reasoning:
        extra = {key: value for key, value in extra.items() if key not in _THINKING}
    if len(entry.reasoning or ()) < len(before.reasoning or ()):
        content = free_blocks(content) if isinstance(content, list) else content
        extra = free_aside(extra)
        if is_item(message.id):
            fields["id"] = None
    return {**fields, "additional_kwargs": extra, "content": content}


def _content(
    content: Any, entry: ConversationEntry, before: ConversationEntry, renewed: Renewed | None
) -> Any:
    """The content with its text, parts, thinking and calls as they now are."""
    if isinstance(content, str):
        if entry.parts:
            return [write_part(part) for part in text_first(entry)]
        return content if (entry.content or "") == content else entry.content or ""
    if entry.parts is None:
        if not renewed and not entry.reasoning:
            return entry.content or ""
        parts: tuple[ContentPart, ...] | None = _plain(entry)
    elif entry.parts == before.parts and entry.content == before.content:
        parts = None
    else:
        parts = _in_place(entry, text_first(entry))
    return _blocks(content, parts, entry, before, renewed)


def _plain(entry: ConversationEntry) -> tuple[ContentPart, ...]:
    return (ContentPart("text", entry.content),) if entry.content else ()


def _in_place(entry: ConversationEntry, parts: tuple[ContentPart, ...]) -> tuple[ContentPart, ...]:
    # Text that replaces all text blocks keeps the first one's other fields (annotations, marks).
    first = next((part for part in entry.parts or () if part.kind == "text"), None)
    if first is None or first.raw is None:
        return parts
    return tuple(
        ContentPart("text", part.text, first.raw)
        if part.kind == "text" and part.raw is None and part.text == entry.content
        else part
        for part in parts
    )


def _blocks(
    content: Sequence[Any],
    parts: tuple[ContentPart, ...] | None,
    entry: ConversationEntry,
    before: ConversationEntry,
    renewed: Renewed | None,
) -> list[Any]:
    thinking = {id(item.raw) for item in entry.reasoning or ()}
    bound = {id(item.raw) for item in before.reasoning or ()}
    waiting = {call_id: list(calls) for call_id, calls in (renewed or {}).items()}
    queue = None if parts is None else list(parts)
    out = [item.raw for item in entry.reasoning or () if item.raw and id(item.raw) not in bound]
    last_part = max((i for i, b in enumerate(content) if _is_part(b)), default=-1)
    for position, block in enumerate(content):
        kind = kind_of(block)
        if kind == "reasoning":
            if id(block) in thinking:
                out.append(block)
        elif kind == "call" and renewed is not None:
            if queue and position > last_part:
                out.extend(map(write_part, queue))
                queue.clear()
            said = read_call(block)
            if waiting.get(said.id):
                call = waiting[said.id].pop(0)
                out.append(block if said == call else write_call(block, call))
        elif queue is None:
            out.append(block)
        else:
            at = next((i for i, part in enumerate(queue) if part.raw is block), None)
            if at is not None:
                out.extend(map(write_part, queue[: at + 1]))
                del queue[: at + 1]
    out.extend(map(write_part, queue or ()))
    return out


def _is_part(block: Any) -> bool:
    return kind_of(block) in ("part", "result")


def _build(entry: ConversationEntry, content: Any, extra: dict[str, Any]) -> BaseMessage:
    if entry.origin is not None:
        extra = {**extra, "history_curator": {"origin": entry.origin}}
    if entry.role is MessageRole.USER:
        return HumanMessage(content, name=entry.name, additional_kwargs=extra)
    if entry.role is MessageRole.SYSTEM:
        return SystemMessage(content, name=entry.name, additional_kwargs=extra)
    if entry.role is MessageRole.TOOL:
        return ToolMessage(
            content,
            tool_call_id=entry.tool_call_id or "",
            name=entry.tool_name,
            status=entry.status or "success",
            additional_kwargs=extra,
        )
    valid, invalid = call_rows(entry.tool_calls or ())
    return AIMessage(
        content,
        name=entry.name,
        tool_calls=valid,
        invalid_tool_calls=invalid,
        additional_kwargs=extra,
    )
