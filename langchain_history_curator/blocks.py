"""The content blocks and tool calls of LangChain messages, as providers write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

from langchain_core.messages import AIMessage

from history_curator.entries import ContentPart, ConversationEntry, Reasoning, ToolCall, new_call
from history_curator.formats import (
    arguments_text,
    join_text,
    parse_object,
    read_part,
    update_text,
    write_part,
)

BlockKind = Literal["part", "reasoning", "call", "result"]
CallsById = dict[str, list[ToolCall]]
"""Calls as they now are, by the id they were read with."""

_REASONING = ("thinking", "redacted_thinking", "reasoning", "reasoning_content")
_CALLS = ("tool_use", "tool_call", "function_call", "custom_tool_call", "invalid_tool_call")
_KINDS: dict[str, BlockKind] = {
    **dict.fromkeys(_REASONING, "reasoning"),
    **dict.fromkeys((*_CALLS, "tool_call_chunk"), "call"),
    **dict.fromkeys(("tool_result", "function_call_output"), "result"),
}
_SIGNATURES = "__gemini_function_call_thought_signatures__"


class Blocks(NamedTuple):
    """The text, parts, reasoning and calls of a list of content blocks."""

    text: str | None
    parts: tuple[ContentPart, ...] | None = None
    reasoning: tuple[Reasoning, ...] | None = None
    calls: tuple[ToolCall, ...] = ()


def kind_of(block: Any) -> BlockKind:
    """Return how a content block is read."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "non_standard" and isinstance(block.get("value"), dict):
        inner = block["value"].get("type")
        return "reasoning" if inner in _REASONING else "part"
    return _KINDS.get(kind, "part") if isinstance(kind, str) else "part"


def read_blocks(blocks: Sequence[Any], index: int) -> Blocks:
    """Read the blocks of one message; each part and each reasoning keeps its block as ``raw``."""
    parts: list[ContentPart] = []
    reasoning: list[Reasoning] = []
    calls: list[ToolCall] = []
    for block in blocks:
        kind = kind_of(block)
        if kind == "reasoning":
            reasoning.append(read_reasoning(block))
        elif kind == "call":
            calls.append(_read_call(block))
        else:
            parts.append(_read_part(block, index))
    return Blocks(join_text(parts), tuple(parts), tuple(reasoning) or None, tuple(calls))


def _read_part(block: Any, index: int) -> ContentPart:
    """Read one block as a part; unknown ones, server-side tools included, pass through."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text-plain":
        return ContentPart("file", raw=block)
    if kind == "media":
        medium = str(block.get("mime_type", "")).partition("/")[0]
        known = medium if medium in ("image", "audio", "video") else "file"
        return ContentPart(cast("Any", known), raw=block)
    if not isinstance(block, (dict, str)):
        return ContentPart("other", raw=block)
    return read_part(block, index)


def read_reasoning(block: dict[str, Any]) -> Reasoning:
    """Read a thinking block of Anthropic, Bedrock, OpenAI, Gemini or LangChain's own form."""
    if block.get("type") == "non_standard":
        return replace(read_reasoning(block["value"]), raw=block)
    if block.get("type") == "redacted_thinking":
        return Reasoning(raw=block, encrypted=True)
    inner = block.get("reasoning_content")
    if isinstance(inner, dict):
        return Reasoning(text=inner.get("text"), signature=inner.get("signature"), raw=block)
    extras = block["extras"] if isinstance(block.get("extras"), dict) else {}
    text = block.get("thinking") or block.get("reasoning") or block.get("text")
    if not isinstance(text, str):
        summary = block["summary"] if isinstance(block.get("summary"), list) else []
        texts = [item.get("text") for item in summary if isinstance(item, dict)]
        text = "\n".join(one for one in texts if isinstance(one, str) and one) or None
    signature = block.get("signature") or extras.get("signature")
    encrypted = block.get("encrypted_content") or extras.get("encrypted_content")
    return Reasoning(
        text=text,
        signature=signature if isinstance(signature, str) else None,
        raw=block,
        encrypted=bool(encrypted) and not text,
    )


def read_reasoning_beside(extra: dict[str, Any]) -> tuple[Reasoning, ...] | None:
    """Read the reasoning that a message keeps in ``additional_kwargs``."""
    item = extra.get("reasoning_content")
    if not (isinstance(item, str) and item):
        item = extra.get("reasoning")
    if isinstance(item, str) and item:
        return (Reasoning(text=item),)
    return (read_reasoning({"type": "reasoning", **item}),) if isinstance(item, dict) else None


def _read_call(block: dict[str, Any]) -> ToolCall:
    """Read a call written as a block: Anthropic's, OpenAI Responses' or LangChain's own."""
    names = ("input", "args", "arguments", "partial_json")
    arguments: Any = next((block[name] for name in names if block.get(name)), {})
    call_id = block.get("call_id") or block.get("id") or ""
    return ToolCall(str(call_id), str(block.get("name") or ""), arguments_text(arguments))


def read_calls(
    fields: dict[str, Any], in_blocks: Sequence[ToolCall]
) -> tuple[ToolCall, ...] | None:
    """Return every call of an `AIMessage` once: parsed, invalid, then those only in blocks."""
    extra, chunks = fields["additional_kwargs"], fields.get("tool_call_chunks")
    texts = _argument_texts(extra.get("tool_calls")) if extra else {}
    for chunk in chunks or ():
        if chunk.get("id"):
            texts.setdefault(chunk["id"], chunk.get("args") or "")
    signatures = extra.get(_SIGNATURES) if extra else None
    calls = []
    for call in fields["tool_calls"]:
        call_id, arguments = call["id"] or "", call["args"]
        text = texts.get(call_id)
        parsed = None if text is None else parse_object(text)
        if text is None or (parsed != arguments and not (chunks and parsed is None)):
            text = arguments_text(arguments)
        read = new_call(call_id, call["name"] or "", text)
        if signatures and call_id in signatures:
            read = replace(read, extra={"signature": signatures[call_id]})
        calls.append(read)
    calls += [
        new_call(call["id"] or "", call["name"] or "", call["args"] or "")
        for call in fields["invalid_tool_calls"]
    ]
    legacy = extra.get("function_call") if extra and not calls else None
    if isinstance(legacy, dict):
        text = arguments_text(legacy.get("arguments") or "{}")
        calls.append(new_call("", str(legacy.get("name") or ""), text))
    if in_blocks:
        known = {call.id for call in calls}
        calls += [call for call in in_blocks if call.id not in known]
    return tuple(calls) or None


def _argument_texts(rows: Any) -> dict[str, str]:
    """Return the arguments as the provider spelled them, by the id of their call."""
    texts = {}
    for row in rows if isinstance(rows, list) else ():
        function = row.get("function") if isinstance(row, dict) and row.get("id") else None
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            texts[row["id"]] = function["arguments"]
    return texts


# Writing: what a changed entry changes in the fields of its message.


def write_content(content: Any, entry: ConversationEntry, calls: CallsById | None = None) -> Any:
    """Return the content of a message with the text, parts, reasoning and calls of its entry.

    `calls` are None for a message that makes none; blocks stay in their order.
    """
    before, parts = entry.root, entry.parts
    if isinstance(content, str):
        return list(map(write_part, update_text(entry))) if parts else entry.content or ""
    if parts is None and not calls and not entry.reasoning:
        return entry.content or ""
    if parts is None:
        queue: list[ContentPart] | None = (
            [ContentPart("text", entry.content)] if entry.content else []
        )
    elif parts == before.parts and entry.content == before.content:
        queue = None
    else:
        queue = list(update_text(entry))
    return _write_blocks(content, queue, entry, calls)


def _write_blocks(
    content: Sequence[Any],
    queue: list[ContentPart] | None,
    entry: ConversationEntry,
    calls: CallsById | None,
) -> list[Any]:
    """Return the blocks of a message; `queue` holds its new parts, None where none changed."""
    known = {id(item.raw) for item in entry.root.reasoning or ()}
    shown = {id(item.raw) for item in entry.reasoning or ()}
    waiting = {call_id: list(some) for call_id, some in (calls or {}).items()}
    out = [item.raw for item in entry.reasoning or () if item.raw and id(item.raw) not in known]
    kinds = list(map(kind_of, content))
    last_part = max((at for at, kind in enumerate(kinds) if kind in ("part", "result")), default=-1)
    for at, (kind, block) in enumerate(zip(kinds, content, strict=True)):
        if kind == "reasoning":
            if id(block) in shown:
                out.append(block)
        elif kind == "call" and calls is not None:
            if queue and at > last_part:
                out.extend(map(write_part, queue))
                queue.clear()
            if some := waiting.get(_read_call(block).id):
                out.append(_write_call(block, some.pop(0)))
        elif queue is None:
            out.append(block)
        else:
            end = next((n for n, part in enumerate(queue, 1) if part.raw is block), 0)
            out.extend(map(write_part, queue[:end]))
            del queue[:end]
    return [*out, *map(write_part, queue or ())]


def _write_call(block: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    """Return the block of a call as the call now is; everything else in it stays."""
    changed = {**block, "call_id" if "call_id" in block else "id": call.id, "name": call.name}
    if _read_call(block).arguments == call.arguments:
        return changed
    field = next((name for name in ("input", "args", "arguments") if name in block), None)
    parsed = parse_object(call.arguments)
    if field is not None:
        as_text = isinstance(block[field], str) or parsed is None
        changed[field] = call.arguments if as_text else parsed
        changed.pop("partial_json", None)
        if isinstance(block.get("extras"), dict):  # where they are spelled once more
            changed["extras"] = {k: v for k, v in block["extras"].items() if k != "arguments"}
    if changed.get("type") == "invalid_tool_call" and parsed is not None:
        changed.update(type="tool_call", args=parsed)
        changed.pop("error", None)
    return changed


def write_calls(
    message: AIMessage, old: Sequence[ToolCall], new: Sequence[ToolCall]
) -> tuple[dict[str, Any], CallsById]:
    """Return the changed fields of a message whose calls change, and the calls by their old id."""
    origins = _match_calls(old, new)
    by_id: CallsById = {}
    for call, origin in zip(new, origins, strict=True):
        if origin is not None:
            by_id.setdefault(old[origin].id, []).append(call)
    if new == old:
        return {}, by_id
    fields = write_rows(new, message, old, origins)
    fields["additional_kwargs"] = _write_beside(message.additional_kwargs, old, by_id)
    if getattr(message, "tool_call_chunks", None):
        fields["tool_call_chunks"] = [
            {"name": c.name, "args": c.arguments, "id": c.id, "index": n, "type": "tool_call_chunk"}
            for n, c in enumerate(new)
        ]
    return fields, by_id


def _match_calls(old: Sequence[ToolCall], new: Sequence[ToolCall]) -> list[int | None]:
    """Return for each new call the position of the old one it was made from.

    The same id comes first; a renamed call is found by its name, or by its place among the rest.
    """
    free = list(range(len(old)))
    found: list[int | None] = []
    for call in new:
        found.append(next((at for at in free if old[at].id == call.id), None))
        if found[-1] is not None:
            free.remove(found[-1])
    for position, call in enumerate(new):
        if found[position] is None and free:
            alike = [at for at in free if old[at].name == call.name]
            if alike or len(new) == len(old):
                found[position] = (alike or free)[0]
                free.remove(found[position])  # type: ignore[arg-type]
    return found


def write_rows(
    calls: Sequence[ToolCall],
    message: AIMessage | None = None,
    old: Sequence[ToolCall] = (),
    origins: Sequence[int | None] = (),
) -> dict[str, Any]:
    """Return ``tool_calls`` and ``invalid_tool_calls``; a row of `message` keeps its other keys."""
    rows: list[Any] = message.tool_calls if message else []
    malformed: list[Any] = message.invalid_tool_calls if message else []
    valid: list[Any] = []
    invalid: list[Any] = []
    for call, origin in zip(calls, origins or [None] * len(calls), strict=True):
        if origin is not None and origin < len(rows) and old[origin].arguments == call.arguments:
            valid.append({**rows[origin], "name": call.name, "id": call.id})
        elif (parsed := parse_object(call.arguments)) is not None:
            valid.append({"name": call.name, "args": parsed, "id": call.id, "type": "tool_call"})
        else:
            place = -1 if origin is None else origin - len(rows)
            row = malformed[place] if 0 <= place < len(malformed) else {"error": None}
            said = {"name": call.name, "args": call.arguments, "id": call.id}
            invalid.append({**row, **said, "type": "invalid_tool_call"})
    return {"tool_calls": valid, "invalid_tool_calls": invalid}


def _write_beside(
    extra: dict[str, Any], old: Sequence[ToolCall], by_id: CallsById
) -> dict[str, Any]:
    """Return ``additional_kwargs`` with its own calls, and its tables by call id, changed alike.

    Such as Gemini's thought signatures and OpenAI's item ids.
    """
    changed = {key: value for key, value in extra.items() if key != "function_call"}
    old_ids = {call.id for call in old}
    for key, value in extra.items():
        if key == "tool_calls" and isinstance(value, list):
            waiting = {call_id: list(calls) for call_id, calls in by_id.items()}
            rows = []
            for row in value:
                if some := waiting.get(row.get("id")):
                    call = some.pop(0)
                    said = {"name": call.name, "arguments": call.arguments}
                    function = {**row.get("function", {}), **said}
                    rows.append({**row, "id": call.id, "function": function})
            if rows:
                changed[key] = rows
            else:
                del changed[key]
        elif isinstance(value, dict) and not old_ids.isdisjoint(value):
            changed[key] = {
                by_id[name][0].id if name in by_id else name: item
                for name, item in value.items()
                if name in by_id or name not in old_ids
            }
    return changed


# The Responses API knows its items by id and wants each with the reasoning it came with. Once the
# reasoning has left, a call or a text is sent without its id, and the tools the provider ran by
# itself are not sent. LangChain keeps these ids in the blocks, in their ``extras``, beside the
# content, and as the id of the message.

_OWN_ITEMS = ("msg_", "fc_", "ctc_")
_SERVER_ITEMS = ("ws_", "fs_", "ci_", "mcp_", "mcpl_", "mcpr_", "ig_", "cu_", "ts_", "tso_")


def is_item(value: Any) -> bool:
    """Return whether an id is that of an item the model said or called."""
    return str(value or "").startswith(_OWN_ITEMS)


def free_items(content: Any) -> Any:
    """Return the content without the ids of items, and without the tools the provider ran."""
    if not isinstance(content, list):
        return content
    out = []
    for block in content:
        if not isinstance(block, dict):
            out.append(block)
        elif not _is_server_item(block):
            extras = block.get("extras")
            if isinstance(extras, dict) and is_item(extras.get("item_id")):
                rest = {key: value for key, value in extras.items() if key != "item_id"}
                block = {**block, "extras": rest}  # noqa: PLW2901
            bare = is_item(block.get("id"))
            out.append({k: v for k, v in block.items() if k != "id"} if bare else block)
    return out


def free_items_beside(extra: dict[str, Any]) -> dict[str, Any]:
    """Return ``additional_kwargs`` without its reasoning, ids of items and served tools."""
    dropped = {"reasoning_content", "reasoning", "thinking_blocks", "__openai_function_call_ids__"}
    served = extra.get("tool_outputs")
    if isinstance(served, list) and any(map(_is_server_item, served)):
        dropped.add("tool_outputs")
    return {key: value for key, value in extra.items() if key not in dropped}


def _is_server_item(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    name = block.get("id")
    if name is None and block.get("type") == "server_tool_result":
        name = block.get("tool_call_id")
    return str(name or "").startswith(_SERVER_ITEMS)
