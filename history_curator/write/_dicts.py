"""Write entries as OpenAI- or Anthropic-style dicts, following the style they were read in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from history_curator.model import ContentPart, ConversationEntry, MessageRole

_CALL_BLOCKS = {"tool_use", "tool_result", "server_tool_use"}
_THOUGHT_BLOCKS = {"thinking", "redacted_thinking"}


def write_dicts(entries: Sequence[ConversationEntry]) -> list[Any]:
    """Return one message per source message, in view order."""
    try:
        return [entry.written.copy() for entry in entries]
    except AttributeError:
        pass  # some were not written yet, or by another dialect
    if not stand_alone(entries):
        return write_mixed(entries)
    return [
        entry.written.copy()
        if entry.written.__class__ is dict
        else entry.source
        if entry.original is None and entry.source is not None
        else _written(entry)
        for entry in entries
    ]


def stand_alone(entries: Sequence[ConversationEntry]) -> bool:
    """Whether each entry is written as one message, whatever stands beside it."""
    for entry in entries:
        # What was written before was found to be flat; most others are plain text.
        if entry.written.__class__ is dict or (entry.parts is None and entry.seldom is None):
            continue
        if entry.span is not None:
            return False
        if (entry.parts is not None or entry.original is not None) and in_blocks(entry):
            return False
    return True


def in_blocks(entry: ConversationEntry) -> bool:
    """Whether an entry was read from a message that keeps calls and results as blocks."""
    merged = (entry.metadata or {}).get("merged", ()) if entry.original is not None else ()
    return entry.span is not None or any(
        _source_in_blocks(each.source) for each in (entry, *merged)
    )


def _source_in_blocks(source: Any) -> bool:
    content = source.get("content") if isinstance(source, Mapping) else None
    if not isinstance(content, list):
        return False
    kinds = {str(block.get("type")) for block in content if isinstance(block, Mapping)}
    return bool(kinds & _CALL_BLOCKS) or (
        bool(kinds & _THOUGHT_BLOCKS) and not source.get("tool_calls")
    )


def write_mixed(entries: Sequence[ConversationEntry]) -> list[Any]:
    """Write a view in which some messages keep calls and results as blocks."""
    from history_curator.write._blocks import write_blocks

    return write_blocks(entries)


def _written(entry: ConversationEntry) -> dict[str, Any]:
    """An edited message. A flat one is remembered, so that next time a copy of it is enough."""
    message = to_openai(entry)
    if not entry.tool_calls and not entry.parts:
        object.__setattr__(entry, "written", message.copy())
    return message


def to_openai(entry: ConversationEntry) -> dict[str, Any]:
    """Return an OpenAI-style dict. Fields of the source other than the edited ones survive."""
    original = entry.original
    message = dict(entry.source) if isinstance(entry.source, Mapping) else {}
    drop_unknown_keys(message, entry)
    if original is None or original.role is not entry.role:
        message["role"] = entry.role.value
    if original is None or entry.content != original.content or entry.parts != original.parts:
        message["content"] = _content(entry)
    if original is None or entry.tool_calls != original.tool_calls:
        message.pop("function_call", None)
        if entry.tool_calls:
            message["tool_calls"] = _calls(entry, message.get("tool_calls"))
        else:
            message.pop("tool_calls", None)
    if entry.role is not MessageRole.ASSISTANT or not message.get("tool_calls", True):
        message.pop("tool_calls", None)
    _set_author(message, entry)
    if entry.reasoning != (original.reasoning if original is not None else None):
        _set_reasoning(message, entry)
    return message


def _calls(entry: ConversationEntry, given: Any) -> list[dict[str, Any]]:
    """The calls of an entry, each with whatever else its source kept beside it."""
    sources = sources_of(entry, given)
    out = []
    for call, source in zip(entry.tool_calls or (), sources, strict=True):
        message = {"type": "function", **source, "id": call.id}
        if isinstance(source.get("custom"), Mapping):
            message["custom"] = {**source["custom"], "name": call.name}
        else:
            body = source.get("function")
            kept = dict(body) if isinstance(body, Mapping) else {}
            message["function"] = {**kept, "name": call.name, "arguments": call.arguments}
        out.append(message)
    return out


def sources_of(entry: ConversationEntry, given: Any) -> list[Mapping[str, Any]]:
    """For each call of an edited entry, the call or block it was read from, or nothing."""
    calls = entry.tool_calls or ()
    listed = [each for each in given if isinstance(each, Mapping)] if given else []
    recorded = (entry.original.tool_calls if entry.original is not None else None) or ()
    if len(listed) == len(recorded) == len(calls):
        return listed
    by_id = {each.get("id"): each for each in listed}
    return [by_id.get(call.id, {}) for call in calls]


def _set_reasoning(message: dict[str, Any], entry: ConversationEntry) -> None:
    for key in ("reasoning_content", "reasoning", "thinking_blocks"):
        message.pop(key, None)
    blocks = [block.raw for block in entry.reasoning or () if block.raw is not None]
    if blocks:
        message["thinking_blocks"] = blocks
    text = "\n".join(
        block.text for block in entry.reasoning or () if block.raw is None and block.text
    )
    if text:
        message["reasoning_content"] = text


def drop_unknown_keys(message: dict[str, Any], entry: ConversationEntry) -> None:
    """A rule took the keys away that no provider knows."""
    if entry.original is not None and entry.original.metadata and not entry.metadata:
        for key in entry.original.metadata:
            message.pop(key, None)


def _set_author(message: dict[str, Any], entry: ConversationEntry) -> None:
    if entry.role is MessageRole.TOOL:
        if message.get("role") == "function" and entry.tool_call_id:
            message["role"] = "tool"
        if entry.tool_call_id is not None:
            message["tool_call_id"] = entry.tool_call_id
        _set(message, "name", entry.tool_name)
    elif entry.original is None or entry.name != entry.original.name:
        _set(message, "name", entry.name)


def _set(message: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        message.pop(key, None)
    else:
        message[key] = value


def _content(entry: ConversationEntry) -> Any:
    if entry.parts is None:
        return entry.content
    return [write_part(part) for part in text_first(entry)]


def text_first(entry: ConversationEntry) -> tuple[ContentPart, ...]:
    """The parts of an entry, with the entry's text in place of the original text blocks."""
    parts = entry.parts or ()
    joined = "\n".join(part.text for part in parts if part.kind == "text" and part.text)
    if (entry.content or "") == joined:
        return parts
    out: list[ContentPart] = []
    placed = False
    for part in parts:
        if part.kind != "text":
            out.append(part)
        elif not placed and entry.content:
            out.append(ContentPart("text", entry.content, part.raw))
            placed = True
    if not placed and entry.content:
        out.insert(0, ContentPart("text", entry.content))
    return tuple(out)


def write_part(part: ContentPart) -> Any:
    """A content block: as it was given, or with its new text and whatever else it held."""
    raw = part.raw
    if raw is None or (part.kind == "text" and isinstance(raw, str) and raw != part.text):
        return {"type": "text", "text": part.text or ""}
    if part.kind != "text" or isinstance(raw, str) or raw.get("text") == part.text:
        return raw
    return {**raw, "text": part.text or ""}
