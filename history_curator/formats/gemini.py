"""Gemini contents: parts without a type, told apart by their keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    PartKind,
    Reasoning,
    ToolCall,
)
from history_curator.formats.base import Reading, as_mapping, as_text, parse_object
from history_curator.formats.blocks import (
    Block,
    BlockFormat,
    BlockKind,
    update_text,
)
from history_curator.formats.images import inline_size

_CALL = ("functionCall", "function_call")
_RESULT = ("functionResponse", "function_response")
_SIGNATURE = ("thoughtSignature", "thought_signature")
_DATA = ("inlineData", "inline_data", "fileData", "file_data")
_MEDIA: dict[str, PartKind] = {"image": "image", "audio": "audio", "video": "video"}


class GeminiFormat(BlockFormat):
    """Contents as the Gemini API takes them; both spellings of keys are written as they were read.

    A call without an id is paired by the name of its function and by its turn among the calls of
    that name. A thought signature stays on its part. A message of the role ``system`` is the system
    instruction: take it out before sending.
    """

    name = "gemini"
    key = "parts"
    thinks_first = False
    roles: ClassVar[Mapping[str, MessageRole]] = {
        "user": MessageRole.USER,
        "model": MessageRole.ASSISTANT,
        "system": MessageRole.SYSTEM,
        "function": MessageRole.USER,
    }

    def _kind_of(self, block: Block) -> BlockKind:
        if _find_key(block, _CALL):
            return "call"
        if _find_key(block, _RESULT):
            return "result"
        return "reasoning" if block.get("thought") is True else "part"

    def _read_role(self, message: Mapping[str, Any], reading: Reading) -> MessageRole:
        given, parts = message.get("role"), message.get("parts")
        has_call = any(_find_key(as_mapping(part), _CALL) for part in parts or ())
        if has_call and given in (None, "user", "function"):
            reading.repairs.append(f"role: {given!r} is read as model, which alone calls functions")
            return MessageRole.ASSISTANT
        return super()._read_role({**message, "role": "user" if given is None else given}, reading)

    def _read_call(self, block: Block, reading: Reading, field: str) -> ToolCall:
        key = _find_key(block, _CALL) or _CALL[0]
        body = reading.require(block[key], Mapping, f"{field}.{key}")
        name = reading.text_of(body.get("name"), f"{field}.{key}.name")
        given = body.get("args")
        arguments = "{}" if given is None else reading.object_text(given, f"{field}.{key}.args")
        beside = {other: block[other] for other in block if other not in (key, *_SIGNATURE)}
        beside["key"] = key
        if body.get("id") is None:
            beside["nameless"] = True
        extra: dict[str, Any] = {"gemini": beside}
        signature = block.get(_find_key(block, _SIGNATURE) or "")
        if signature is not None:
            extra["thought_signature"] = signature
        call_id = _read_id(body, name, "call", reading, f"{field}.{key}.id")
        return ToolCall(call_id, name, arguments, extra)

    def _read_result(self, block: Block, reading: Reading, field: str) -> dict[str, Any]:
        key = _find_key(block, _RESULT) or _RESULT[0]
        body = reading.require(block[key], Mapping, f"{field}.{key}")
        name = reading.text_of(body.get("name"), f"{field}.{key}.name")
        call_id = _read_id(body, name, "result", reading, f"{field}.{key}.id")
        given, text, only = body.get("response"), None, None
        if given is not None:
            reading.require(given, Mapping, f"{field}.{key}.response")
            only = next(iter(given)) if len(given) == 1 else None
            is_text = only in ("output", "result", "error") and isinstance(given[only], str)
            text = given[only] if is_text else json.dumps(given, ensure_ascii=False, default=str)
        media = [_read_media(part) for part in body.get("parts") or () if isinstance(part, Mapping)]
        said = (ContentPart("text", text),) if text else ()
        return {
            "content": text,
            "parts": (*said, *media) if media else None,
            "tool_call_id": call_id,
            "tool_name": name,
            "status": "error" if only == "error" else None,
        }

    def _read_reasoning(self, block: Block, reading: Reading, field: str) -> Reasoning:
        signature = block.get(_find_key(block, _SIGNATURE) or "")
        return Reasoning(as_text(block.get("text")), as_text(signature), dict(block))

    def _read_part(self, block: Block, reading: Reading, field: str) -> ContentPart:
        text = block.get("text")
        if isinstance(text, str) and (text.strip() or not _find_key(block, _SIGNATURE)):
            return ContentPart("text", text, block)
        if not block:
            raise reading.error("a part is empty.", field, 'use {"text": …} or another part.')
        return _read_media(block)

    def _write_call(self, call: ToolCall) -> dict[str, Any]:
        extra = call.extra or {}
        beside = dict(extra.get("gemini") or {})
        key, nameless = beside.pop("key", _CALL[0]), beside.pop("nameless", False)
        body: dict[str, Any] = {} if nameless else {"id": call.id}
        body |= {"name": call.name, "args": parse_object(call.arguments) or {}}
        block = {key: body, **beside}
        if extra.get("thought_signature") is not None:
            block[_SIGNATURE[_CALL.index(key)]] = extra["thought_signature"]
        return block

    def _write_result(
        self, entry: ConversationEntry, recorded: Block, call: ToolCall | None
    ) -> dict[str, Any]:
        asked = (call.extra or {}).get("gemini") or {} if call is not None else {}
        key = _find_key(recorded, _RESULT) or _RESULT[_CALL.index(asked.get("key", _CALL[0]))]
        body = dict(as_mapping(recorded.get(key)))
        if asked.get("nameless") or (not asked and "id" not in body and recorded):
            body.pop("id", None)
        else:
            body["id"] = entry.tool_call_id
        body["name"] = entry.tool_name or (call.name if call is not None else body.get("name", ""))
        is_edited = entry.content != entry.root.content or entry.parts != entry.root.parts
        if is_edited or not recorded or not isinstance(body.get("response"), Mapping):
            key_of_text = "error" if entry.status == "error" else "output"
            body["response"] = {key_of_text: entry.content or ""}
            body.pop("parts", None)
            if media := [part.raw for part in update_text(entry) if part.kind != "text"]:
                body["parts"] = media
        return {key: body}


def _find_key(block: Block, keys: Sequence[str]) -> str | None:
    return next((key for key in keys if block.get(key) is not None), None)


def _read_id(body: Mapping[str, Any], name: str, what: str, reading: Reading, field: str) -> str:
    reading.counts[what, name] += 1
    if body.get("id") is not None:
        return reading.text_of(body["id"], field)
    count = reading.counts[what, name]
    return f"{name}-{count}" if count > 1 else name


def _read_media(block: Block) -> ContentPart:
    """Read a part that is not text, or not text alone."""
    data = as_mapping(block.get(_find_key(block, _DATA) or ""))
    if not data:
        text = as_text(block.get("text"))
        has_text = text is not None and bool(text.strip())
        return ContentPart("text" if has_text else "other", text if has_text else None, block)
    mime = str(data.get("mimeType", data.get("mime_type")) or "")
    kind = _MEDIA.get(mime.split("/", maxsplit=1)[0], "file")
    size = inline_size(data.get("data")) if kind == "image" else ()
    return ContentPart(kind, None, block, *size)
