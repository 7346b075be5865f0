"""Handles: short names under which the recall tool returns what is no longer in the view.

A handle is a digest of what was said, so it needs no table, survives a restart, and means nothing
in a conversation that does not hold that text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

from history_curator.model import ConversationEntry

__all__ = ["RECALL_TOOL_NAME", "handle_of", "is_handle", "recall_hint", "span_handle"]

RECALL_TOOL_NAME = "recall"
"""The name both adapters give the tool, and the one placeholders mention."""

_HANDLE = re.compile(r"r[0-9a-f]{8}(?:-[1-9]\d{0,5}-r[0-9a-f]{8})?")


def handle_of(entry: ConversationEntry) -> str:
    """Return the handle of one recorded entry.

    An edited copy has the handle of the entry it was made from.

    Example:
        >>> from history_curator.model import ConversationEntry, MessageRole
        >>> entry = ConversationEntry(MessageRole.USER, "hello")
        >>> handle_of(entry) == handle_of(entry.evolve(content="h…"))
        True
    """
    root = entry.root
    digest = blake2b(root.role.value.encode(), digest_size=4)
    digest.update(b"\0" + (root.content or "").encode("utf-8", "surrogatepass"))
    if root.tool_call_id:
        digest.update(b"\1" + root.tool_call_id.encode("utf-8", "surrogatepass"))
    for call in root.tool_calls or ():
        text = f"{call.id}\2{call.name}\2{call.arguments}"
        digest.update(b"\3" + text.encode("utf-8", "surrogatepass"))
    return "r" + digest.hexdigest()


def span_handle(entries: Sequence[ConversationEntry]) -> str:
    """Return one handle for a run of recorded entries, such as the part a cut left out.

    Args:
        entries: the run, in order, exactly as recorded; at least one entry.
    """
    first = handle_of(entries[0])
    if len(entries) == 1:
        return first
    return f"{first}-{len(entries)}-{handle_of(entries[-1])}"


def is_handle(text: str) -> bool:
    """Whether a text has the shape of a handle (it may still belong to no entry)."""
    return _HANDLE.fullmatch(text) is not None


def recall_hint(handle: str) -> str:
    """Return the words a placeholder uses to say how to get the original back."""
    return f'{RECALL_TOOL_NAME}(handle="{handle}")'
