"""Tell the formats apart that are all lists of dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from history_curator.formats._bedrock import BEDROCK_BLOCKS
from history_curator.formats._responses import RESPONSE_ITEMS
from history_curator.formats._wire import RESPONSE_BLOCKS

Format = Literal["dicts", "responses", "gemini", "bedrock"]

_DICT_BLOCKS = frozenset(
    ("text", "image_url", "input_audio", "file", "image", "document", "tool_use", "tool_result")
)
"""Blocks of Chat Completions and Anthropic; any other may be new in any format."""
_CHAT_KEYS = frozenset(("tool_calls", "tool_call_id", "function_call"))
_OTHERS = frozenset(("openai", "openai-responses", "anthropic", "mistral"))


def format_of(messages: Sequence[Any], provider: str | None = None) -> Format:
    """Return the format of a conversation, from the first message that can be of one only.

    A message with a role and a text is the same in Chat Completions, Anthropic and Responses, and
    is read the same. Where nothing else is there, texts in blocks without a type are Bedrock's,
    unless a message of the conversation is one text, which Bedrock does not take, or the provider
    is one that has another format: there they are texts that lack their type, which is reported.
    Whoever knows better says so, with the `format` of `Curator.curate` and `check_conversation`.
    """
    untyped, plain = False, provider in _OTHERS
    for message in messages:
        found = _mark(message)
        if found == "untyped":
            untyped = True
        elif found is not None:
            return found
        elif not plain and isinstance(message, Mapping):
            plain = isinstance(message.get("content"), str) and message.get("role") != "system"
    return "bedrock" if untyped and (provider == "bedrock" or not plain) else "dicts"


def _mark(message: Any) -> Format | Literal["untyped"] | None:
    if not isinstance(message, Mapping):
        return None
    role, content = message.get("role"), message.get("content")
    if content.__class__ is str:
        if not _CHAT_KEYS.isdisjoint(message) or role in ("tool", "function"):
            return "dicts"
        return "responses" if role is not None and message.get("type") == "message" else None
    if not _CHAT_KEYS.isdisjoint(message) and "type" not in message:
        return "dicts"
    if content is None:
        if isinstance(message.get("parts"), (list, tuple)):
            return "gemini"
        kind = message.get("type")
        if role is None and isinstance(kind, str):
            return "responses"
        return "responses" if isinstance(kind, str) and kind in RESPONSE_ITEMS else None
    if not isinstance(content, (list, tuple)):
        return None
    found = _mark_of_blocks(content)
    if message.get("type") == "message" and found in (None, "untyped", "refused"):
        # Answers of Anthropic are of this type, too.
        own = found is not None or role != "assistant"
        return "responses" if own else None
    return None if found == "refused" else found


def _mark_of_blocks(blocks: Sequence[Any]) -> Format | Literal["untyped", "refused"] | None:
    """Return what the blocks of a message tell; both formats of OpenAI have refusals."""
    untyped, refused = False, False
    for block in blocks:
        if not isinstance(block, Mapping):
            continue
        kind = block.get("type")
        if kind == "refusal":
            refused = True
            continue
        if isinstance(kind, str):
            if kind in RESPONSE_BLOCKS:
                return "responses"
            if kind in _DICT_BLOCKS:
                return "dicts"
            continue
        if not BEDROCK_BLOCKS.isdisjoint(block):
            return "bedrock"
        untyped = untyped or (bool(block) and "type" not in block)
    if refused:
        return "refused"
    return "untyped" if untyped else None
