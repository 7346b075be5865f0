"""Write entries as OpenAI- or Anthropic-style dicts, following the style they were read in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from history_curator.model import ContentPart, ConversationEntry, MessageRole, Reasoning

_BLOCK_STYLE = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"}


def write_dicts(entries: Sequence[ConversationEntry]) -> list[Any]:
    """Return one message per source message, in view order."""
    for entry in entries:
        if entry.span is not None or (entry.parts is not None and _in_blocks(entry)):
            return _write_blocks(entries)
    return [
        entry.source if entry.original is None and entry.source is not None else _written(entry)
        for entry in entries
    ]


def _written(entry: ConversationEntry) -> dict[str, Any]:
    """An edited message, a new dict every time; flat ones are worked out once."""
    known: dict[str, Any] | None = entry.written
    if known is None:
        known = to_openai(entry)
        if entry.tool_calls or entry.parts:
            return known
        object.__setattr__(entry, "written", known)
    return known.copy()


def _in_blocks(entry: ConversationEntry) -> bool:
    source = entry.source
    content = source.get("content") if isinstance(source, Mapping) else None
    return isinstance(content, list) and any(
        isinstance(block, Mapping) and block.get("type") in _BLOCK_STYLE for block in content
    )


def to_openai(entry: ConversationEntry) -> dict[str, Any]:
    """Return an OpenAI-style dict. Fields of the source other than the edited ones survive."""
    original = entry.original
    message = dict(entry.source) if isinstance(entry.source, Mapping) else {}
    _drop_unknown_keys(message, entry)
    if original is None or original.role is not entry.role:
        message["role"] = entry.role.value
    if original is None or entry.content != original.content or entry.parts != original.parts:
        message["content"] = _content(entry)
    if original is None or entry.tool_calls != original.tool_calls:
        message.pop("function_call", None)
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in entry.tool_calls or ()
        ]
    if not message.get("tool_calls", True):
        del message["tool_calls"]
    _set_author(message, entry)
    if original is not None and original.reasoning and not entry.reasoning:
        for key in ("reasoning_content", "reasoning", "thinking_blocks"):
            message.pop(key, None)
    return message


def _drop_unknown_keys(message: dict[str, Any], entry: ConversationEntry) -> None:
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
    return [_block(part) for part in text_first(entry)]


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
            out.append(ContentPart("text", entry.content))
            placed = True
    if not placed and entry.content:
        out.insert(0, ContentPart("text", entry.content))
    return tuple(out)


def _block(part: ContentPart) -> Any:
    if part.raw is not None and (
        part.kind != "text" or isinstance(part.raw, str) or part.raw.get("text") == part.text
    ):
        return part.raw
    return {"type": "text", "text": part.text or ""}


def _write_blocks(entries: Sequence[ConversationEntry]) -> list[Any]:
    out: list[Any] = []
    position = 0
    while position < len(entries):
        whole = _whole_source(entries, position)
        if whole:
            out.append(entries[position].source)
            position += whole
        elif entries[position].role is MessageRole.TOOL:
            end = position
            while (
                end < len(entries)
                and entries[end].role is MessageRole.TOOL
                and (end == position or not _whole_source(entries, end))
            ):
                end += 1
            blocks = [_result_block(entry) for entry in entries[position:end]]
            out.append({"role": "user", "content": blocks})
            position = end
        else:
            out.append(_to_anthropic(entries[position]))
            position += 1
    return out


def _whole_source(entries: Sequence[ConversationEntry], position: int) -> int:
    """How many entries from here on are exactly one untouched source message."""
    first = entries[position]
    if first.original is not None or first.source is None:
        return 0
    place, count = first.span or (0, 1)
    if place:
        return 0
    for step in range(count):
        if position + step >= len(entries):
            return 0
        entry = entries[position + step]
        if entry.source is not first.source or entry.original is not None:
            return 0
        if (entry.span or (0, 1))[0] != step:
            return 0
    return count


def _to_anthropic(entry: ConversationEntry) -> dict[str, Any]:
    source = entry.source if isinstance(entry.source, Mapping) else {}
    if not _needs_blocks(entry, source):
        return to_openai(entry)
    message = {key: value for key, value in source.items() if key != "tool_calls"}
    _drop_unknown_keys(message, entry)
    message.setdefault("role", entry.role.value)
    blocks: list[Any] = [_reasoning_block(block) for block in entry.reasoning or ()]
    parts = text_first(entry)
    if entry.parts is None and entry.content:
        parts = (ContentPart("text", entry.content),)
    blocks += [_block(part) for part in parts]
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _arguments(call.arguments)}
        for call in entry.tool_calls or ()
    ]
    message["content"] = blocks
    return message


def _needs_blocks(entry: ConversationEntry, source: Mapping[str, Any]) -> bool:
    return bool(entry.tool_calls) or isinstance(source.get("content"), list)


def _reasoning_block(block: Reasoning) -> Any:
    return block.raw if block.raw is not None else {"type": "thinking", "thinking": block.text}


def _result_block(entry: ConversationEntry) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": entry.tool_call_id}
    if entry.original is not None and entry.original.source is not None:
        block = {**_source_result(entry.original), **block}
    if entry.parts is not None:
        block["content"] = [_block(part) for part in text_first(entry)]
    else:
        block["content"] = entry.content or ""
    if entry.status == "error":
        block["is_error"] = True
    return block


def _source_result(original: ConversationEntry) -> dict[str, Any]:
    for block in original.source.get("content") or ():
        if (
            isinstance(block, Mapping)
            and block.get("type") == "tool_result"
            and block.get("tool_use_id") == original.tool_call_id
        ):
            return dict(block)
    return {}


def _arguments(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
