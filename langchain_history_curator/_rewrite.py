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

from history_curator.formats import text_first, write_part
from history_curator.entries import ContentPart, ConversationEntry, MessageRole, ToolCall
from langchain_history_curator._blocks import (
    arguments_object,
    free_aside,
    free_blocks,
    is_item,
    kind_of,
    read_call,
    write_call,
)

Renewed = dict[str, list[ToolCall]]
"""Calls as they now are, by the id they were read with."""

_WITHOUT = AIMessage("")
_PARTS = ("part", "result")
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
    fields, renewed = _changed_calls(message, before.tool_calls or (), entry.tool_calls or ())
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
        parts: Sequence[ContentPart] | None = (
            [ContentPart("text", entry.content)] if entry.content else []
        )
    elif entry.parts == before.parts and entry.content == before.content:
        parts = None
    else:
        parts = text_first(entry)
    return _blocks(content, parts, entry, before, renewed)


def _blocks(
    content: Sequence[Any],
    parts: Sequence[ContentPart] | None,
    entry: ConversationEntry,
    before: ConversationEntry,
    renewed: Renewed | None,
) -> list[Any]:
    thinking = {id(item.raw) for item in entry.reasoning or ()}
    bound = {id(item.raw) for item in before.reasoning or ()}
    waiting = {call_id: list(calls) for call_id, calls in (renewed or {}).items()}
    queue = None if parts is None else list(parts)
    out = [item.raw for item in entry.reasoning or () if item.raw and id(item.raw) not in bound]
    last_part = max((i for i, b in enumerate(content) if kind_of(b) in _PARTS), default=-1)
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
    valid, invalid = _call_rows(entry.tool_calls or ())
    return AIMessage(
        content,
        name=entry.name,
        tool_calls=valid,
        invalid_tool_calls=invalid,
        additional_kwargs=extra,
    )


def _changed_calls(
    message: AIMessage, old: Sequence[ToolCall], new: Sequence[ToolCall]
) -> tuple[dict[str, Any], Renewed]:
    """Return the fields of a message whose calls are to be others, and the calls for its blocks."""
    origins = _origins(old, new)
    renewed: Renewed = {}
    for call, origin in zip(new, origins, strict=True):
        if origin is not None:
            renewed.setdefault(old[origin].id, []).append(call)
    if new == old:
        return {}, renewed
    valid, invalid = _call_rows(new, message, old, origins)
    fields: dict[str, Any] = {
        "tool_calls": valid,
        "invalid_tool_calls": invalid,
        "additional_kwargs": _aside(message.additional_kwargs, old, renewed),
    }
    if getattr(message, "tool_call_chunks", None):
        fields["tool_call_chunks"] = _chunks(new)
    return fields, renewed


def _origins(old: Sequence[ToolCall], new: Sequence[ToolCall]) -> list[int | None]:
    """For each new call, the position of the old one it was made from.

    Same id first; a renamed call is found by its place among the rest, since edits keep order.
    """
    taken: set[int] = set()
    found: list[int | None] = []
    for call in new:
        at = next((i for i, o in enumerate(old) if i not in taken and o.id == call.id), None)
        if at is not None:
            taken.add(at)
        found.append(at)
    free = [i for i in range(len(old)) if i not in taken]
    for position, call in enumerate(new):
        if found[position] is not None or not free:
            continue
        alike = [i for i in free if old[i].name == call.name] or (
            free if len(new) == len(old) else []
        )
        if alike:
            found[position] = alike[0]
            free.remove(alike[0])
    return found


def _call_rows(
    calls: Sequence[ToolCall],
    message: AIMessage = _WITHOUT,
    old: Sequence[ToolCall] = (),
    origins: Sequence[int | None] = (),
) -> tuple[list[Any], list[Any]]:
    """Return calls as ``tool_calls`` and ``invalid_tool_calls``.

    A row of a message that had the call before, as one of `old`, keeps what else it holds.
    """
    valid: list[Any] = []
    invalid: list[Any] = []
    given = len(message.tool_calls)
    for call, origin in zip(calls, origins or [None] * len(calls), strict=True):
        same = origin is not None and old[origin].arguments == call.arguments
        if origin is not None and origin < given and same:
            kept: Any = message.tool_calls[origin]
            valid.append({**kept, "name": call.name, "id": call.id})
            continue
        arguments = arguments_object(call.arguments)
        if arguments is not None:
            valid.append({"name": call.name, "args": arguments, "id": call.id, "type": "tool_call"})
            continue
        known: dict[str, Any] = {"error": None}
        if origin is not None and 0 <= origin - given < len(message.invalid_tool_calls):
            known = dict(message.invalid_tool_calls[origin - given])
        known.update(name=call.name, args=call.arguments, id=call.id, type="invalid_tool_call")
        invalid.append(known)
    return valid, invalid


def _chunks(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    return [
        {
            "name": call.name,
            "args": call.arguments,
            "id": call.id,
            "index": index,
            "type": "tool_call_chunk",
        }
        for index, call in enumerate(calls)
    ]


def _aside(extra: dict[str, Any], old: Sequence[ToolCall], renewed: Renewed) -> dict[str, Any]:
    # additional_kwargs["tool_calls"] and every table keyed by call id, such as Gemini's thought
    # signatures or OpenAI's item ids.
    changed = dict(extra)
    changed.pop("function_call", None)
    gone = {call.id for call in old} - renewed.keys()
    for key, value in extra.items():
        if key == "tool_calls" and isinstance(value, list):
            waiting = {call_id: list(calls) for call_id, calls in renewed.items()}
            rows = [
                _row(row, waiting[row["id"]].pop(0)) for row in value if waiting.get(row.get("id"))
            ]
            if rows:
                changed[key] = rows
            else:
                del changed[key]
        elif isinstance(value, dict) and any(call.id in value for call in old):
            changed[key] = {
                (renewed[k][0].id if k in renewed else k): v
                for k, v in value.items()
                if k not in gone
            }
    return changed


def _row(row: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    function = {**row.get("function", {}), "name": call.name, "arguments": call.arguments}
    return {**row, "id": call.id, "function": function}
