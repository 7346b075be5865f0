"""Bedrock Converse messages: blocks without a type, told apart by their keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    PartKind,
    Reasoning,
    ToolCall,
)
from history_curator.formats.base import Reading, as_mapping, as_text
from history_curator.formats.blocks import (
    Block,
    BlockFormat,
    BlockKind,
    join_text,
    read_call,
    update_text,
    write_call,
)
from history_curator.formats.images import inline_size

_BLOCKS: dict[str, BlockKind] = {"toolUse": "call", "toolResult": "result"}
_BLOCKS |= {"reasoningContent": "reasoning"}
_KINDS: dict[str, PartKind] = {"document": "file", "video": "video"}
BEDROCK_BLOCKS = frozenset((*_BLOCKS, *_KINDS, "cachePoint", "guardContent", "citationsContent"))
BEDROCK_BLOCKS |= {"searchResult", "image", "audio", "json"}
"""Blocks without a type that no other format has."""


class BedrockFormat(BlockFormat):
    """Messages as ``converse`` takes them, cache points and reasoning included.

    A message of the role ``system`` is the system prompt: take it out before sending.
    """

    name = "bedrock"
    roles: ClassVar[Mapping[str, MessageRole]] = {
        "user": MessageRole.USER,
        "assistant": MessageRole.ASSISTANT,
        "system": MessageRole.SYSTEM,
    }

    def _kind_of(self, block: Block) -> BlockKind:
        return next((_BLOCKS[key] for key in _BLOCKS if key in block), "part")

    def _is_mark(self, block: Block) -> bool:
        return block.keys() == {"cachePoint"}

    def _read_call(self, block: Block, reading: Reading, field: str) -> ToolCall:
        field = f"{field}.toolUse"
        body = reading.require(block["toolUse"], Mapping, field)
        return read_call(body, "bedrock", "toolUseId", reading, field)

    def _read_result(self, block: Block, reading: Reading, field: str) -> dict[str, Any]:
        field = f"{field}.toolResult"
        body = reading.require(block["toolResult"], Mapping, field)
        call_id, given = body.get("toolUseId"), body.get("content")
        where = f"{field}.content"
        parts = tuple(
            self._read_part(reading.require(item, Mapping, where), reading, where)
            for item in reading.list_of(given, where)
        )
        return {
            "content": join_text(parts),
            "parts": parts,
            "tool_call_id": None if call_id is None else reading.text_of(call_id, field),
            "status": "error" if body.get("status") == "error" else None,
        }

    def _read_reasoning(self, block: Block, reading: Reading, field: str) -> Reasoning:
        body = reading.require(block["reasoningContent"], Mapping, f"{field}.reasoningContent")
        given = body.get("reasoningText")
        inside = reading.require({} if given is None else given, Mapping, f"{field}.reasoningText")
        text, signature = as_text(inside.get("text")), as_text(inside.get("signature"))
        return Reasoning(text, signature, block, body.get("redactedContent") is not None)

    def _read_part(self, block: Block, reading: Reading, field: str) -> ContentPart:
        text = block.get("text")
        if text is not None:
            reading.require(text, str, f"{field}.text")
            return ContentPart("text", text, block)
        if "json" in block:
            return ContentPart("text", _json_text(block), block)
        if not block:
            raise reading.error("a block is empty.", field, 'use {"text": …} or another block.')
        if isinstance(block.get("image"), Mapping):
            data = as_mapping(block["image"].get("source")).get("bytes")
            return ContentPart("image", None, block, *inline_size(data))
        found = (kind for key, kind in _KINDS.items() if key in block)
        kind: PartKind = next(found, "other")
        return ContentPart(kind, None, block, tokens=0 if self._is_mark(block) else None)

    def _write_part(self, part: ContentPart) -> Any:
        raw = part.raw
        if part.kind == "text" and isinstance(raw, Mapping) and "json" in raw:
            return raw if _json_text(raw) == part.text else {"text": part.text or ""}
        return super()._write_part(part)

    def _write_call(self, call: ToolCall) -> dict[str, Any]:
        return {"toolUse": write_call(call, "bedrock", "toolUseId")}

    def _write_result(
        self, entry: ConversationEntry, recorded: Block, call: ToolCall | None
    ) -> dict[str, Any]:
        body = {**as_mapping(recorded.get("toolResult")), "toolUseId": entry.tool_call_id}
        parts = update_text(entry) or (ContentPart("text", ""),)
        body["content"] = [self._write_part(part) for part in parts]
        status = {"status": "error"} if entry.status == "error" else {}
        return {"toolResult": {**body, **status}}


def _json_text(block: Block) -> str:
    return json.dumps(block["json"], ensure_ascii=False, default=str)
