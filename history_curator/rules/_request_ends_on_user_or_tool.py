"""P4: a request leaves the next word to the assistant."""

from __future__ import annotations

from typing import ClassVar

from history_curator.model import ConversationEntry
from history_curator.rules._invariant import ASSISTANT, Entries, Errors, Finding, Invariant
from history_curator.rules._server_tools_stay_whole import is_running
from history_curator.rules._synthetic import CONTINUE, synthetic_user


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
        return [*entries, synthetic_user(CONTINUE, "a request has to end on user or tool")]
