"""Content blocks: text, images and the rest, in OpenAI's and Anthropic's spelling."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any

from history_curator.errors import ConversionError
from history_curator.model import ContentPart
from history_curator.model._entry import PartKind

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


def read_part(block: Any, index: int, field: str = "content") -> ContentPart:
    """Read one content block.

    Raises:
        ConversionError: when the block is neither text nor a mapping with a type.
    """
    if isinstance(block, str):
        return ContentPart("text", block, block)
    if not isinstance(block, Mapping):
        raise ConversionError(
            f"a content block is a {type(block).__name__}.",
            index=index,
            field=field,
            fix='use {"type": "text", "text": …} blocks or a plain string.',
        )
    kind = block.get("type")
    if not isinstance(kind, str):
        kind = None
    if kind in _TEXT or (kind is None and isinstance(block.get("text"), str)):
        text = block.get("text", block.get("refusal"))
        if text is not None and not isinstance(text, str):
            raise ConversionError(
                f"the text of a block is a {type(text).__name__}.",
                index=index,
                field=field,
                fix="make it a string.",
            )
        return ContentPart("text", text or "", block)
    known = _KINDS.get(kind) if kind is not None else None
    if known == "image":
        width, height = image_size(block)
        return ContentPart("image", None, block, width, height)
    return ContentPart(known or "other", None, block)


def join_text(parts: tuple[ContentPart, ...]) -> str | None:
    """All text of the parts, or None when there is none."""
    texts = [part.text for part in parts if part.kind == "text" and part.text]
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else "\n".join(texts)


def image_size(block: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Width and height of an inline PNG, GIF or JPEG, read from its first bytes."""
    data = _inline_data(block)
    if not data:
        return None, None
    try:
        head = b64decode(data[: 64 * 1024 - (64 * 1024) % 4] + "=" * (-len(data[:65536]) % 4))
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
