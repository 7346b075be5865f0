"""What an entry has that a rule may be about, as bits: looked up once an entry, for all rules.

ANY: every entry has it, and so has a view without entries. SYSTEM: it instructs. RESULT: it is a
tool result. BLANK: it has no text, or a blank one. CALLS: it lists calls, perhaps none. EXTRA: a
provider keeps something beside one of them. PARTS: it is made of blocks. REASONING: it carries
thoughts. SELDOM: it has what few have, such as the name of its author, keys nobody knows, or
repairs it was read with. LISTED: its message has a list of calls, whoever speaks. TYPED: its
message has a type, as the items of OpenAI Responses have. HALVES: a text of it has half a character.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_

from history_curator.formats import Gathered
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.rules._lone_surrogates import has_lone_surrogates

ANY, SYSTEM, RESULT, BLANK, CALLS, EXTRA, PARTS, REASONING, SELDOM, LISTED, TYPED, HALVES = (
    1 << place for place in range(12)
)
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
    if _has_seldom(entry):
        found |= SELDOM
    if _has(entry.source, "tool_calls"):
        found |= LISTED
    root = entry.root.source
    if root.__class__ is Gathered or _has(root, "type"):
        found |= TYPED
    return found | HALVES * has_lone_surrogates(entry)


def features_in(entries: Iterable[ConversationEntry]) -> int:
    """Return what any of these entries has."""
    return reduce(or_, map(features_of, entries), ANY)


def _has_seldom(entry: ConversationEntry) -> bool:
    return bool(
        entry.repairs
        or entry.metadata
        or entry.name
        or entry.origin
        or entry.role_name
        or entry.barrier
        or entry.span is not None
        or entry.action
        or entry.truncated
        or entry.handle
    )


def _has(source: object, key: str) -> bool:
    return (source.__class__ is dict or isinstance(source, Mapping)) and key in source
