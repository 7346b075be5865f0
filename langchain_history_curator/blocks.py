"""The content blocks and tool calls of LangChain messages, as providers write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage

from history_curator.entries import ContentPart, ConversationEntry, Reasoning, ToolCall
from history_curator.formats import arguments_text, parse_object, read_part, update_text, write_part
from history_curator.formats.blocks import Slots, restore_order

CallsById = dict[str, list[ToolCall]]
"""Calls as they now are, by the id they were read with."""

_REASONING = ("thinking", "redacted_thinking", "reasoning", "reasoning_content")
_CALLS = ("tool_use", "tool_call", "function_call", "custom_tool_call", "invalid_tool_call")
_KINDS: dict[Any, Literal["reasoning", "call", "result"]] = {
    **dict.fromkeys(_REASONING, "reasoning"),
    **dict.fromkeys((*_CALLS, "tool_call_chunk"), "call"),
    **dict.fromkeys(("tool_result", "function_call_output"), "result"),
}
_SIGNATURES = "__gemini_function_call_thought_signatures__"


def kind_of(block: Any) -> Literal["part", "reasoning", "call", "result"]:
    """Return how a content block is read."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "non_standard" and isinstance(block.get("value"), dict):
        return "reasoning" if block["value"].get("type") in _REASONING else "part"
    return _KINDS.get(kind, "part") if isinstance(kind, str) else "part"


def read_slots(blocks: Sequence[Any], index: int) -> Slots:
    """Read the blocks of one message in order; each part and reasoning keeps its block as ``raw``."""
    slots: Slots = []
    for block in blocks:
        kind = kind_of(block)
        if kind == "reasoning":
            slots.append((kind, read_reasoning(block)))
        elif kind == "call":
            slots.append((kind, _read_call(block)))
        else:
            slots.append(("part", _read_part(block, index)))
    return slots


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
    item = extra.get("reasoning_content") or extra.get("reasoning")
    if isinstance(item, str):
        return (Reasoning(text=item),) if item else None
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
    extra, chunks = fields["additional_kwargs"], fields.get("tool_call_chunks") or ()
    texts = _argument_texts(extra.get("tool_calls")) if extra else {}
    texts = {**{one["id"]: one.get("args") or "" for one in chunks if one.get("id")}, **texts}
    signatures = extra.get(_SIGNATURES) if extra else None
    calls = []
    for call in fields["tool_calls"]:
        call_id, arguments = call["id"] or "", call["args"]
        text = texts.get(call_id)
        parsed = None if text is None else parse_object(text)
        if text is None or (parsed != arguments and not (chunks and parsed is None)):
            text = arguments_text(arguments)
        read = ToolCall(call_id, call["name"] or "", text)
        if signatures and call_id in signatures:
            read = replace(read, extra={"signature": signatures[call_id]})
        calls.append(read)
    calls += [
        ToolCall(call["id"] or "", call["name"] or "", call["args"] or "")
        for call in fields["invalid_tool_calls"]
    ]
    legacy = extra.get("function_call") if extra and not calls else None
    if isinstance(legacy, dict):
        text = arguments_text(legacy.get("arguments") or "{}")
        calls.append(ToolCall("", str(legacy.get("name") or ""), text))
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
    if isinstance(content, str):
        return list(map(write_part, update_text(entry))) if entry.parts else entry.content or ""
    if entry.parts is None and not calls and not entry.reasoning:
        return entry.content or ""
    waiting = {call_id: list(some) for call_id, some in (calls or {}).items()}
    slots: Slots = []
    for block, (kind, item) in zip(content, read_slots(content, 0), strict=True):
        if kind != "call":
            slots.append((kind, item))
        elif calls is None:
            slots.append(("part", ContentPart("other", raw=block)))
        elif some := waiting.get(item.id):
            slots.append((kind, _write_call(block, some.pop(0))))
    blocks = [item for kind, item in slots if kind == "call"]
    reasoning = [item for item in entry.reasoning or () if item.raw]
    return [
        {"part": write_part, "reasoning": lambda one: one.raw}.get(kind, lambda one: one)(item)
        for kind, item, _ in restore_order(entry, slots, blocks, reasoning)
    ]


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
    by_id: CallsById = {}
    for call, origin in zip(new, _match_calls(old, new), strict=True):
        if origin is not None:
            by_id.setdefault(origin.id, []).append(call)
    if new == old:
        return {}, by_id
    fields: dict[str, Any] = write_rows(new)
    fields["additional_kwargs"] = _write_beside(message.additional_kwargs, old, by_id)
    if getattr(message, "tool_call_chunks", None):
        fields["tool_call_chunks"] = [
            {"name": c.name, "args": c.arguments, "id": c.id, "index": n, "type": "tool_call_chunk"}
            for n, c in enumerate(new)
        ]
    return fields, by_id


def _match_calls(old: Sequence[ToolCall], new: Sequence[ToolCall]) -> Sequence[ToolCall | None]:
    """Return the old call each new one was made from: by place, or where some left, by id or name."""
    if len(old) == len(new):
        return old
    free, found = list(old), []
    for call in new:
        alike = [each for each in free if each.id == call.id]
        alike = alike or [each for each in free if each.name == call.name]
        found.append(alike[0] if alike else None)
        if alike:
            free.remove(alike[0])
    return found


def write_rows(calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Return ``tool_calls`` and ``invalid_tool_calls`` for the calls of an entry."""
    valid, invalid = [], []
    for call in calls:
        parsed = parse_object(call.arguments)
        row = {"name": call.name, "args": parsed, "id": call.id, "type": "tool_call"}
        if parsed is not None:
            valid.append(row)
        else:
            bad = {"args": call.arguments, "error": None, "type": "invalid_tool_call"}
            invalid.append({**row, **bad})
    return {"tool_calls": valid, "invalid_tool_calls": invalid}


def _write_beside(
    extra: dict[str, Any], old: Sequence[ToolCall], by_id: CallsById
) -> dict[str, Any]:
    """Return ``additional_kwargs`` with its own calls, and its tables by call id, changed alike.

    Such as Gemini's thought signatures and OpenAI's item ids.
    """
    old_ids = {call.id for call in old}
    changed: dict[str, Any] = {}
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
        elif isinstance(value, dict) and not old_ids.isdisjoint(value):
            changed[key] = {
                by_id[name][0].id if name in by_id else name: item
                for name, item in value.items()
                if name in by_id or name not in old_ids
            }
        elif key != "function_call":
            changed[key] = value
    return changed


# The Responses API knows its items by id and wants each with the reasoning it came with. Once the
# reasoning has left, a call or a text is sent without its id, and the tools the provider ran by
# itself are not sent. LangChain keeps these ids in the blocks, in their ``extras``, beside the
# content, and as the id of the message.

_OWN_ITEMS = ("msg_", "fc_", "ctc_")
_SERVER_ITEMS = ("ws_", "fs_", "ci_", "mcp_", "mcpl_", "mcpr_", "ig_", "cu_", "ts_", "tso_")
_ITEM_KEYS = {
    "reasoning_content", "reasoning", "thinking_blocks", "__openai_function_call_ids__"
}  # fmt: skip


def is_item(value: Any) -> bool:
    """Return whether an id is that of an item the model said or called."""
    return str(value or "").startswith(_OWN_ITEMS)


def free_items(content: Any) -> Any:
    """Return content or ``extras`` without ids of items, and without the tools the provider ran."""
    if isinstance(content, list):
        return [free_items(block) for block in content if not _is_server_item(block)]
    if not isinstance(content, dict):
        return content
    return {
        key: free_items(value) if key == "extras" else value
        for key, value in content.items()
        if not (key in ("id", "item_id") and is_item(value))
    }


def free_items_beside(extra: dict[str, Any]) -> dict[str, Any]:
    """Return ``additional_kwargs`` without its reasoning, ids of items and served tools."""
    served = extra.get("tool_outputs")
    has_served = isinstance(served, list) and any(map(_is_server_item, served))
    dropped = {*_ITEM_KEYS, "tool_outputs"} if has_served else _ITEM_KEYS
    return {key: value for key, value in extra.items() if key not in dropped}


def _is_server_item(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    name = block.get("id")
    if name is None and block.get("type") == "server_tool_result":
        name = block.get("tool_call_id")
    return str(name or "").startswith(_SERVER_ITEMS)
