"""Handles: short names under which the recall tool returns what is no longer in the view.

A handle is 64 bits of a digest of what was said (128 for a run of entries), so it needs no table,
survives a restart, and means nothing in a conversation that does not hold that text. It says
nothing else: no position, no count, no name of a conversation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

from history_curator.errors import ConfigurationError
from history_curator.entries._entry import ConversationEntry

RECALL_TOOL_NAME = "recall"
"""The name of the tool, and the one placeholders mention, where no other is given."""

_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_HANDLE = re.compile(r"r[0-9a-f]{16}(?:-[0-9a-f]{16})?")


def handle_of(entry: ConversationEntry) -> str:
    """Return the handle of one recorded entry.

    An edited copy has the handle of the entry it was made from.

    Examples:
        >>> from history_curator.entries import ConversationEntry, MessageRole
        >>> entry = ConversationEntry(MessageRole.USER, "hello")
        >>> handle_of(entry) == handle_of(entry.evolve(content="h…"))
        True
    """
    root = entry.root
    digest = blake2b(root.role.value.encode(), digest_size=8)
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
    handles = [handle_of(entry) for entry in entries]
    if len(handles) == 1:
        return handles[0]
    digest = blake2b(digest_size=8)
    for handle in handles:
        digest.update(handle.encode())
    return f"{handles[0]}-{digest.hexdigest()}"


def find_handle(handle: str, handles: Sequence[str]) -> tuple[int, int] | None:
    """Return where a handle's entries start and end in a record, or None when it has none.

    Args:
        handle: as written in a placeholder.
        handles: `handle_of` every entry of the record, in order.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R
        >>> said = [E(R.USER, text) for text in "abc"]
        >>> find_handle(span_handle(said[1:]), [handle_of(entry) for entry in said])
        (1, 3)
    """
    if not is_handle(handle):
        return None
    first, _, run = handle.partition("-")
    for start, candidate in enumerate(handles):
        if candidate != first:
            continue
        if not run:
            return start, start + 1
        digest = blake2b(digest_size=8)
        for end in range(start, len(handles)):
            digest.update(handles[end].encode())
            if digest.hexdigest() == run:
                return start, end + 1
    return None


def is_handle(text: str) -> bool:
    """Whether a text has the shape of a handle (it may still belong to no entry)."""
    return _HANDLE.fullmatch(text) is not None


def recall_tool_name(recall_tool: bool | str) -> str:
    """Return what the recall tool is called, from the option ``recall_tool``.

    Raises:
        ConfigurationError: when no provider would take the name.
    """
    name = recall_tool if isinstance(recall_tool, str) else RECALL_TOOL_NAME
    if _TOOL_NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"recall_tool is {name!r}. Fix: True, False, or a name for the tool: letters, digits, _ and "
            "-, at most 64."
        )
    return name


def recall_hint(handle: str, recall_tool: bool | str = True) -> str:
    """Return the words a placeholder uses to say how to get the original back."""
    return f'{recall_tool_name(recall_tool)}(handle="{handle}")'
