"""P3: the user opens the conversation."""

from __future__ import annotations

from typing import ClassVar

from history_curator.model import ConversationEntry
from history_curator.rules._invariant import SYSTEM, USER, Entries, Errors, Finding, Invariant
from history_curator.rules._synthetic import OPENING, synthetic_user


class UserSpeaksFirst(Invariant):
    """The first entry after the system entry is the user's.

    Anthropic: ``first message must use the "user" role``; Bedrock: ``A conversation must start
    with a user message``; Gemini refuses a call that follows nothing; Mistral cannot pair calls
    that stand first.

    Repair: a marked opening is prepended. A greeting by the assistant is never dropped.

    Examples:
        >>> from history_curator.testing import parse_entries, show
        >>> show(UserSpeaksFirst().repair(parse_entries("S A U")))
        'S U* A U'
    """

    code = "P3"
    errors: ClassVar[Errors] = {
        "first": {
            "anthropic": 'messages: first message must use the "user" role',
            "bedrock": "A conversation must start with a user message.",
            "gemini": "Please ensure that function call turn comes immediately after a user turn "
            "or after a function response turn.",
            "portable": "Conversation roles must alternate user/assistant/user/assistant/...",
        }
    }

    def look_across(self, entries: Entries) -> list[Finding]:
        """The first entry that is not a system entry."""
        for index, entry in enumerate(entries):
            if entry.role is not SYSTEM:
                if entry.role is USER:
                    return []
                return [(index, "first", f"the conversation starts with {entry.role.value}")]
        return []

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Put a marked opening in front."""
        found = self.look_across(entries)
        if not found:
            return list(entries)
        first = found[0][0] or 0
        opening = synthetic_user(OPENING, "the first message has to be the user's")
        return [*entries[:first], opening, *entries[first:]]
