"""Bedrock Converse messages: blocks that are told apart by their one key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from history_curator.formats._fields import Reading, mapping, parse_object
from history_curator.formats._parts import inline_size, join_text, text_first
from history_curator.formats._turns import BlockKind, Result, TurnFormat
from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
)

BEDROCK_BLOCKS = frozenset(
    (
        "toolUse",
        "toolResult",
        "cachePoint",
        "reasoningContent",
        "guardContent",
        "citationsContent",
        "searchResult",
        "image",
        "document",
        "video",
        "audio",
        "json",
    )
)
"""Blocks without a type that no other format has."""


class BedrockFormat(TurnFormat):
    """Messages as ``converse`` takes them, cache points and thoughts included.

    A message of the role ``system`` is the system prompt: take it out before sending.

    Examples:
        >>> asked = {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}}
        >>> BedrockFormat().read({"role": "assistant", "content": [asked]}, 0)[0].tool_calls[0].id
        'c1'
    """

    name = "bedrock"
    blocks = "content"
    roles: ClassVar[Mapping[str, MessageRole]] = {
        "user": MessageRole.USER,
        "assistant": MessageRole.ASSISTANT,
        "system": MessageRole.SYSTEM,
    }
    aliases: ClassVar[Mapping[str, MessageRole]] = {
        "model": MessageRole.ASSISTANT,
        "tool": MessageRole.USER,
        "developer": MessageRole.SYSTEM,
    }

    marks = frozenset(("cachePoint",))

    def kind_of(self, block: Mapping[str, Any]) -> BlockKind:
        if "toolUse" in block:
            return "call"
        if "toolResult" in block:
            return "result"
        return "thought" if "reasoningContent" in block else "part"

    def read_call(self, block: Mapping[str, Any], reading: Reading, at: str) -> ToolCall:
        body = reading.object_of(block["toolUse"], f"{at}.toolUse")
        modelled = ("toolUseId", "name", "input")
        return ToolCall(
            reading.name_of(body.get("toolUseId"), f"{at}.toolUse.toolUseId", "the call id"),
            reading.name_of(body.get("name"), f"{at}.toolUse.name", "the name of the tool"),
            reading.object_text(body.get("input"), f"{at}.toolUse.input"),
            {"bedrock": {key: body[key] for key in body if key not in modelled}},
        )

    def read_result(self, block: Mapping[str, Any], reading: Reading, at: str) -> Result:
        body = reading.object_of(block["toolResult"], f"{at}.toolResult")
        call_id = body.get("toolUseId")
        if call_id is not None:
            call_id = reading.name_of(call_id, f"{at}.toolResult.toolUseId", "the call id")
        given = body.get("content")
        if given is None or isinstance(given, str):
            reading.repaired(f"{at}.toolResult.content: not a list of blocks")
            given = [{"text": given}] if given else []
        if not isinstance(given, (list, tuple)):
            fix = 'make it a list, such as [{"text": …}].'
            raise reading.mistyped("the tool result", given, f"{at}.toolResult.content", fix)
        parts = tuple(
            self.read_part(self._block(item, reading, place), reading, f"{at}.toolResult.content")
            for place, item in enumerate(given)
        )
        status = body.get("status")
        if status not in (None, "success", "error"):
            reading.repaired(f"{at}.toolResult.status: neither success nor error")
        return Result(
            call_id, None, join_text(parts), parts, "error" if status == "error" else None
        )

    def read_thought(self, block: Mapping[str, Any], reading: Reading, at: str) -> Reasoning:
        body = reading.object_of(block["reasoningContent"], f"{at}.reasoningContent")
        given = body.get("reasoningText")
        said = reading.object_of({} if given is None else given, f"{at}.reasoningText")
        text, signature = said.get("text"), said.get("signature")
        return Reasoning(
            text if isinstance(text, str) else None,
            signature if isinstance(signature, str) else None,
            block,
            encrypted=body.get("redactedContent") is not None,
        )

    def read_part(self, block: Mapping[str, Any], reading: Reading, at: str) -> ContentPart:
        if isinstance(block.get("text"), str):
            return ContentPart("text", block["text"], block)
        if "json" in block:
            text = json.dumps(block["json"], ensure_ascii=False, default=str)
            return ContentPart("text", text, block)
        if not block:
            raise reading.error("a block is empty.", at, 'use {"text": …} or another block.')
        if isinstance(block.get("image"), Mapping):
            data = mapping(block["image"].get("source")).get("bytes")
            width, height = inline_size(data if isinstance(data, (str, bytes)) else None)
            return ContentPart("image", None, block, width, height)
        if "document" in block:
            return ContentPart("file", None, block)
        if "video" in block:
            return ContentPart("video", None, block)
        return ContentPart("other", None, block, tokens=0 if self.is_mark(block) else None)

    def write_part(self, part: ContentPart) -> Any:
        raw = part.raw
        if part.kind == "text" and isinstance(raw, Mapping) and "json" in raw:
            same = json.dumps(raw["json"], ensure_ascii=False, default=str) == part.text
            return raw if same else {"text": part.text or ""}
        return super().write_part(part)

    def write_call(self, call: ToolCall) -> dict[str, Any]:
        kept = (call.extra or {}).get("bedrock") or {}
        given = parse_object(call.arguments) or {}
        return {"toolUse": {"toolUseId": call.id, "name": call.name, "input": given, **kept}}

    def write_result(
        self, entry: ConversationEntry, recorded: Mapping[str, Any], call: ToolCall | None
    ) -> dict[str, Any]:
        body = {**mapping(recorded.get("toolResult")), "toolUseId": entry.tool_call_id}
        parts = text_first(entry) or (ContentPart("text", ""),)
        body["content"] = [self.write_part(part) for part in parts]
        if entry.status == "error" or body.get("status") not in (None, "success"):
            body.pop("status", None)
            if entry.status == "error":
                body["status"] = "error"
        return {"toolResult": body}
