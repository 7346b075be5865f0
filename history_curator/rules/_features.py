"""What an entry has that a rule may be about, as bits: looked up once an entry, for all rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_

from history_curator.dialects import Gathered
from history_curator.model import ConversationEntry, MessageRole

ANY = 1
"""Every entry has it, and so has a view without entries."""
SYSTEM = 2
"""It instructs."""
CALLS = 4
"""It lists calls, perhaps none."""
EXTRA = 8
"""A provider keeps something beside one of its calls."""
RESULT = 16
"""It is a tool result."""
REASONING = 32
"""It carries thoughts."""
PARTS = 64
"""It is made of blocks."""
BLANK = 128
"""It has no text, or a blank one."""
SELDOM = 256
"""It has what few have: the name of its author, keys nobody knows, or it was read with repairs."""
LISTED = 512
"""Its message has a list of calls, whoever speaks."""
TYPED = 1024
"""Its message has a type, as the items of OpenAI Responses have."""
EVERYTHING = -1

_SYSTEM, _TOOL = MessageRole.SYSTEM, MessageRole.TOOL


def features_of(entry: ConversationEntry) -> int:
    """Return what an entry has."""
    found, text, calls = ANY, entry.content, entry.tool_calls
    if entry.role is _TOOL:
        found |= RESULT
    elif entry.role is _SYSTEM:
        found |= SYSTEM
    if not text or text.isspace():
        found |= BLANK
    if calls is not None:
        found |= CALLS
        for call in calls:
            if call.extra is not None:
                found |= EXTRA
                break
    if entry.parts is not None:
        found |= PARTS
    if entry.reasoning is not None:
        found |= REASONING
    if entry.seldom is not None:
        found |= SELDOM
    if _has(entry.source, "tool_calls"):
        found |= LISTED
    root = entry.root.source
    if root.__class__ is Gathered or _has(root, "type"):
        found |= TYPED
    return found


def features_in(entries: Iterable[ConversationEntry]) -> int:
    """Return what any of these entries has."""
    return reduce(or_, map(features_of, entries), ANY)


def _has(source: object, key: str) -> bool:
    return (source.__class__ is dict or isinstance(source, Mapping)) and key in source
