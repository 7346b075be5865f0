"""Content blocks: read a list of typed blocks, and write edited entries back into their blocks."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    PartKind,
    Reasoning,
    ToolCall,
)
from history_curator.formats.base import Reading, type_of
from history_curator.formats.json_text import parse_object

_TEXT = {"text", "input_text", "output_text", "refusal"}
_KINDS: dict[str, PartKind] = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "input_audio": "audio",
    "video": "video",
    "video_url": "video",
    "file": "file",
    "document": "file",
    "input_file": "file",
}
_TEXT_BLOCK: Mapping[str, Any] = {"type": "text"}
_TEXT_KEYS = frozenset(("type", "text", "refusal"))
_UNTYPED = ("text", "image_url", "input_audio", "file", "refusal", "video_url")
"""Fields that tell the type of a block that names none: it is called the same."""


def read_part(
    block: Any,
    index: int,
    field: str = "content",
    reading: Reading | None = None,
    untyped: Sequence[str] = _UNTYPED,
) -> ContentPart:
    """Read one content block in OpenAI's or Anthropic's spelling.

    Where a `reading` is given, what no provider takes is repaired and noted there: bare text in a
    list, a block without a type, numbers JSON cannot carry.

    Raises:
        ConversionError: when the block is neither text nor a mapping with a type.
    """
    if isinstance(block, str):
        if reading is None:
            return ContentPart("text", block, block)
        reading.note_repair(f"{field}: a bare text among the blocks")
        return ContentPart("text", block, {"type": "text", "text": block})
    if not isinstance(block, Mapping):
        fix = 'use {"type": "text", "text": …} blocks or a plain string.'
        raise (reading or Reading(index)).type_error("a content block", block, field, fix)
    if reading is not None:
        block = reading.clean_value(block, field)
        if not isinstance(block.get("type"), str):
            kind = next((name for name in untyped if name in block), None)
            if kind is None:
                fix = 'add one, such as "type": "text".'
                raise reading.error("a content block has no type.", field, fix)
            reading.note_repair(f"{field}: a block without a type")
            block = {"type": kind, **{key: block[key] for key in block if key != "type"}}
        if not isinstance(block.get("annotations", ()), (list, tuple)):
            fix = "make it a list, or leave it out."
            raise reading.type_error("it", block["annotations"], f"{field}.annotations", fix)
    kind = type_of(block)
    if kind in _TEXT or (not kind and isinstance(block.get("text"), str)):
        text = block.get("text", block.get("refusal"))
        if text is not None and not isinstance(text, str):
            fix = "make it a string."
            where = f"{field}.text"
            raise (reading or Reading(index)).type_error("the text of a block", text, where, fix)
        return ContentPart("text", text or "", block)
    known = _KINDS.get(kind, "other")
    return ContentPart(known, None, block, *(image_size(block) if known == "image" else ()))


def write_part(part: ContentPart, new: Mapping[str, Any] = _TEXT_BLOCK) -> Any:
    """Return the block of a part: the one it was read from, patched where the text is another.

    A text that was read from no block of text becomes a block like `new`.
    """
    raw = part.raw
    if part.kind != "text" or (isinstance(raw, str) and raw == part.text):
        return raw
    if not isinstance(raw, Mapping) or raw.keys().isdisjoint(_TEXT_KEYS):
        return {**new, "text": part.text or ""}
    key = "refusal" if "text" not in raw and "refusal" in raw else "text"
    return raw if raw.get(key) == part.text else {**raw, key: part.text or ""}


def read_thinking(block: Mapping[str, Any]) -> Reasoning:
    """Read one thinking block, of Anthropic or in its spelling."""
    text = block.get("thinking", block.get("text", block.get("reasoning")))
    if isinstance(text, (list, tuple)):  # chunks of text, as some providers stream them
        chunks = (each.get("text") if isinstance(each, Mapping) else each for each in text)
        text = "".join(chunk for chunk in chunks if isinstance(chunk, str))
    encrypted = block.get("type") == "redacted_thinking" or "encrypted_content" in block
    signature = block.get("signature", block.get("data", block.get("encrypted_content")))
    return Reasoning(_text(text), _text(signature), block, encrypted)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def join_text(parts: Iterable[ContentPart]) -> str | None:
    """Return all text of the parts, or None when there is none."""
    return "\n".join([part.text for part in parts if part.kind == "text" and part.text]) or None


def update_text(entry: ConversationEntry) -> tuple[ContentPart, ...]:
    """Return the parts of an entry, with the entry's text in place of the original text blocks."""
    parts = entry.parts or ()
    if (entry.content or "") == (join_text(parts) or ""):
        return parts
    out: list[ContentPart] = []
    placed = not entry.content
    for part in parts:
        if part.kind != "text":
            out.append(part)
        elif not placed:
            out.append(ContentPart("text", entry.content, part.raw))
            placed = True
    return tuple(out) if placed else (ContentPart("text", entry.content), *out)


Slots = list[tuple[str, Any]]
"""The contents of a message in order: "reasoning", "part" or "call", each with what was read."""


def entry_fields(slots: Slots) -> dict[str, Any]:
    """Return the fields of an entry that is made of these slots."""
    parts = tuple([item for kind, item in slots if kind == "part"])
    return {
        "content": join_text(parts),
        "parts": parts,
        "tool_calls": tuple([item for kind, item in slots if kind == "call"]) or None,
        "reasoning": tuple([item for kind, item in slots if kind == "reasoning"]) or None,
    }


def restore_order(
    entry: ConversationEntry,
    recorded: Slots,
    calls: Sequence[ToolCall],
    reasoning: Sequence[Reasoning],
) -> list[tuple[str, Any, int | None]]:
    """Put the contents of an edited entry where they stood in its message.

    Where there are as many of a kind as there were, each stands in for the one it replaces. Else
    those that are equal keep their place, and a new one takes the first place of its kind that is
    free; others follow the last of their kind. Where there were none, reasoning goes before parts,
    and parts before calls.

    Args:
        entry: the entry.
        recorded: the slots its message was read as.
        calls: its calls, as far as they stand among the blocks.
        reasoning: its reasoning, likewise.

    Returns:
        Slots, each with the index of the recorded slot whose place it has.
    """
    waiting: dict[str, list[Any]] = {
        "reasoning": list(reasoning),
        "part": list(update_text(entry)),
        "call": list(calls),
    }
    counts = {kind: sum(each == kind for each, _ in recorded) for kind in waiting}
    same = {kind for kind, items in waiting.items() if len(items) == counts[kind]}
    out: list[tuple[str, Any, int | None]] = []
    for place, (kind, item) in enumerate(recorded):
        queue = waiting[kind]
        if queue and (kind in same or queue[0] == item or _replaces(queue[0], item, recorded)):
            out.append((kind, queue.pop(0), place))
    for kind, items in waiting.items():
        if items:
            before = {kind, "reasoning"} if kind == "part" else {kind}
            ends = [n for n, (each, _, _) in enumerate(out, 1) if each in before or kind == "call"]
            end = max(ends, default=0)
            out[end:end] = [(kind, item, None) for item in items]
    return out


def _replaces(new: Any, item: Any, recorded: Slots) -> bool:
    """Whether a new item can have the place of one that went: a part of the same kind."""
    alike = isinstance(item, ContentPart) and item.kind == new.kind
    return alike and all(new != each for _, each in recorded)


_REASONING = frozenset(("thinking", "redacted_thinking", "reasoning"))
_OWN = {"tool_use", "tool_result", "server_tool_use", "mcp_tool_use", "compaction"}
_OWN |= {"container_upload", "search_result"}
"""Blocks that only Anthropic has."""
_CALL: Mapping[str, Any] = {"anthropic": {}}
"""The `extra` of a call that has nothing beside it: whose call it is."""


class TypedBlocks:
    """Reads and writes lists of blocks that name their type, as Anthropic and OpenAI have them.

    Other formats say what their blocks are, each by itself; see `BlockFormat`.
    """

    def kind_of(self, block: Any) -> Literal["call", "result", "reasoning", "part"]:
        """Return what a block is."""
        kind = type_of(block)
        if kind == "tool_use":
            return "call"
        if kind == "tool_result":
            return "result"
        return "reasoning" if kind in _REASONING else "part"

    def is_mark(self, block: Any) -> bool:
        """Return whether a block only marks a place, and stays with the block before it."""
        return False

    def split_source(self, root: ConversationEntry) -> list[tuple[bool, int, list[Any]]]:
        """Split the content of the message an entry was read from."""
        content = root.source.get("content") if isinstance(root.source, Mapping) else None
        return self.split(content, root.role) if isinstance(content, (list, tuple)) else []

    def read_call(self, block: Mapping[str, Any], reading: Reading, field: str) -> ToolCall:
        """Read a `tool_use` block."""
        block = reading.clean_value(block, field)
        extra = {key: block[key] for key in block if key not in ("type", "id", "name", "input")}
        return ToolCall(
            reading.text_of(block.get("id"), f"{field}.id", "the call id"),
            reading.text_of(block.get("name"), f"{field}.name", "the name of the tool"),
            reading.object_text(block.get("input"), f"{field}.input"),
            {"anthropic": extra} if extra else _CALL,
        )

    def read_reasoning(self, block: Mapping[str, Any], reading: Reading, field: str) -> Reasoning:
        """Read a thinking block."""
        kind = block["type"]
        key = "data" if kind == "redacted_thinking" else "thinking"
        if kind != "reasoning" and not isinstance(block.get(key), (str, list)):
            fix = "leave the block out, or pass it on as it came."
            raise reading.type_error("it", block.get(key), f"{field}.{key}", fix)
        return read_thinking(reading.clean_value(block, field))

    def read_part(self, block: Any, reading: Reading, field: str) -> ContentPart:
        """Read anything else."""
        return read_part(block, reading.index, field, reading)

    def write_call(self, call: ToolCall) -> dict[str, Any]:
        """Write a `tool_use` block."""
        return {
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": parse_object(call.arguments) or {},
            **((call.extra or {}).get("anthropic") or {}),
        }

    def write_part(self, part: ContentPart) -> Any:
        """Write anything else."""
        return write_part(part)

    def write_reasoning(self, reasoning: Reasoning) -> Any:
        """Write a thinking block, as it was read."""
        return reasoning.raw or {"type": "thinking", "thinking": reasoning.text}

    def split(self, blocks: Sequence[Any], role: MessageRole) -> list[tuple[bool, int, list[Any]]]:
        """Split the blocks of a message: every result is a group, as is what lies between results.

        Returns:
            For each group: whether it is a result, where it starts, and its blocks.
        """
        groups: list[tuple[bool, int, list[Any]]] = []
        for place, block in enumerate(blocks):
            result = role is not MessageRole.ASSISTANT and self.kind_of(block) == "result"
            if not (groups and self.is_mark(block)) and (result or not groups or groups[-1][0]):
                groups.append((result, place, [block]))
            else:
                groups[-1][2].append(block)
        return groups

    def own_blocks(self, root: ConversationEntry, last: list[Any]) -> Sequence[Any]:
        """Return the blocks an entry was read from.

        The message that was split last is held in `last`: entries of one come in a row.
        """
        if not last or last[0] is not root.source:
            last[:] = [root.source, self.split_source(root)]
        place = root.span[0] if root.span else 0
        return last[1][place][2] if place < len(last[1]) else ()

    def read_slots(
        self, blocks: Sequence[Any], reading: Reading, key: str, start: int, *, calls: bool = True
    ) -> Slots:
        """Read blocks in order; without `calls`, calls and reasoning are parts like any other."""
        slots: Slots = []
        for place, block in enumerate(blocks, start):
            kind, field = self.kind_of(block), f"{key}[{place}]"
            if kind == "call" and calls:
                slots.append(("call", self.read_call(block, reading, field)))
            elif kind == "reasoning" and calls:
                slots.append(("reasoning", self.read_reasoning(block, reading, field)))
            else:
                slots.append(("part", self.read_part(block, reading, field)))
        return slots

    def write_slots(
        self,
        entry: ConversationEntry,
        recorded: Slots,
        calls: Sequence[ToolCall],
        reasoning: Sequence[Reasoning],
    ) -> list[Any]:
        """Write an entry into the blocks it was read from."""
        write: dict[str, Callable[[Any], Any]] = {
            "part": self.write_part,
            "reasoning": self.write_reasoning,
            "call": self.write_call,
        }
        ordered = restore_order(entry, recorded, calls, reasoning)
        return [write[kind](item) for kind, item, _ in ordered]


def speaks_anthropic(message: Any) -> bool:
    """Return whether a message is of Anthropic; others have thinking among their blocks, too."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, (list, tuple)):
        return False
    has_reasoning = False
    for block in content:
        kind = type_of(block)
        if kind in _OWN or kind.endswith("_tool_result"):
            return True
        has_reasoning = has_reasoning or kind in _REASONING
    return has_reasoning and not message.get("tool_calls")


def image_size(block: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return width and height of an inline PNG, GIF or JPEG, read from its first bytes."""
    holder = block.get("image_url", block.get("source", block))
    if isinstance(holder, Mapping):
        holder = holder.get("url", holder.get("data", holder.get("base64")))
    if not isinstance(holder, str) or holder.startswith(("http:", "https:")):
        return None, None
    if holder.startswith("data:") and "," in holder:
        start = holder.index(",") + 1
        return inline_size(holder[start : start + _HEAD])
    return inline_size(holder)


_HEAD = 64 * 1024


def inline_size(data: Any) -> tuple[int | None, int | None]:
    """Return width and height of an image given as bytes, or as base64 text."""
    if not isinstance(data, (str, bytes)) or not data:
        return None, None
    head = data[:_HEAD]
    if isinstance(head, str):
        try:
            head = b64decode(head + "=" * (-len(head) % 4))
        except (Base64Error, ValueError):
            return None, None
    if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) >= 24:
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if head[:4] == b"GIF8" and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    place = 2 if head[:2] == b"\xff\xd8" else len(head)
    while place + 9 < len(head) and head[place] == 0xFF:  # the segments of a JPEG
        marker = head[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height = int.from_bytes(head[place + 5 : place + 7], "big")
            return int.from_bytes(head[place + 7 : place + 9], "big"), height
        place += 2 + int.from_bytes(head[place + 2 : place + 4], "big")
    return None, None
