"""P1, P3 and P4: there is a question, the user opens, and the next word is the assistant's."""

from __future__ import annotations

from typing import ClassVar

from history_curator.entries import ConversationEntry
from history_curator.rules._invariant import (
    ASSISTANT,
    SYSTEM,
    USER,
    Entries,
    Errors,
    Finding,
    Invariant,
    is_blank,
)
from history_curator.rules._server_tools_stay_whole import is_running

_CONTINUE = "Please continue."
_OPENING = "[Start of the conversation.]"


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
        return [*entries, _invented(_CONTINUE, "no user message was left to answer")]


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
        opening = _invented(_OPENING, "the first message has to be the user's")
        return [*entries[:first], opening, *entries[first:]]


class RequestEndsOnUserOrTool(Invariant):
    """A request ends on a user entry or a tool result.

    Newer Anthropic models: ``The conversation must end with a user message.``; Gemini: ``ends
    with a user role or a function response``; Mistral: ``Expected last role User or Tool``. A
    history to which the caller appends may end on the assistant, and so may a request that lets
    Anthropic go on with a turn it paused.

    Repair: a neutral user entry is appended.

    Examples:
        >>> from history_curator.testing import parse_entries, show
        >>> show(RequestEndsOnUserOrTool().repair(parse_entries("U A")))
        'U A U*'
    """

    code = "P4"
    requests_only = True
    errors: ClassVar[Errors] = {
        "last": {
            "anthropic": "This model does not support assistant message prefill. "
            "The conversation must end with a user message.",
            "gemini": "Please ensure that multiturn requests ends with a user role or a function "
            "response.",
            "mistral": "Expected last role User or Tool (or Assistant with prefix True) for "
            "serving but got assistant",
        }
    }

    def look_across(self, entries: Entries) -> list[Finding]:
        """The last entry."""
        if entries and entries[-1].role is ASSISTANT and not is_running(entries[-1]):
            return [(len(entries) - 1, "last", "the request ends on the assistant")]
        return []

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Append a neutral user entry."""
        if not self.look_across(entries):
            return list(entries)
        return [*entries, _invented(_CONTINUE, "a request has to end on user or tool")]


def _invented(text: str, reason: str) -> ConversationEntry:
    """A user entry that stands in for one a provider insists on."""
    return ConversationEntry(USER, text, origin="user", action="inserted", reason=reason)
