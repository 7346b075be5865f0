"""How a message of blocks is taken apart, and how what is left of it is put together again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from history_curator.formats._parts import join_text, text_first
from history_curator.entries import ConversationEntry, ToolCall

_T = TypeVar("_T")
Known = dict[Hashable, Any]
"""What was worked out of messages while a view is written, so that each is looked at once."""


def once(known: Known, key: Hashable, make: Callable[[], _T]) -> _T:
    """Return what is known, or make it."""
    if key not in known:
        known[key] = make()
    found: _T = known[key]
    return found


Groups = list[tuple[bool, int, list[Any]]]
"""For every entry of a message: whether it is a result, where it starts, and its blocks."""


def split(
    blocks: Sequence[Any],
    is_result: Callable[[Any], bool],
    is_mark: Callable[[Any], bool] = lambda _: False,
) -> Groups:
    """Make a group of every result, with the marks behind it, and of what lies between results."""
    groups: Groups = []
    for at, block in enumerate(blocks):
        result = is_result(block)
        if not (groups and is_mark(block)) and (result or not groups or groups[-1][0]):
            groups.append((result, at, [block]))
        else:
            groups[-1][2].append(block)
    return groups


def own_group(root: ConversationEntry, known: Known, make: Callable[[], Groups]) -> Sequence[Any]:
    """Return the blocks of its message that an entry was read from."""
    groups = once(known, ("groups", id(root.source), root.role), make)
    place = (root.span or (0, 1))[0]
    return groups[place][2] if place < len(groups) else ()


Slots = list[tuple[str, Any]]
"""What a message is made of, in order: thoughts, parts and calls, each with its kind."""


def said(found: Slots) -> dict[str, Any]:
    """Return the fields of an entry that is made of this."""
    parts = tuple(item for kind, item in found if kind == "part")
    return {
        "content": join_text(parts),
        "parts": parts,
        "tool_calls": tuple(item for kind, item in found if kind == "call") or None,
        "reasoning": tuple(item for kind, item in found if kind == "thought") or None,
    }


def is_as_read(entry: ConversationEntry) -> bool:
    """Return whether an entry still says what it said when it was read, without a repair."""
    root = entry.root
    return entry.content == root.content and entry.parts == root.parts and root.repairs is None


def arranged(
    entry: ConversationEntry, calls: Sequence[ToolCall], known: Known, read: Callable[[], Slots]
) -> Slots:
    """Put what an entry is made of where it stood in its message.

    Where there are as many thoughts, parts or calls as there were, each stands in for the one it
    replaces; else those that are equal keep their place. What has no place is put at the end of
    its kind, thoughts before parts, and those before calls.

    Args:
        entry: what is written.
        calls: its calls, as far as they stand among the rest.
        known: what was worked out before.
        read: returns what the message was made of.
    """
    recorded = once(known, ("slots", id(entry.root)), read)
    waiting: dict[str, list[Any]] = {
        "thought": list(entry.reasoning or ()),
        "part": list(text_first(entry)),
        "call": list(calls),
    }
    same = {
        kind: len(items) == sum(1 for each, _ in recorded if each == kind)
        for kind, items in waiting.items()
    }
    out: Slots = []
    for kind, item in recorded:
        queue = waiting[kind]
        if queue and (same[kind] or queue[0] == item):
            out.append((kind, queue.pop(0)))
    order = list(waiting)
    for place, kind in enumerate(order):
        if waiting[kind]:
            behind = set(order[: place + 1])
            at = max((n for n, (each, _) in enumerate(out, 1) if each in behind), default=0)
            out[at:at] = [(kind, item) for item in waiting[kind]]
    return out
