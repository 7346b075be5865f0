"""What a message is made of: text, media, thinking and calls, whichever provider wrote them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from history_curator.formats import arguments_text, join_text, read_part
from history_curator.entries import ContentPart, Reasoning, ToolCall, new_call

BlockKind = Literal["part", "reasoning", "call", "result"]

REASONING = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
CALLS = frozenset(
    {
        "tool_use",
        "tool_call",
        "function_call",
        "custom_tool_call",
        "invalid_tool_call",
        "tool_call_chunk",
    }
)
RESULTS = frozenset({"tool_result", "function_call_output"})

_MEDIA: dict[str, Literal["image", "audio", "video"]] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
}


_OWN = ("msg_", "fc_", "ctc_")
"""Ids of what the model said or called."""

_SERVED = ("ws_", "fs_", "ci_", "mcp_", "mcpl_", "mcpr_", "ig_", "cu_", "ts_", "tso_")
"""Ids of what the provider ran."""


class Blocks(NamedTuple):
    """What a list of content blocks says."""

    text: str | None
    parts: tuple[ContentPart, ...] | None = None
    reasoning: tuple[Reasoning, ...] | None = None
    calls: tuple[ToolCall, ...] = ()


def arguments_object(text: str) -> dict[str, Any] | None:
    """The object that JSON text spells, or None when it is malformed or not an object."""
    if text == "{}":
        return {}
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def kind_of(block: Any) -> BlockKind:
    """What a block is to us."""
    if isinstance(block, dict):
        kind = block.get("type")
        if kind in REASONING or _is_wrapped_reasoning(block):
            return "reasoning"
        if kind in CALLS:
            return "call"
        if kind in RESULTS:
            return "result"
    return "part"


def read_blocks(blocks: Sequence[Any]) -> Blocks:
    """Read the blocks of one message. Nothing is lost: each part keeps its block as ``raw``."""
    parts: list[ContentPart] = []
    reasoning: list[Reasoning] = []
    calls: list[ToolCall] = []
    for block in blocks:
        kind = kind_of(block)
        if kind == "reasoning":
            reasoning.append(read_reasoning(block))
        elif kind == "call":
            calls.append(read_call(block))
        else:
            parts.append(_read_part(block))
    read = tuple(parts)
    return Blocks(
        text=join_text(read),
        parts=read,
        reasoning=tuple(reasoning) or None,
        calls=tuple(calls),
    )


def _read_part(block: Any) -> ContentPart:
    """One block as a part; what we do not know, server-side tools included, passes through."""
    if isinstance(block, dict):
        kind = block.get("type")
        if kind == "text-plain":
            return ContentPart("file", raw=block)
        if kind == "media":
            medium = _MEDIA.get(str(block.get("mime_type", "")).partition("/")[0])
            return ContentPart(medium or "file", raw=block)
    elif not isinstance(block, str):
        return ContentPart("other", raw=block)
    return read_part(block, 0)


def read_reasoning(block: dict[str, Any]) -> Reasoning:
    """A thinking block of Anthropic, Bedrock, OpenAI, Gemini or LangChain's own form."""
    if _is_wrapped_reasoning(block):
        return replace(read_reasoning(block["value"]), raw=block)
    kind = block.get("type")
    if kind == "redacted_thinking":
        return Reasoning(signature=None, raw=block, encrypted=True)
    inner = block.get("reasoning_content")
    if isinstance(inner, dict):
        return Reasoning(text=inner.get("text"), signature=inner.get("signature"), raw=block)
    extras = block.get("extras")
    extras = extras if isinstance(extras, dict) else {}
    text = block.get("thinking") or block.get("reasoning") or block.get("text")
    if not isinstance(text, str):
        text = _summary_text(block.get("summary"))
    signature = block.get("signature") or extras.get("signature")
    sealed = block.get("encrypted_content") or extras.get("encrypted_content")
    return Reasoning(
        text=text,
        signature=signature if isinstance(signature, str) else None,
        raw=block,
        encrypted=bool(sealed) and not text,
    )


def read_call(block: dict[str, Any]) -> ToolCall:
    """A call written as a block: Anthropic's, OpenAI Responses' or LangChain's own."""
    arguments = block.get("input")
    if not arguments:
        arguments = block.get("args") or block.get("arguments") or block.get("partial_json") or {}
    call_id = block.get("call_id") or block.get("id") or ""
    return ToolCall(str(call_id), str(block.get("name") or ""), arguments_text(arguments))


def write_call(block: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    """The same block saying what the call now says; everything else in it stays."""
    changed = dict(block)
    changed["call_id" if "call_id" in block else "id"] = call.id
    changed["name"] = call.name
    if read_call(block).arguments == call.arguments:
        return changed
    for field in ("input", "args", "arguments"):
        if field in block:
            parsed = arguments_object(call.arguments)
            as_text = isinstance(block[field], str) or parsed is None
            changed[field] = call.arguments if as_text else parsed
            changed.pop("partial_json", None)
            if isinstance(block.get("extras"), dict):  # where they are spelled once more
                changed["extras"] = {k: v for k, v in block["extras"].items() if k != "arguments"}
            break
    if changed.get("type") == "invalid_tool_call" and isinstance(changed.get("args"), str):
        parsed = arguments_object(call.arguments)
        if parsed is not None:
            changed.update(type="tool_call", args=parsed)
            changed.pop("error", None)
    return changed


def _is_wrapped_reasoning(block: dict[str, Any]) -> bool:
    """Whether a block of LangChain's own form holds thinking it has no form for."""
    value = block.get("value") if block.get("type") == "non_standard" else None
    return isinstance(value, dict) and value.get("type") in REASONING


def _summary_text(summary: Any) -> str | None:
    if not isinstance(summary, list):
        return None
    texts = [item.get("text", "") for item in summary if isinstance(item, dict)]
    return "\n".join(text for text in texts if text) or None


# The calls of an `AIMessage`. It keeps them in ``tool_calls`` or ``invalid_tool_calls``, again in
# ``additional_kwargs`` the way the provider spelled them, and with some providers in the blocks of
# its content as well: read once, and written everywhere it keeps them.


def read_calls(message: Any, in_blocks: Sequence[ToolCall]) -> tuple[ToolCall, ...] | None:
    """Every call of an `AIMessage` once: parsed, invalid, then those only in content blocks."""
    fields = message.__dict__
    extra = fields["additional_kwargs"]
    written = _spelled(extra.get("tool_calls")) if extra else {}
    if "tool_call_chunks" in fields:
        for chunk in fields["tool_call_chunks"]:
            if chunk.get("id"):
                written.setdefault(chunk["id"], chunk.get("args") or "")
    signatures = extra.get("__gemini_function_call_thought_signatures__") if extra else None
    calls = []
    for call in fields["tool_calls"]:
        call_id, arguments = call["id"] or "", call["args"]
        text = written.get(call_id)
        if text is None or not _says(text, arguments, partial="tool_call_chunks" in fields):
            text = arguments_text(arguments)
        read = new_call(call_id, call["name"] or "", text)
        if signatures and call_id in signatures:
            read = replace(read, extra={"signature": signatures[call_id]})
        calls.append(read)
    calls += [
        new_call(call["id"] or "", call["name"] or "", call["args"] or "")
        for call in fields["invalid_tool_calls"]
    ]
    if not calls and extra:
        legacy = extra.get("function_call")
        if isinstance(legacy, dict):
            text = arguments_text(legacy.get("arguments") or "{}")
            calls.append(new_call("", str(legacy.get("name") or ""), text))
    if in_blocks:
        seen = {call.id for call in calls}
        calls += [call for call in in_blocks if call.id not in seen]
    return tuple(calls) or None


def _spelled(raw: Any) -> dict[str, str]:
    if not isinstance(raw, list):
        return {}
    return {
        call["id"]: call["function"]["arguments"]
        for call in raw
        if isinstance(call, dict)
        and call.get("id")
        and isinstance(call.get("function"), dict)
        and isinstance(call["function"].get("arguments"), str)
    }


def _says(text: str, arguments: Any, *, partial: bool) -> bool:
    parsed = arguments_object(text)
    return parsed == arguments or (partial and parsed is None)


# OpenAI's items: what was answered together with reasoning, once the reasoning has left.
#
# The Responses API knows its items by id and asks for the reasoning each one came with. Without it
# a call or a text is sent as if it were new, without its id, and what the provider ran by itself
# (a search, an interpreter) is not sent at all. LangChain keeps these ids in three places: in the
# blocks of the content, in their ``extras``, or beside the content and as the message's own id.


def free_blocks(content: Sequence[Any]) -> list[Any]:
    """The blocks of a message without the ids, and without what the provider ran."""
    return [_freed(block) for block in content if not _is_served(block)]


def free_aside(extra: dict[str, Any]) -> dict[str, Any]:
    """What stands beside the content, likewise."""
    served = extra.get("tool_outputs")
    gone = {"__openai_function_call_ids__"}
    if isinstance(served, list) and any(map(_is_served, served)):
        gone.add("tool_outputs")
    return {key: value for key, value in extra.items() if key not in gone}


def is_item(message_id: str | None) -> bool:
    """Whether the id of a message is that of an item."""
    return bool(message_id) and str(message_id).startswith(_OWN)


def _is_served(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    name = block.get("id")
    if name is None and block.get("type") == "server_tool_result":
        name = block.get("tool_call_id")
    return str(name or "").startswith(_SERVED)


def _freed(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    extras = block.get("extras")
    if isinstance(extras, dict) and str(extras.get("item_id") or "").startswith(_OWN):
        rest = {key: value for key, value in extras.items() if key != "item_id"}
        block = {**block, "extras": rest}
    if str(block.get("id") or "").startswith(_OWN):
        return {key: value for key, value in block.items() if key != "id"}
    return block
