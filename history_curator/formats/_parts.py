"""Content blocks: text, images and the rest, in OpenAI's and Anthropic's spelling."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from typing import Any

from history_curator.formats._fields import Reading
from history_curator.entries import ContentPart, ConversationEntry
from history_curator.entries import PartKind

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
_UNTYPED = {
    name: name for name in ("text", "image_url", "input_audio", "file", "refusal", "video_url")
}
"""Fields that say what an untyped block is."""


def read_part(
    block: Any,
    index: int,
    field: str = "content",
    reading: Reading | None = None,
    untyped: Mapping[str, str] = _UNTYPED,
) -> ContentPart:
    """Read one content block.

    Where a `reading` is given, what no provider takes is repaired and noted there: bare text in a
    list, a block without a type, numbers JSON cannot carry.

    Args:
        block: the block.
        index: position of its message.
        field: where it stands.
        reading: what it is part of.
        untyped: by field, the type of a block that has none.

    Raises:
        ConversionError: when the block is neither text nor a mapping with a type.
    """
    careful = reading is not None
    if reading is None:
        reading = Reading(index)
    if isinstance(block, str):
        if careful:
            reading.repaired(f"{field}: a bare text among the blocks")
            return ContentPart("text", block, {"type": "text", "text": block})
        return ContentPart("text", block, block)
    if not isinstance(block, Mapping):
        fix = 'use {"type": "text", "text": …} blocks or a plain string.'
        raise reading.mistyped("a content block", block, field, fix)
    kind = block.get("type")
    if not isinstance(kind, str):
        kind = None
    if careful:
        block = _typed(reading.checked(block, field), field, reading, untyped)
        kind = block["type"]
        if not isinstance(block.get("annotations", ()), (list, tuple)):
            reading.repaired(f"{field}.annotations: they were no list")
            block = {**block, "annotations": []}
    if kind in _TEXT or (kind is None and isinstance(block.get("text"), str)):
        text = block.get("text", block.get("refusal"))
        if text is not None and not isinstance(text, str):
            raise reading.mistyped("the text of a block", text, field, "make it a string.")
        return ContentPart("text", text or "", block)
    known = _KINDS.get(kind) if kind is not None else None
    if known == "image":
        width, height = image_size(block)
        return ContentPart("image", None, block, width, height)
    return ContentPart(known or "other", None, block)


def _typed(
    block: Mapping[str, Any], field: str, reading: Reading, untyped: Mapping[str, str]
) -> Mapping[str, Any]:
    """A block with a type as it is spelt; the very block where nothing is wrong with it."""
    given = block.get("type")
    kind = given if isinstance(given, str) else None
    if kind is None:
        kind = next((untyped[name] for name in untyped if name in block), None)
        if kind is None:
            raise reading.error(
                "a content block has no type.", field, 'add one, such as "type": "text".'
            )
        reading.repaired(f"{field}: a block without a type")
    else:
        plain = kind.strip().lower()
        if plain != kind and (plain in _TEXT or plain in _KINDS):
            reading.repaired(f"{field}.type: it is read as {plain}")
            kind = plain
    if kind is given:
        return block
    return {"type": kind, **{key: block[key] for key in block if key != "type"}}


def write_part(part: ContentPart) -> Any:
    """A content block: as it was given, or with its new text and whatever else it held."""
    raw = part.raw
    if raw is None or (part.kind == "text" and isinstance(raw, str) and raw != part.text):
        return {"type": "text", "text": part.text or ""}
    if part.kind != "text" or isinstance(raw, str):
        return raw
    key = "refusal" if "text" not in raw and "refusal" in raw else "text"
    return raw if raw.get(key) == part.text else {**raw, key: part.text or ""}


def join_text(parts: Iterable[ContentPart]) -> str | None:
    """All text of the parts, or None when there is none."""
    texts = [part.text for part in parts if part.kind == "text" and part.text]
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else "\n".join(texts)


def text_first(entry: ConversationEntry) -> tuple[ContentPart, ...]:
    """The parts of an entry, with the entry's text in place of the original text blocks."""
    parts = entry.parts or ()
    if (entry.content or "") == (join_text(parts) or ""):
        return parts
    out: list[ContentPart] = []
    placed = False
    for part in parts:
        if part.kind != "text":
            out.append(part)
        elif not placed and entry.content:
            out.append(ContentPart("text", entry.content, part.raw))
            placed = True
    if not placed and entry.content:
        out.insert(0, ContentPart("text", entry.content))
    return tuple(out)


def image_size(block: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Width and height of an inline PNG, GIF or JPEG, read from its first bytes."""
    return inline_size(_inline_data(block))


def inline_size(data: str | bytes | None) -> tuple[int | None, int | None]:
    """The same of bytes, or of base64 text."""
    if not data:
        return None, None
    head = data[: 64 * 1024]
    if isinstance(head, str):
        try:
            head = b64decode(head + "=" * (-len(head) % 4))
        except (Base64Error, ValueError):
            return None, None
    if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) >= 24:
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if head[:4] == b"GIF8" and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head[:2] == b"\xff\xd8":
        return _jpeg_size(head)
    return None, None


def _inline_data(block: Mapping[str, Any]) -> str | None:
    holder = block.get("image_url", block.get("source", block))
    if isinstance(holder, Mapping):
        holder = holder.get("url", holder.get("data", holder.get("base64")))
    if not isinstance(holder, str) or holder.startswith(("http:", "https:")):
        return None
    return holder.split(",", 1)[1] if holder.startswith("data:") and "," in holder else holder


def _jpeg_size(head: bytes) -> tuple[int | None, int | None]:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height = int.from_bytes(head[at + 5 : at + 7], "big")
            return int.from_bytes(head[at + 7 : at + 9], "big"), height
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None, None
