"""Content blocks: which are text, media, thinking or calls, whichever provider wrote them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from history_curator.dialects import arguments_text, join_text
from history_curator.dialects import read_part as _read_part
from history_curator.model import ContentPart, Reasoning, ToolCall

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

_TEXT = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_MEDIA: dict[str, Literal["image", "audio", "video"]] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
}


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
            parts.append(read_part(block))
    read = tuple(parts)
    return Blocks(
        text=join_text(read),
        parts=read,
        reasoning=tuple(reasoning) or None,
        calls=tuple(calls),
    )


def read_part(block: Any) -> ContentPart:
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
    return _read_part(block, 0)


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


def write_part(part: ContentPart) -> Any:
    """The block of a part: the one it was read from, with its text where that changed."""
    raw = part.raw
    if part.kind != "text":
        return raw
    if isinstance(raw, str) or raw is None:
        return raw if raw == part.text else {"type": "text", "text": part.text or ""}
    if not isinstance(raw, dict):
        return {"type": "text", "text": part.text or ""}
    field = _TEXT.get(raw.get("type", "text"), "text")
    return raw if raw.get(field) == part.text else {**raw, field: part.text or ""}


def _is_wrapped_reasoning(block: dict[str, Any]) -> bool:
    """Whether a block of LangChain's own form holds thinking it has no form for."""
    value = block.get("value") if block.get("type") == "non_standard" else None
    return isinstance(value, dict) and value.get("type") in REASONING


def _summary_text(summary: Any) -> str | None:
    if not isinstance(summary, list):
        return None
    texts = [item.get("text", "") for item in summary if isinstance(item, dict)]
    return "\n".join(text for text in texts if text) or None
