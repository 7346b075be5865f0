"""Gemini contents; and the form it shares with Bedrock, a role and a list of untyped blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    PartKind,
    Reasoning,
    ToolCall,
)
from history_curator.errors import name_value
from history_curator.formats.base import (
    MappingFormat,
    Reading,
    as_mapping,
    copy_value,
    count_untouched,
)
from history_curator.formats.blocks import (
    TypedBlocks,
    entry_fields,
    inline_size,
    update_text,
    write_part,
)
from history_curator.formats.json_text import parse_object

_TOOL, _ASSISTANT, _USER = MessageRole.TOOL, MessageRole.ASSISTANT, MessageRole.USER
_CALL = ("functionCall", "function_call")
_RESULT = ("functionResponse", "function_response")
_SIGNATURE = ("thoughtSignature", "thought_signature")
_DATA = ("inlineData", "inline_data", "fileData", "file_data")
_MEDIA: dict[str, PartKind] = {"image": "image", "audio": "audio", "video": "video"}


class BlockFormat(TypedBlocks, MappingFormat):
    """A format whose messages are a role and a list of blocks.

    Every result is an entry, as is what lies between results. Results are written together, in
    one message of the user, and with the text of the user that stood in the same message.
    """

    name: str
    key: str
    """The key under which a message keeps its blocks."""
    roles: ClassVar[Mapping[str, MessageRole]]
    """The names this format has for our roles; the first of each is the one that is written."""
    default_role: str | None = None

    def read_result(self, block: Mapping[str, Any], reading: Reading, field: str) -> dict[str, Any]:
        """Read a result: the fields of its entry."""
        raise NotImplementedError

    def write_result(
        self, entry: ConversationEntry, recorded: Mapping[str, Any], call: ToolCall | None
    ) -> dict[str, Any]:
        """Write a result: into the block it was read from, if any, for the call it answers."""
        raise NotImplementedError

    def write_part(self, part: ContentPart) -> Any:
        """Write anything else: the block it was read from, patched where the text is another."""
        return write_part(part, {})

    def read_message(self, message: Any, reading: Reading) -> tuple[ConversationEntry, ...]:
        """Return the entries of one message."""
        if not isinstance(message, Mapping):
            fix = f'pass {{"role": …, "{self.key}": […]}}; one list holds one kind of message.'
            raise reading.error(f"expected a mapping, got {type(message).__name__}.", None, fix)
        if "tool_call_id" in message:
            fix = f"put it into a block of the {self.key} of a user message."
            problem = "a tool result has no message of its own in this format."
            raise reading.error(problem, "tool_call_id", fix)
        given = message.get("role", self.default_role)
        role = self.roles.get(given) if isinstance(given, str) else None
        if role is None:
            problem = f"unknown role: {name_value(given)}." if given else "the message has no role."
            raise reading.error(problem, "role", f"use one of {', '.join(self.roles)}.")
        extra = {key: value for key, value in message.items() if key not in ("role", self.key)}
        Reading(reading.index).clean_value(extra, "metadata")  # for its depth: it is not sent
        entries: list[dict[str, Any]] = []
        for is_result, start, blocks in self.split(self.read_blocks(message, reading), role):
            if is_result:
                result = self.read_result(blocks[0], reading, f"{self.key}[{start}]")
                entries.append({"role": _TOOL, **result})
            else:
                slots = self.read_slots(blocks, reading, self.key, start, calls=role is _ASSISTANT)
                entries.append({"role": role, **entry_fields(slots)})
        entries = entries or [{"role": role, **entry_fields([])}]
        return tuple(
            ConversationEntry(
                sequence=reading.index,
                source=message,
                metadata=extra or None,
                pinned=bool(extra.get("pinned")),
                span=(k, len(entries)) if len(entries) > 1 or fields["role"] is _TOOL else None,
                repairs=reading.note,
                **fields,
            )
            for k, fields in enumerate(entries)
        )

    def read_blocks(self, message: Mapping[str, Any], reading: Reading) -> list[Any]:
        """Return the blocks of a message, as JSON can carry them."""
        given = message.get(self.key)
        if isinstance(given, str):
            reading.note_repair(f"{self.key}: a bare text instead of a list of blocks")
            return [{"text": given}]
        if not isinstance(given, (list, tuple)):
            fix = 'make it a list of blocks, such as [{"text": …}].'
            raise reading.type_error(self.key, given, self.key, fix)
        return [self.read_block(each, reading, f"{self.key}[{n}]") for n, each in enumerate(given)]

    def read_block(self, block: Any, reading: Reading, field: str) -> Any:
        """Return a block as a mapping that JSON can carry."""
        if not isinstance(block, Mapping):
            raise reading.type_error("a block", block, field, 'use {"text": …} or another block.')
        block = reading.clean_value(block, field)
        text = block.get("text", "")
        if not isinstance(text, (str, type(None))):
            fix = "make it a string."
            raise reading.type_error("the text of a block", text, f"{field}.text", fix)
        return block

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return messages; untouched ones are the same objects."""
        out: list[Any] = []
        last: list[Any] = []
        calls: dict[str, ToolCall] = {}
        position = 0
        while position < len(entries):
            entry = entries[position]
            if entry.tool_calls:
                calls = {call.id: call for call in entry.tool_calls}
            untouched = count_untouched(entries, position)
            end = position + 1
            while entry.role is _TOOL and end < len(entries) and entries[end].role is _TOOL:
                end += 1  # all results of a turn are one message
            if untouched and end <= position + untouched:
                out.append(entry.source)
                position += untouched
                continue
            if entry.role is _TOOL:
                blocks: list[Any] = []
                for result in entries[position:end]:
                    own = self.own_blocks(result.root, last) if result.root.role is _TOOL else ()
                    call = calls.get(result.tool_call_id or "")
                    blocks.append(
                        self.write_result(result, as_mapping(own[0] if own else {}), call)
                    )
                    blocks += own[1:]  # the marks behind it
                sources = {id(each.root.source) for each in entries[position:end]}
                # The user's text of the same message stays in it: roles have to alternate.
                after = entries[end] if end < len(entries) else None
                if after is not None and after.role is _USER and id(after.root.source) in sources:
                    blocks += self._write_entry(after, last)[self.key]
                    end += 1
                message = {"role": self._role_name(_USER, entry), self.key: blocks}
            else:
                message = self._write_entry(entry, last)
            out.append(copy_value(message))
            position = end
        return out

    def _write_entry(self, entry: ConversationEntry, last: list[Any]) -> dict[str, Any]:
        root, source = entry.root, as_mapping(entry.root.source)
        own = self.own_blocks(root, last)
        recorded = self.read_slots(own, Reading(0), self.key, 0, calls=root.role is _ASSISTANT)
        calls = entry.tool_calls if entry.role is _ASSISTANT else None
        blocks = self.write_slots(entry, recorded, calls or (), entry.reasoning or ())
        kept = {key: source[key] for key in source if key in (entry.metadata or ())}
        return {"role": self._role_name(entry.role, entry), self.key: blocks, **kept}

    def split_source(self, root: ConversationEntry) -> list[tuple[bool, int, list[Any]]]:
        """Split the blocks of the message an entry was read from, if it has any."""
        source = as_mapping(root.source)
        if self.key not in source:
            return []
        return self.split(self.read_blocks(source, Reading(0)), root.role)

    def _role_name(self, role: MessageRole, entry: ConversationEntry) -> str:
        given = as_mapping(entry.root.source).get("role")
        if isinstance(given, str) and self.roles.get(given) is role and given != "function":
            return given
        return next(name for name, each in self.roles.items() if each is role)


class GeminiFormat(BlockFormat):
    """Contents as the Gemini API takes them; both spellings of keys are written as they were read.

    A call without an id is paired by the name of its function and by its turn among the calls of
    that name; none is invented. A thought signature stays on its part. A message of the role
    ``system`` is the system instruction: take it out before sending.

    Examples:
        >>> content = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}
        >>> GeminiFormat().read(content, 0)[0].tool_calls[0].id
        'look'
    """

    name = "gemini"
    key = "parts"
    default_role = "user"
    roles: ClassVar[Mapping[str, MessageRole]] = {
        "user": _USER,
        "model": _ASSISTANT,
        "system": MessageRole.SYSTEM,
        "function": _USER,
    }

    def kind_of(self, block: Mapping[str, Any]) -> Literal["call", "result", "reasoning", "part"]:
        """Return what a part is."""
        if _find_key(block, _CALL):
            return "call"
        if _find_key(block, _RESULT):
            return "result"
        return "reasoning" if block.get("thought") is True else "part"

    def read_call(self, block: Mapping[str, Any], reading: Reading, field: str) -> ToolCall:
        """Read a function call."""
        key = _find_key(block, _CALL) or _CALL[0]
        body = reading.object_of(block[key], f"{field}.{key}")
        name = reading.text_of(body.get("name"), f"{field}.{key}.name", "the name of the function")
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

    def read_result(self, block: Mapping[str, Any], reading: Reading, field: str) -> dict[str, Any]:
        """Read a function response."""
        key = _find_key(block, _RESULT) or _RESULT[0]
        body = reading.object_of(block[key], f"{field}.{key}")
        name = reading.text_of(body.get("name"), f"{field}.{key}.name", "the name of the function")
        call_id = _read_id(body, name, "result", reading, f"{field}.{key}.id")
        given = body.get("response")
        if given is not None:
            given = reading.object_of(given, f"{field}.{key}.response")
        only = next(iter(given)) if given and len(given) == 1 else None
        text = None if given is None else json.dumps(given, ensure_ascii=False, default=str)
        if given and only in ("output", "result", "error") and isinstance(given[only], str):
            text = given[only]
        media = [part for part in body.get("parts") or () if isinstance(part, Mapping)]
        said = (ContentPart("text", text),) if text else ()
        return {
            "content": text,
            "parts": (*said, *map(_read_media, media)) if media else None,
            "tool_call_id": call_id,
            "tool_name": name or None,
            "status": "error" if only == "error" else None,
        }

    def read_reasoning(self, block: Mapping[str, Any], reading: Reading, field: str) -> Reasoning:
        """Read a thought."""
        signature, text = block.get(_find_key(block, _SIGNATURE) or ""), block.get("text")
        signed = signature if isinstance(signature, str) else None
        return Reasoning(text if isinstance(text, str) else None, signed, dict(block))

    def read_part(self, block: Mapping[str, Any], reading: Reading, field: str) -> ContentPart:
        """Read anything else; a signature without a text is no text."""
        text = block.get("text")
        if isinstance(text, str) and (text.strip() or not _find_key(block, _SIGNATURE)):
            return ContentPart("text", text, block)
        if not block:
            raise reading.error("a part is empty.", field, 'use {"text": …} or another part.')
        return _read_media(block)

    def write_call(self, call: ToolCall) -> dict[str, Any]:
        """Write a function call."""
        extra = call.extra or {}
        beside = dict(extra.get("gemini") or {})
        key, nameless = beside.pop("key", _CALL[0]), beside.pop("nameless", False)
        body: dict[str, Any] = {} if nameless else {"id": call.id}
        body |= {"name": call.name, "args": parse_object(call.arguments) or {}}
        block = {key: body, **beside}
        if extra.get("thought_signature") is not None:
            block[_SIGNATURE[_CALL.index(key)]] = extra["thought_signature"]
        return block

    def write_result(
        self, entry: ConversationEntry, recorded: Mapping[str, Any], call: ToolCall | None
    ) -> dict[str, Any]:
        """Write a function response."""
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
            body["response"] = {
                "error" if entry.status == "error" else "output": entry.content or ""
            }
            media = [part.raw for part in update_text(entry) if part.kind != "text"]
            body.pop("parts", None)
            if media:
                body["parts"] = media
        return {key: body}


def _find_key(block: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((key for key in keys if block.get(key) is not None), None)


def _read_id(body: Mapping[str, Any], name: str, what: str, reading: Reading, field: str) -> str:
    before = reading.counts[what, name] = reading.counts.get((what, name), 0) + 1
    if body.get("id") is not None:
        return reading.text_of(body["id"], field, "the call id")
    return f"{name}-{before}" if before > 1 else name


def _read_media(block: Mapping[str, Any]) -> ContentPart:
    """Read a part that is not text, or not text alone."""
    data = as_mapping(block.get(_find_key(block, _DATA) or ""))
    if not data:
        text = block.get("text")
        if isinstance(text, str) and text.strip():
            return ContentPart("text", text, block)
        return ContentPart("other", None, block)
    mime = str(data.get("mimeType", data.get("mime_type")) or "")
    kind = _MEDIA.get(mime.split("/", maxsplit=1)[0], "file")
    return ContentPart(
        kind, None, block, *(inline_size(data.get("data")) if kind == "image" else ())
    )
