"""The content blocks and tool calls of LangChain messages, as providers write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from langchain_core.messages.tool import invalid_tool_call, tool_call

from history_curator.entries import ContentPart, ConversationEntry, Reasoning, ToolCall
from history_curator.formats import arguments_text, parse_object, read_part, update_text, write_part
from history_curator.formats.blocks import Slots, restore_order

_REASONING = ("thinking", "redacted_thinking", "reasoning", "reasoning_content")
_COMPUTER_CALL = "computer_call"
_CALLS = ("tool_use", "tool_call", "function_call", "custom_tool_call", "invalid_tool_call")
_KINDS: dict[Any, str] = {
    **dict.fromkeys(_REASONING, "reasoning"),
    **dict.fromkeys((*_CALLS, "tool_call_chunk", _COMPUTER_CALL), "call"),
    **dict.fromkeys(("tool_result", "function_call_output"), "result"),
}


def _unpack(block: dict[str, Any]) -> dict[str, Any]:
    """Return the block of a provider's own that LangChain carries as not standard."""
    value = block.get("value") if block.get("type") == "non_standard" else None
    return value if isinstance(value, dict) else block


def _type_of(block: Any) -> Any:
    kind = _unpack(block).get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else None


def kind_of(block: Any) -> str:
    """Return how a content block is read."""
    return _KINDS.get(_type_of(block), "part")


def has_compaction(content: Any) -> bool:
    """Return whether content holds a provider's summary of what was before it."""
    return isinstance(content, list) and "compaction" in map(_type_of, content)


def read_slots(blocks: Sequence[Any], index: int) -> Slots:
    """Read the blocks of one message in order; parts and reasoning keep their block as ``raw``."""
    read: dict[str, Callable[[Any], Any]] = {"reasoning": _read_reasoning, "call": _read_call}
    if _COMPUTER_CALL in map(_type_of, blocks):
        del read["reasoning"]  # OpenAI wants it beside each call of the computer, so it is a part
    kinds = [kind if (kind := kind_of(block)) in read else "part" for block in blocks]
    return [
        (kind, read[kind](block) if kind in read else _read_part(block, index))
        for kind, block in zip(kinds, blocks, strict=True)
    ]


def _read_part(block: Any, index: int) -> ContentPart:
    """Read one block as a part; unknown ones, server-side tools included, pass through."""
    if not isinstance(block, (dict, str)):
        return ContentPart("other", raw=block)
    if isinstance(block, dict) and block.get("type") in ("media", "text-plain"):
        medium = str(block.get("mime_type", "")).partition("/")[0]
        known = medium if medium in ("image", "audio", "video") else "file"
        return ContentPart(cast("Any", known), raw=block)
    return read_part(block, index)


def _read_reasoning(block: dict[str, Any]) -> Reasoning:
    """Read a thinking block of Anthropic, Bedrock, OpenAI, Gemini or LangChain's own form."""
    given = _unpack(block)
    layers = (given.get("extras"), given.get("reasoning_content"), given)
    fields = {k: v for layer in layers if isinstance(layer, dict) for k, v in layer.items() if v}
    summary = fields["summary"] if isinstance(fields.get("summary"), list) else []
    lines = [each["text"] for each in summary if isinstance(each, dict) and each.get("text")]
    found = [*map(fields.get, ("thinking", "reasoning", "text")), "\n".join(map(str, lines))]
    text = next((each for each in found if isinstance(each, str) and each), None)
    signature = fields.get("signature")
    sealed = given.get("type") == "redacted_thinking" or "encrypted_content" in fields
    signed = signature if isinstance(signature, str) else None
    return Reasoning(text, signed, block, encrypted=sealed and not text)


def read_reasoning_beside(extra: dict[str, Any]) -> tuple[Reasoning, ...] | None:
    """Read the reasoning that a message keeps in ``additional_kwargs``."""
    item = extra.get("reasoning_content") or extra.get("reasoning")
    if isinstance(item, str):
        return (Reasoning(text=item),)
    return (_read_reasoning({"type": "reasoning", **item}),) if isinstance(item, dict) else None


def _read_call(block: dict[str, Any]) -> ToolCall:
    """Read a call written as a block: Anthropic's, OpenAI Responses' or LangChain's own."""
    given = _unpack(block)
    names = ("input", "args", "arguments", "partial_json", "action")
    arguments: Any = next((given[name] for name in names if given.get(name)), {})
    call_id = given.get("call_id") or given.get("id") or ""
    name = given.get("name") or ("computer" if given["type"] == _COMPUTER_CALL else "")
    return ToolCall(str(call_id), str(name), arguments_text(arguments))


def read_calls(
    fields: dict[str, Any], in_blocks: Sequence[ToolCall]
) -> tuple[ToolCall, ...] | None:
    """Return every call of an `AIMessage` once: parsed, invalid, then those only in blocks."""
    calls = [
        ToolCall(call["id"] or "", call["name"] or "", arguments_text(call["args"] or empty))
        for key, empty in (("tool_calls", {}), ("invalid_tool_calls", ""))
        for call in fields.get(key) or ()
    ]
    known = {call.id for call in calls}
    return (*calls, *(call for call in in_blocks if call.id not in known)) or None


def write_content(content: Any, entry: ConversationEntry, *, keeps_calls: bool = True) -> Any:
    """Return the content of a message as its entry has it, in order; changed calls stand beside it."""
    if isinstance(content, str):
        return list(map(write_part, update_text(entry))) if entry.parts else entry.content or ""
    slots = [
        (kind, block if kind == "call" else item)
        for block, (kind, item) in zip(content, read_slots(content, 0), strict=True)
        if keeps_calls or kind != "call"
    ]
    calls: list[Any] = [item for kind, item in slots if kind == "call"]
    reasoning = [item for item in entry.reasoning or () if item.raw]
    blocks = [
        write_part(item) if kind == "part" else item.raw if kind == "reasoning" else item
        for kind, item, _ in restore_order(entry, slots, calls, reasoning)
    ]
    return blocks or entry.content or ""


def write_rows(calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Return ``tool_calls`` and ``invalid_tool_calls`` for the calls of an entry."""
    rows: dict[str, Any] = {"tool_calls": [], "invalid_tool_calls": []}
    for call in calls:
        parsed = parse_object(call.arguments)
        if parsed is not None:
            rows["tool_calls"].append(tool_call(name=call.name, args=parsed, id=call.id))
        else:
            bad = invalid_tool_call(name=call.name, args=call.arguments, id=call.id, error=None)
            rows["invalid_tool_calls"].append(bad)
    return rows


# The Responses API knows its items by id and wants each with the reasoning it came with. Once the
# reasoning has left, a call or a text is sent without its id, and the tools the provider ran by
# itself are not sent.

_OWN_ITEMS = ("msg_", "fc_", "ctc_")
_SERVER_ITEMS = ("ws_", "fs_", "ci_", "mcp_", "mcpl_", "mcpr_", "ig_", "ts_", "tso_")


def free_items(value: Any) -> Any:
    """Return content or ``extras`` without ids of items, and without the tools the provider ran."""
    if isinstance(value, list):
        return [free_items(block) for block in value if not _is_served(block)]
    if not isinstance(value, dict):
        return value
    return {
        key: free_items(item) if key == "extras" else item
        for key, item in value.items()
        if not (key in ("id", "item_id") and str(item).startswith(_OWN_ITEMS))
    }


def _is_served(block: Any) -> bool:
    ids = (block.get("id"), block.get("tool_call_id")) if isinstance(block, dict) else ()
    return any(str(each).startswith(_SERVER_ITEMS) for each in ids)
