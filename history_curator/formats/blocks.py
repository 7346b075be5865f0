"""Content blocks: parts in the spelling of OpenAI and Anthropic, their order, sizes of images."""

from __future__ import annotations

import logging
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    PartKind,
    Reasoning,
    ToolCall,
)
from history_curator.formats.base import Reading, as_text, type_of

_HEAD = 64 * 1024
_MAX_SIDE = 65_535
_logger = logging.getLogger(__name__)
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


def read_part(
    block: Any, index: int, field: str = "content", *, typed: bool = False
) -> ContentPart:
    """Read one content block in OpenAI's or Anthropic's spelling; frameworks leave out types."""
    reading = Reading(index)
    if isinstance(block, str) and not typed:
        return ContentPart("text", block, block)
    reading.require(block, Mapping, field)
    kind = type_of(block)
    if typed and not kind:
        fix = 'add one, such as "type": "text".'
        raise reading.error("a content block has no type.", field, fix)
    if kind in _TEXT or (not kind and isinstance(block.get("text"), str)):
        text = block.get("text", block.get("refusal")) or ""
        reading.require(text, str, f"{field}.text")
        reading.list_of(block.get("annotations"), f"{field}.annotations")
        return ContentPart("text", text, block)
    known = _KINDS.get(kind, "other")
    return ContentPart(known, None, block, *(image_size(block) if known == "image" else ()))


def write_part(part: ContentPart, new: Mapping[str, Any] = _TEXT_BLOCK) -> Any:
    """Return the block of a part: the one it was read from, patched where the text is another.

    A text that was read from no block of text becomes a block like `new`.
    """
    raw = part.raw
    if part.kind != "text" or (isinstance(raw, str) and raw == part.text):
        return raw
    if not isinstance(raw, Mapping) or raw.keys().isdisjoint(("type", "text", "refusal")):
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
    return Reasoning(as_text(text), as_text(signature), block, encrypted)


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
    and parts before calls. The index is that of the recorded slot whose place a slot has.
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


def image_size(block: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return width and height of an inline PNG, GIF or JPEG, read from its first bytes."""
    holder = block.get("image_url", block.get("source", block))
    if isinstance(holder, Mapping):
        holder = holder.get("url", holder.get("data", holder.get("base64")))
    if not isinstance(holder, str) or holder.startswith(("http:", "https:")):
        return None, None
    start = holder.find(",") + 1 if holder.startswith("data:") else 0
    return inline_size(holder[start : start + _HEAD])


def inline_size(data: Any) -> tuple[int | None, int | None]:
    """Return width and height of an image given as bytes, or as base64 text.

    Both are None where the header cannot be read: the image is sent, and its tokens are estimated.
    """
    if not isinstance(data, (str, bytes)) or not data:
        return None, None
    head = data[:_HEAD]
    try:
        size = _read_size(
            b64decode(head + "=" * (-len(head) % 4)) if isinstance(head, str) else head
        )
    except (Base64Error, ValueError):
        size = None
    if size is not None and not 0 < min(size) <= max(size) <= _MAX_SIDE:
        _logger.warning("An image has a header that cannot be read; its tokens are estimated.")
        size = None
    return size or (None, None)


def _read_size(head: bytes) -> tuple[int, int] | None:
    """Return what the header of a PNG, GIF or JPEG says; None for another kind of image."""
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if head[:4] == b"GIF8":
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head[:2] != b"\xff\xd8":
        return None
    place = 2
    while place + 9 < len(head) and head[place] == 0xFF:  # the segments of a JPEG
        marker = head[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height = int.from_bytes(head[place + 5 : place + 7], "big")
            return int.from_bytes(head[place + 7 : place + 9], "big"), height
        place += 2 + int.from_bytes(head[place + 2 : place + 4], "big")
    return 0, 0
