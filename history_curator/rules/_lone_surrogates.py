"""Halves of characters: code points that UTF-8 cannot carry, so that no client can send them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from history_curator.entries import ConversationEntry


def has_lone_surrogates(entry: ConversationEntry) -> bool:
    """Whether a text of an entry cannot be sent: what it says, thinks or asks a tool, its author.

    A thought that is kept as a block of the provider's own is not looked at: it is sent as it
    is or not at all. Plain ASCII, which most texts are, is known by a flag and never looked into.
    """
    return (
        _is_broken(entry.content)
        or _is_broken(entry.name)
        or (entry.tool_calls is not None and any(_is_broken(c.arguments) for c in entry.tool_calls))
        or (
            entry.reasoning is not None
            and any(each.raw is None and _is_broken(each.text) for each in entry.reasoning)
        )
    )


def without_lone_surrogates(entry: ConversationEntry) -> Mapping[str, Any]:
    """Return the fields of an entry that hold text, with U+FFFD in place of each half.

    Two halves that belong together become the character they are.
    """
    calls, parts, thoughts = entry.tool_calls, entry.parts, entry.reasoning
    return {
        "content": entry.content and _whole(entry.content),
        "name": entry.name and _whole(entry.name),
        "parts": parts
        and tuple(replace(each, text=each.text and _whole(each.text)) for each in parts),
        "tool_calls": calls
        and tuple(replace(each, arguments=_whole(each.arguments)) for each in calls),
        "reasoning": thoughts
        and tuple(
            each if each.raw is not None else replace(each, text=each.text and _whole(each.text))
            for each in thoughts
        ),
    }


def _is_broken(text: str | None) -> bool:
    if text is None or text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _whole(text: str) -> str:
    if not _is_broken(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
