"""The text of an entry as it is searched and quoted."""

from __future__ import annotations

from history_curator.model import ConversationEntry, MessageRole

__all__ = ["entry_text", "searched_text", "speaker"]


def speaker(entry: ConversationEntry) -> str:
    """Return who speaks: the given name, the tool, or the role."""
    if entry.role is MessageRole.TOOL:
        return f"result of {entry.tool_name}" if entry.tool_name else "result"
    return entry.name or entry.role.value


def entry_text(entry: ConversationEntry) -> str:
    """Return everything an entry says as text: its content, its calls, a note for media."""
    pieces = [entry.content] if entry.content else []
    pieces.extend(f"{call.name}({call.arguments})" for call in entry.tool_calls or ())
    pieces.extend(f"[{part.kind}]" for part in entry.parts or () if part.kind != "text")
    return "\n".join(pieces)


def searched_text(entry: ConversationEntry) -> str:
    """Return what the index reads: the text and the speaker's name."""
    text = entry_text(entry)
    name = entry.name or entry.tool_name
    return f"{name} {text}" if name else text
