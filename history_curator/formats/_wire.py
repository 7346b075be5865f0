"""Which wire format an entry was read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from history_curator.formats._protocol import Gathered
from history_curator.formats._response_calls import answers, has_object
from history_curator.entries import ConversationEntry, MessageRole, ToolCall

__all__ = ["Wire", "answers_in_kind", "keeps_objects", "names_its_calls", "wire_of"]

Wire = Literal["chat", "anthropic", "responses", "gemini", "bedrock"]
RESPONSE_BLOCKS = frozenset(("input_text", "output_text", "input_image", "input_file"))
"""Blocks that only messages of Responses have."""
_LOOKED_AT = 16
"""Blocks of a message that tell its format: in one that has types, they all have one."""
_OBJECTS: tuple[Wire, ...] = ("anthropic", "gemini", "bedrock")


def wire_of(entry: ConversationEntry) -> Wire | None:
    """Return the format of the message an entry was read from.

    None where there is no message, where it is an object of a framework, and where the message
    would be the same in several formats.
    """
    source: Any = entry.root.source
    if source.__class__ is Gathered:  # of Responses where any item has a type
        source = next((each for each in source if "type" in each), source[0])
    if not isinstance(source, (dict, Mapping)):
        return None
    if "parts" in source:
        return "gemini"
    kind = source.get("type")
    if isinstance(kind, str) and (kind != "message" or _has_response_blocks(source)):
        return "responses"
    if entry.role is MessageRole.TOOL and entry.span is None:
        return "chat"
    content = source.get("content")
    if isinstance(content, (list, tuple)):
        first = content[:_LOOKED_AT]
        typed = ["type" in each for each in first if isinstance(each, (dict, Mapping))]
        if typed and not any(typed):
            return "bedrock"
        if typed and entry.role is MessageRole.TOOL:
            return "anthropic"
    return _wire_of_calls(entry.tool_calls or ())


def _wire_of_calls(calls: Sequence[ToolCall]) -> Wire | None:
    if not calls:
        return None
    return next((wire for wire in _OBJECTS if wire in (calls[0].extra or ())), "chat")


def _has_response_blocks(message: Mapping[str, Any]) -> bool:
    """Whether a message is an item of Responses; answers of Anthropic are of this type, too."""
    content = message.get("content")
    if not isinstance(content, (list, tuple)):
        return isinstance(content, str)
    return any(
        isinstance(each, Mapping) and str(each.get("type")) in RESPONSE_BLOCKS for each in content
    )


def keeps_objects(call: ToolCall) -> bool:
    """Whether the arguments of a call are an object on the wire, and not a text."""
    extra = call.extra
    if extra is None:
        return False
    return any(wire in extra for wire in _OBJECTS) or ("responses" in extra and has_object(call))


def names_its_calls(call: ToolCall) -> bool:
    """Whether a call has its id on the wire; Gemini tells calls apart by name and order."""
    extra = call.extra
    return extra is None or not (extra.get("gemini") or {}).get("nameless")


def answers_in_kind(call: ToolCall, result: ConversationEntry) -> bool:
    """Whether a result, written as it was read, answers a call in the format of the call.

    An edited result always does: it is written in the format of its call.
    """
    source = result.source
    if result.original is not None or not isinstance(source, Mapping):
        return True
    mine = call.extra is not None and "anthropic" in call.extra
    if result.span is not None:
        return mine or wire_of(result) != "anthropic"
    if source.get("role") in ("tool", "function"):
        return not mine
    return wire_of(result) != "responses" or answers(call, source)
