"""Gemini contents; and the form it shares with Bedrock, a role and a list of untyped blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any, ClassVar, Literal

from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    PartKind,
    Reasoning,
    ToolCall,
)
from history_curator.errors import named
from history_curator.formats.base import (
    MappingFormat,
    MessageGroup,
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
_LONGEST_NAME = 40
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
    aliases: ClassVar[Mapping[str, MessageRole]]
    """Other names that are understood, and reported."""
    default_role: MessageRole | None = None

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

    def gather(self, messages: Sequence[Any]) -> Sequence[Any]:
        """Group results in messages of their own: the API wants them in one."""
        out: list[Any] = []
        for answers, run in groupby(messages, self._is_only_results):
            group = list(run)
            out += [MessageGroup(group)] if answers and len(group) > 1 else group
        return messages if len(out) == len(messages) else out

    def _is_only_results(self, message: Any) -> bool:
        blocks = message.get(self.key) if isinstance(message, Mapping) else None
        if not isinstance(blocks, (list, tuple)) or not message.keys() <= {"role", self.key}:
            return False
        role = message.get("role")
        if (self.roles.get(role, _USER) if isinstance(role, str) else _USER) is not _USER:
            return False
        solid = [each for each in blocks if not isinstance(each, Mapping) or not self.is_mark(each)]
        return bool(solid) and all(
            isinstance(block, Mapping) and self.kind_of(block) == "result" for block in solid
        )

    def read_message(self, message: Any, reading: Reading) -> tuple[ConversationEntry, ...]:
        """Return the entries of one message."""
        first = message
        if message.__class__ is MessageGroup:
            first = message[0]
            reading.repaired(f"{self.key}: the results of one turn were in {len(message)} messages")
        if not isinstance(first, Mapping):
            raise reading.error(
                f"expected a mapping, got {type(first).__name__}.",
                None,
                f'pass {{"role": …, "{self.key}": […]}}; one list holds one kind of message.',
            )
        if "tool_call_id" in first:
            raise reading.error(
                "a tool result has no message of its own in this format.",
                "tool_call_id",
                f"put it into a block of the {self.key} of a user message.",
            )
        role = self._read_role(first, reading)
        extra = {key: value for key, value in first.items() if key not in ("role", self.key)}
        reading.checked(extra, "metadata", sent=False)
        entries: list[dict[str, Any]] = []
        for is_result, start, blocks in self.split(self._read_blocks(message, reading), role):
            if is_result:
                result = self.read_result(blocks[0], reading, f"{self.key}[{start}]")
                entries.append({"role": _TOOL, **result})
            else:
                slots = self.read_slots(blocks, reading, self.key, start, calls=role is _ASSISTANT)
                entries.append({"role": role, **entry_fields(slots)})
        entries = entries or [{"role": role, **entry_fields([])}]
        note = reading.note
        return tuple(
            ConversationEntry(
                sequence=reading.index,
                source=message,
                metadata=extra or None,
                pinned=bool(extra.get("pinned")),
                span=(k, len(entries)) if len(entries) > 1 or fields["role"] is _TOOL else None,
                repairs=note,
                **fields,
            )
            for k, fields in enumerate(entries)
        )

    def _read_role(self, message: Mapping[str, Any], reading: Reading) -> MessageRole:
        given = message.get("role")
        if given is None and self.default_role is not None:
            return self.default_role
        if given.__class__ is str and given in self.roles:
            return self.roles[given]
        plain = given.strip().lower() if isinstance(given, str) else ""
        role = self.aliases.get(plain) or self.roles.get(plain)
        if role is None:
            problem = "the message has no role."
            if given is not None:
                problem = f"unknown role: {named(given)}."
            raise reading.error(problem, "role", f"use one of {', '.join(self.roles)}.")
        reading.repaired(f"role: {given!r} is read as {role.value}")
        return role

    def _read_blocks(self, message: Any, reading: Reading) -> list[Any]:
        if message.__class__ is MessageGroup:
            return [block for each in message for block in self._read_blocks(each, reading)]
        given = message.get(self.key)
        if isinstance(given, str):
            reading.repaired(f"{self.key}: a bare text instead of a list of blocks")
            return [{"text": given}]
        if not isinstance(given, (list, tuple)):
            fix = 'make it a list of blocks, such as [{"text": …}].'
            raise reading.missing(given, self.key, fix)
        return [self.read_block(each, reading, f"{self.key}[{n}]") for n, each in enumerate(given)]

    def read_block(self, block: Any, reading: Reading, field: str) -> Any:
        """Return a block as a mapping that JSON can carry."""
        if isinstance(block, str):
            reading.repaired(f"{field}: a bare text among the blocks")
            return {"text": block}
        if not isinstance(block, Mapping):
            raise reading.mistyped("a block", block, field, 'use {"text": …} or another block.')
        block = reading.checked(block, field)
        text = block.get("text")
        if text is not None and not isinstance(text, str):
            raise reading.mistyped(
                "the text of a block", text, f"{field}.text", "make it a string."
            )
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
                    blocks += self._write_answer(result, calls, last)
                sources = [each.root.source for each in entries[position:end]]
                # The user's text of the same message stays in it: roles have to alternate.
                if end < len(entries) and _is_user_text_of(sources, entries[end]):
                    blocks += self._write_entry(entries[end], last)[self.key]
                    end += 1
                message = {"role": self._role_name(_USER, entry), self.key: blocks}
            else:
                message = self._write_entry(entry, last)
            out.append(copy_value(message))
            position = end
        return out

    def _write_answer(
        self, entry: ConversationEntry, calls: Mapping[str, ToolCall], last: list[Any]
    ) -> list[Any]:
        """Write the block of a result, and the marks behind it."""
        own = self.own_blocks(entry.root, last) if entry.root.role is _TOOL else ()
        call = calls.get(entry.tool_call_id or "")
        return [self.write_result(entry, as_mapping(own[0]) if own else {}, call), *own[1:]]

    def _write_entry(self, entry: ConversationEntry, last: list[Any]) -> dict[str, Any]:
        root = entry.root
        fields = {
            key: value
            for key, value in as_mapping(root.source).items()
            if key not in ("role", self.key) and key in (entry.metadata or ())
        }
        speaks = root.role is _ASSISTANT
        own = self.own_blocks(root, last)
        recorded = self.read_slots(own, Reading(0), self.key, 0, calls=speaks)
        calls = entry.tool_calls if entry.role is _ASSISTANT else None
        blocks = self.write_slots(entry, recorded, calls or (), entry.reasoning or ())
        return {"role": self._role_name(entry.role, entry), self.key: blocks, **fields}

    def split_source(self, root: ConversationEntry) -> list[tuple[bool, int, list[Any]]]:
        """Split the blocks of the message an entry was read from, if it has any."""
        source = root.source
        if self.key not in as_mapping(_first_of(source)):
            return []
        return self.split(self._read_blocks(source, Reading(0)), root.role)

    def _role_name(self, role: MessageRole, entry: ConversationEntry) -> str:
        given = as_mapping(_first_of(entry.root.source)).get("role")
        if isinstance(given, str) and self.roles.get(given) is role and given != "function":
            return given
        return next(name for name, each in self.roles.items() if each is role)


def _first_of(source: Any) -> Any:
    return source[0] if source.__class__ is MessageGroup else source


def _is_user_text_of(sources: Sequence[Any], entry: ConversationEntry) -> bool:
    source = entry.root.source
    return entry.role is _USER and source is not None and any(each is source for each in sources)


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
    default_role = _USER
    roles: ClassVar[Mapping[str, MessageRole]] = {
        "user": _USER,
        "model": _ASSISTANT,
        "system": MessageRole.SYSTEM,
        "function": _USER,
    }
    aliases: ClassVar[Mapping[str, MessageRole]] = {
        "assistant": _ASSISTANT,
        "tool": _USER,
        "developer": MessageRole.SYSTEM,
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
        if given is not None and not isinstance(given, Mapping):
            reading.repaired(f"{field}.{key}.response: the response was no object")
            given = {"output": given}
        only = next(iter(given)) if given and len(given) == 1 else None
        text = None if given is None else json.dumps(given, ensure_ascii=False, default=str)
        if given and only in ("output", "result", "error") and isinstance(given[only], str):
            text = given[only]
        media = body.get("parts")
        parts: tuple[ContentPart, ...] | None = None
        if isinstance(media, (list, tuple)) and media:
            shown = [read_media(part) for part in media if isinstance(part, Mapping)]
            parts = (*((ContentPart("text", text),) if text else ()), *shown)
        return {
            "content": text,
            "parts": parts,
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
        """Read anything else."""
        text = block.get("text")
        if isinstance(text, str) and (text.strip() or not _find_key(block, _SIGNATURE)):
            return ContentPart("text", text, block)
        if text is None and not block:
            raise reading.error("a part is empty.", field, 'use {"text": …} or another part.')
        return read_media(block)

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
    before = reading.count(what, name)
    if body.get("id") is not None:
        return reading.text_of(body["id"], field, "the call id")
    if len(name) > _LONGEST_NAME:  # short, as it is made up
        digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"{name[:_LONGEST_NAME]}-{digest[:8]}"
    return f"{name}-{before + 1}" if before else name


def read_media(block: Mapping[str, Any]) -> ContentPart:
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
