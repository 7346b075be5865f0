"""The text of an entry as it is searched and quoted."""

from __future__ import annotations

import re

from history_curator.model import ConversationEntry, MessageRole

__all__ = ["entry_text", "searched_text", "speaker"]


_A_ROLE = re.compile(
    r"(?:system|developer|user|human|assistant|ai|model|tool|result)\b", re.IGNORECASE
)
_ODD = re.compile(r"[^\w .@'’/-]")


def speaker(entry: ConversationEntry) -> str:
    """Return who speaks: the given name, the tool, or the role.

    What does not belong in a name is shown as a question mark, so that no name ends a label, and
    nobody has a role for a name.
    """
    if entry.role is MessageRole.TOOL:
        return f"result of {_ODD.sub('?', entry.tool_name[:80])}" if entry.tool_name else "result"
    name = _ODD.sub("?", (entry.name or "")[:80]).strip()
    return name if name and not _A_ROLE.match(name) else entry.role.value


def entry_text(entry: ConversationEntry) -> str:
    """Return everything an entry says as text: its content, its calls, a note for media."""
    if not entry.tool_calls and not entry.parts:
        return entry.content or ""
    pieces = [entry.content] if entry.content else []
    pieces.extend(f"{call.name}({call.arguments})" for call in entry.tool_calls or ())
    pieces.extend(f"[{part.kind}]" for part in entry.parts or () if part.kind != "text")
    return "\n".join(pieces)


def searched_text(entry: ConversationEntry) -> str:
    """Return what the index reads: the text and the speaker's name."""
    text = entry_text(entry)
    name = entry.name or entry.tool_name
    return f"{name} {text}" if name else text
