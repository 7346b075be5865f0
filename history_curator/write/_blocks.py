"""Write entries as Anthropic-style dicts: calls, results and thoughts are content blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from history_curator.model import ContentPart, ConversationEntry, MessageRole, Reasoning
from history_curator.write._dicts import (
    drop_unknown_keys,
    in_blocks,
    sources_of,
    text_first,
    to_openai,
    write_part,
)


def write_blocks(entries: Sequence[ConversationEntry]) -> list[Any]:
    """Return messages, each in the style its exchange was read in."""
    out: list[Any] = []
    position = 0
    blocks = False
    while position < len(entries):
        entry = entries[position]
        whole = _whole_source(entries, position)
        if entry.role is not MessageRole.TOOL:
            blocks = in_blocks(entry)
        if whole:
            out.append(entry.source)
            position += whole
        elif entry.role is MessageRole.TOOL and (blocks or entry.span is not None):
            end = _end_of_results(entries, position)
            out.append(_results(entries[position:end]))
            position = end
        else:
            out.append(_to_blocks(entry) if blocks else to_openai(entry))
            position += 1
    return out


def _end_of_results(entries: Sequence[ConversationEntry], position: int) -> int:
    end = position + 1
    while (
        end < len(entries)
        and entries[end].role is MessageRole.TOOL
        and not _whole_source(entries, end)
    ):
        end += 1
    return end


def _whole_source(entries: Sequence[ConversationEntry], position: int) -> int:
    """How many entries from here on are exactly one untouched source message."""
    first = entries[position]
    if first.original is not None or first.source is None:
        return 0
    place, count = first.span or (0, 1)
    run = entries[position : position + count]
    if place or len(run) < count:
        return 0
    for step, entry in enumerate(run):
        if entry.source is not first.source or entry.original is not None:
            return 0
        if (entry.span or (0, 1))[0] != step:
            return 0
    return count


def _results(entries: Sequence[ConversationEntry]) -> dict[str, Any]:
    """One user message with the results, and what else their source message held."""
    sources = [entry.source for entry in entries if isinstance(entry.source, Mapping)]
    shared = bool(sources) and all(source is sources[0] for source in sources)
    kept = {key: value for key, value in sources[0].items() if key != "content"} if shared else {}
    return {**kept, "role": "user", "content": [_result_block(entry) for entry in entries]}


def _result_block(entry: ConversationEntry) -> dict[str, Any]:
    block = {**_source_result(entry.root), "type": "tool_result", "tool_use_id": entry.tool_call_id}
    if entry.original is None and "content" in block:
        return block
    if entry.parts is not None:
        block["content"] = [write_part(part) for part in text_first(entry)]
    else:
        block["content"] = entry.content or ""
    if entry.status == "error":
        block["is_error"] = True
    return block


def _source_result(recorded: ConversationEntry) -> dict[str, Any]:
    if not isinstance(recorded.source, Mapping):
        return {}
    place = (recorded.span or (0, 1))[0]
    for block in recorded.source.get("content") or ():
        if (
            isinstance(block, Mapping)
            and block.get("type") == "tool_result"
            and block.get("tool_use_id") == recorded.tool_call_id
            and place >= 0
        ):
            return dict(block)
    return {}


def _to_blocks(entry: ConversationEntry) -> dict[str, Any]:
    """The source message with its blocks in their order, the edited ones replaced."""
    source = entry.source if isinstance(entry.source, Mapping) else {}
    if not entry.tool_calls and not isinstance(source.get("content"), list):
        return to_openai(entry)
    message = {key: value for key, value in source.items() if key != "tool_calls"}
    drop_unknown_keys(message, entry)
    message["role"] = entry.role.value
    message["content"] = _ordered(entry, source.get("content"))
    return message


def _ordered(entry: ConversationEntry, given: Any) -> list[Any]:
    thoughts = [_thought(block) for block in entry.reasoning or ()]
    parts = list(text_first(entry))
    if entry.parts is None and entry.content:
        parts = [ContentPart("text", entry.content)]
    listed = [block for block in given if isinstance(block, Mapping)] if given else []
    asked = [block for block in listed if block.get("type") == "tool_use"]
    calls = [
        {
            **source,
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": _arguments(call.arguments),
        }
        for call, source in zip(entry.tool_calls or (), sources_of(entry, asked), strict=True)
    ]
    out: list[Any] = []
    for block in listed:
        if thoughts and thoughts[0] is block:
            out.append(thoughts.pop(0))
        elif parts and parts[0].raw is block:
            out.append(write_part(parts.pop(0)))
    return [*thoughts, *out, *(write_part(part) for part in parts), *calls]


def _thought(block: Reasoning) -> Any:
    return block.raw if block.raw is not None else {"type": "thinking", "thinking": block.text}


def _arguments(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
