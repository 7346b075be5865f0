"""Content that is more than text: blocks and attachments, told apart."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any


def text_of_blocks(blocks: list[Any]) -> tuple[str, tuple[dict[str, Any], ...]] | None:
    """Return the text of content blocks and a copy of what is not text, or None for no blocks."""
    texts: list[str] = []
    others: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, str):
            texts.append(block)
        elif not isinstance(block, Mapping) or not isinstance(block.get("type", "text"), str):
            return None
        elif isinstance(block.get("text"), str) and block.get("type", "text").endswith("text"):
            texts.append(block["text"])
        else:
            others.append(deepcopy(dict(block)))
    return "\n".join(texts), tuple(others)


def attachments_of(message: Mapping[str, Any]) -> tuple[tuple[dict[str, Any], ...], int]:
    """Return copies of a message's attachments, and how many are none."""
    given = message.get("attachments")
    if given is None:
        return (), 0
    if not isinstance(given, list):
        return (), 1
    good = [deepcopy(dict(one)) for one in given if isinstance(one, Mapping)]
    return tuple(good), len(given) - len(good)


def describe(attachment: Mapping[str, Any]) -> str:
    """Return what an attachment is, in a few words and without its content."""
    words = [str(attachment.get("type") or "attachment")]
    words += [
        str(attachment[key])
        for key in ("name", "filename", "language", "mime_type")
        if attachment.get(key)
    ]
    content = attachment.get("content")
    if isinstance(content, str):
        words.append(f"{len(content)} characters")
    return ", ".join(words)
