"""P1: there is a question to answer."""

from __future__ import annotations

from typing import ClassVar

from history_curator.model import ConversationEntry
from history_curator.rules._invariant import (
    USER,
    Entries,
    Errors,
    Finding,
    Invariant,
    is_blank,
)
from history_curator.rules._synthetic import CONTINUE, synthetic_user


class SomeUserSpeaks(Invariant):
    """At least one user entry says something.

    Every provider refuses an empty list; Anthropic and Bedrock refuse a request without a user
    message, and Qwen's template stops with ``No user query found in messages.``

    Repair: a neutral user entry at the end. Windows never get here, the seal keeps the latest
    user message.

    Examples:
        >>> SomeUserSpeaks().find([])[0].message
        'no user message says anything'
    """

    code = "P1"
    requests_only = True
    errors: ClassVar[Errors] = {
        "silence": {
            "openai": "Invalid 'messages': empty array",
            "anthropic": "messages: at least one message is required",
            "mistral": "Conversation must have at least one message",
            "portable": "No user query found in messages.",
        }
    }

    def look_across(self, entries: Entries) -> list[Finding]:
        """Look for one user entry with text or media, newest first."""
        for entry in reversed(entries):
            if entry.role is USER and (not is_blank(entry.content) or entry.has_media):
                return []
        return [(None, "silence", "no user message says anything")]

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Append a neutral user entry."""
        if not self.look_across(entries):
            return list(entries)
        return [*entries, synthetic_user(CONTINUE, "no user message was left to answer")]
