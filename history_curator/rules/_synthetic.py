"""Entries nobody said, marked as such."""

from __future__ import annotations

from history_curator.model import ConversationEntry
from history_curator.rules._invariant import ASSISTANT, USER

CONTINUE = "Please continue."
OPENING = "[Start of the conversation.]"
BRIDGE = "[No reply before the next message.]"


def synthetic_user(text: str, reason: str) -> ConversationEntry:
    """A user entry that stands in for one a provider insists on."""
    return ConversationEntry(USER, text, origin="user", action="inserted", reason=reason)


def bridge() -> ConversationEntry:
    """An assistant entry between a tool result and the user's next message."""
    return ConversationEntry(
        ASSISTANT,
        BRIDGE,
        origin="bridge",
        action="inserted",
        reason="the user spoke before the assistant answered the tool result",
    )
