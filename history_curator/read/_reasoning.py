"""Thinking blocks, in OpenAI's and Anthropic's spelling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from history_curator.model import Reasoning


def read_reasoning(message: Mapping[str, Any]) -> tuple[Reasoning, ...]:
    """The reasoning kept beside the content of an OpenAI-style message."""
    blocks = message.get("thinking_blocks")
    if isinstance(blocks, list) and blocks:
        return tuple(reasoning_block(block) for block in blocks if isinstance(block, Mapping))
    text = message.get("reasoning_content", message.get("reasoning"))
    return (Reasoning(text, raw=None),) if isinstance(text, str) and text else ()


def reasoning_block(block: Mapping[str, Any]) -> Reasoning:
    """One thinking block."""
    text = block.get("thinking", block.get("text", block.get("reasoning")))
    if isinstance(text, (list, tuple)):  # chunks of text, as some providers stream them
        chunks = (each.get("text") if isinstance(each, Mapping) else each for each in text)
        text = "".join(chunk for chunk in chunks if isinstance(chunk, str))
    encrypted = block.get("type") == "redacted_thinking" or "encrypted_content" in block
    signature = block.get("signature", block.get("data", block.get("encrypted_content")))
    return Reasoning(
        text if isinstance(text, str) else None,
        signature if isinstance(signature, str) else None,
        block,
        encrypted,
    )
