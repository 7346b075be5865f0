"""Gemini contents: parts that are told apart by their keys, in camel or snake case."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar

from history_curator.formats._fields import Reading, mapping, parse_object
from history_curator.formats._parts import inline_size, text_first
from history_curator.formats._turns import BlockKind, Result, TurnFormat
from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
)
from history_curator.entries import PartKind

_CALL = ("functionCall", "function_call")
_RESULT = ("functionResponse", "function_response")
_SIGNATURE = ("thoughtSignature", "thought_signature")
_DATA = ("inlineData", "inline_data", "fileData", "file_data")
_LONG = 40
_PLAIN_RESULTS = ("output", "result", "error")
_MEDIA: dict[str, PartKind] = {"image": "image", "audio": "audio", "video": "video"}


class GeminiFormat(TurnFormat):
    """Contents as the Gemini API takes them; both spellings of keys are kept as they came.

    A call without an id is paired by the name of its function and by its turn among the calls of
    that name; none is invented. A thought signature stays on its part. A message of the role
    ``system`` is the system instruction: take it out before sending.

    Examples:
        >>> content = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}
        >>> GeminiFormat().read(content, 0)[0].tool_calls[0].id
        'look'
    """

    name = "gemini"
    blocks = "parts"
    roles: ClassVar[Mapping[str, MessageRole]] = {
        "user": MessageRole.USER,
        "model": MessageRole.ASSISTANT,
        "system": MessageRole.SYSTEM,
        "function": MessageRole.USER,
    }
    aliases: ClassVar[Mapping[str, MessageRole]] = {
        "assistant": MessageRole.ASSISTANT,
        "tool": MessageRole.USER,
        "developer": MessageRole.SYSTEM,
    }

    def kind_of(self, block: Mapping[str, Any]) -> BlockKind:
        if _one_of(block, _CALL):
            return "call"
        if _one_of(block, _RESULT):
            return "result"
        return "thought" if block.get("thought") is True else "part"

    def read_call(self, block: Mapping[str, Any], reading: Reading, at: str) -> ToolCall:
        key = _one_of(block, _CALL) or _CALL[0]
        body = reading.object_of(block[key], f"{at}.{key}")
        name = reading.name_of(body.get("name"), f"{at}.{key}.name", "the name of the function")
        given = body.get("args")
        arguments = "{}" if given is None else reading.object_text(given, f"{at}.{key}.args")
        kept = {name: block[name] for name in block if name not in (key, *_SIGNATURE)}
        kept["key"] = key
        if body.get("id") is None:
            kept["nameless"] = True
        extra: dict[str, Any] = {"gemini": kept}
        signature = block.get(_one_of(block, _SIGNATURE) or "")
        if signature is not None:
            extra["thought_signature"] = signature
        call_id = _id_of(body, name, "call", reading, f"{at}.{key}.id")
        return ToolCall(call_id, name, arguments, extra)

    def read_result(self, block: Mapping[str, Any], reading: Reading, at: str) -> Result:
        key = _one_of(block, _RESULT) or _RESULT[0]
        body = reading.object_of(block[key], f"{at}.{key}")
        name = reading.name_of(body.get("name"), f"{at}.{key}.name", "the name of the function")
        call_id = _id_of(body, name, "result", reading, f"{at}.{key}.id")
        given = body.get("response")
        if given is not None and not isinstance(given, Mapping):
            reading.repaired(f"{at}.{key}.response: the response was no object")
            given = {"output": given}
        only = next(iter(given)) if given and len(given) == 1 else None
        if given is not None and only in _PLAIN_RESULTS and isinstance(given[only], str):
            text: str | None = given[only]
        else:
            text = None if given is None else json.dumps(given, ensure_ascii=False, default=str)
        media = body.get("parts")
        parts: tuple[ContentPart, ...] | None = None
        if isinstance(media, (list, tuple)) and media:
            shown = [_media_part(part) for part in media if isinstance(part, Mapping)]
            parts = (*((ContentPart("text", text),) if text else ()), *shown)
        return Result(call_id, name or None, text, parts, "error" if only == "error" else None)

    def read_thought(self, block: Mapping[str, Any], reading: Reading, at: str) -> Reasoning:
        signature = block.get(_one_of(block, _SIGNATURE) or "")
        text = block.get("text")
        signed = signature if isinstance(signature, str) else None
        return Reasoning(text if isinstance(text, str) else None, signed, dict(block))

    def read_part(self, block: Mapping[str, Any], reading: Reading, at: str) -> ContentPart:
        text = block.get("text")
        if isinstance(text, str) and (text.strip() or not _one_of(block, _SIGNATURE)):
            return ContentPart("text", text, block)
        if text is None and not block:
            raise reading.error("a part is empty.", at, 'use {"text": …} or another part.')
        return _media_part(block)

    def write_call(self, call: ToolCall) -> dict[str, Any]:
        extra = call.extra or {}
        kept = dict(extra.get("gemini") or {})
        key, nameless = kept.pop("key", _CALL[0]), kept.pop("nameless", False)
        body: dict[str, Any] = {} if nameless else {"id": call.id}
        body |= {"name": call.name, "args": parse_object(call.arguments) or {}}
        block = {key: body, **kept}
        if extra.get("thought_signature") is not None:
            block[_SIGNATURE[_CALL.index(key)]] = extra["thought_signature"]
        return block

    def write_result(
        self, entry: ConversationEntry, recorded: Mapping[str, Any], call: ToolCall | None
    ) -> dict[str, Any]:
        asked = (call.extra or {}).get("gemini") or {} if call is not None else {}
        key = _one_of(recorded, _RESULT) or _RESULT[_CALL.index(asked.get("key", _CALL[0]))]
        body = dict(mapping(recorded.get(key)))
        root = entry.root
        if asked.get("nameless") or (not asked and "id" not in body and recorded):
            body.pop("id", None)
        else:
            body["id"] = entry.tool_call_id
        body["name"] = entry.tool_name or (call.name if call is not None else body.get("name", ""))
        same = entry.content == root.content and entry.parts == root.parts
        if not (recorded and same and isinstance(body.get("response"), Mapping)):
            text = entry.content or ""
            body["response"] = {"error" if entry.status == "error" else "output": text}
            kept = [part.raw for part in text_first(entry) if part.kind != "text"]
            body.pop("parts", None)
            if kept:
                body["parts"] = kept
        return {key: body}


def _one_of(block: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((key for key in keys if block.get(key) is not None), None)


def _id_of(body: Mapping[str, Any], name: str, what: str, reading: Reading, at: str) -> str:
    seen = reading.nth(what, name)
    if body.get("id") is not None:
        return reading.name_of(body["id"], at, "the call id")
    if len(name) > _LONG:  # short, as it is made up
        name = f"{name[:_LONG]}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return f"{name}-{seen + 1}" if seen else name


def _media_part(block: Mapping[str, Any]) -> ContentPart:
    data = mapping(block.get(_one_of(block, _DATA) or ""))
    if not data:
        text = block.get("text")
        if isinstance(text, str) and text.strip():
            return ContentPart("text", text, block)
        return ContentPart("other", None, block)
    mime = str(data.get("mimeType", data.get("mime_type")) or "")
    kind = _MEDIA.get(mime.split("/", maxsplit=1)[0], "file")
    if kind != "image":
        return ContentPart(kind, None, block)
    given = data.get("data")
    width, height = inline_size(given if isinstance(given, (str, bytes)) else None)
    return ContentPart("image", None, block, width, height)
