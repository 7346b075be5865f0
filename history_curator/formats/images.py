"""Sizes of images, which decide on their tokens, read from the first bytes."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any

_HEAD = 64 * 1024
_MAX_SIDE = 65_535
Size = tuple[int | None, int | None]
"""Width and height; None where they are not known: the tokens of the image are estimated."""


def image_size(block: Mapping[str, Any]) -> Size:
    """Return the size of an inline PNG, GIF or JPEG, read from its first bytes."""
    holder = block.get("image_url", block.get("source", block))
    if isinstance(holder, Mapping):
        holder = holder.get("url", holder.get("data", holder.get("base64")))
    if not isinstance(holder, str) or holder.startswith(("http:", "https:")):
        return None, None
    start = holder.find(",") + 1 if holder.startswith("data:") else 0
    return inline_size(holder[start : start + _HEAD])


def inline_size(data: Any) -> Size:
    """Return the size of an image given as bytes, or as base64 text."""
    if not isinstance(data, (str, bytes)) or not data:
        return None, None
    head = data[:_HEAD]
    try:
        size = _read_size(b64decode(head + "==") if isinstance(head, str) else head)
    except (Base64Error, ValueError):
        return None, None
    is_size = size is not None and 0 < min(size) <= max(size) <= _MAX_SIDE
    return size if size is not None and is_size else (None, None)


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
        if 0xC0 <= head[place + 1] <= 0xCF and head[place + 1] not in (0xC4, 0xC8, 0xCC):
            height = int.from_bytes(head[place + 5 : place + 7], "big")
            return int.from_bytes(head[place + 7 : place + 9], "big"), height
        place += 2 + int.from_bytes(head[place + 2 : place + 4], "big")
    return 0, 0
