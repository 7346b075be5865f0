"""P5: user and assistant take turns."""

from __future__ import annotations

from typing import ClassVar

from history_curator.formats import wire_of
from history_curator.entries import ConversationEntry
from history_curator.rules._invariant import (
    ASSISTANT,
    TOOL,
    USER,
    Entries,
    Errors,
    Finding,
    Invariant,
    remembered,
)
from history_curator.rules._joining import join_entries


class RolesAlternate(Invariant):
    """No two user entries and no two assistant entries in a row, and no user after a result.

    Bedrock: roles ``must alternate`` (a result counts as the user); Gemini refuses a call right
    after model text; Mistral: ``Unexpected role 'user' after role 'tool'``; the templates of
    Gemma 3 and Mistral 3: ``Conversation roles must alternate``.

    Repair: runs are merged, text before a call joins the call, never the other way round; a
    marked bridge stands between a result and the user.

    Args:
        users: merge runs of user entries.
        assistants: merge runs of assistant entries.
        bridges: put a bridge between a result and a user entry. Not where both are one message of
            Bedrock Converse, whose results speak as the user.

    Examples:
        >>> from history_curator.testing import parse_entries, show
        >>> show(RolesAlternate().repair(parse_entries("U U A A(c1) T(c1) U")))
        'U A+(c1) T(c1) A* U'
    """

    code = "P5"
    errors: ClassVar[Errors] = {
        "users": {
            "bedrock": "A conversation must alternate between user and assistant roles.",
            "portable": "Conversation roles must alternate user/assistant/user/assistant/...",
        },
        "assistants": {
            "gemini": "Please ensure that function call turn comes immediately after a user turn "
            "or after a function response turn.",
            "bedrock": "A conversation must alternate between user and assistant roles.",
            "portable": "Conversation roles must alternate user/assistant/user/assistant/...",
        },
        "bridge": {
            "mistral": "Unexpected role 'user' after role 'tool'",
            "bedrock": "A conversation must alternate between user and assistant roles.",
        },
    }

    def __init__(
        self, *, users: bool = True, assistants: bool = True, bridges: bool = True
    ) -> None:
        self.users = users
        self.assistants = assistants
        self.bridges = bridges

    def look_across(self, entries: Entries) -> list[Finding]:
        """Compare each role with the one before."""
        found: list[Finding] = []
        before = None
        for index, entry in enumerate(entries):
            role = entry.role
            if role is before:
                if role is USER and self.users:
                    found.append((index, "users", "two user messages in a row"))
                elif role is ASSISTANT and self.assistants and not entries[index - 1].tool_calls:
                    found.append((index, "assistants", "two assistant messages in a row"))
            elif (
                before is TOOL and role is USER and self.bridges_between(entries[index - 1], entry)
            ):
                found.append((index, "bridge", "a user message right after a tool result"))
            before = role
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Merge runs and build bridges."""
        if not self.look_across(entries):
            return list(entries)
        out: list[ConversationEntry] = []
        run: list[ConversationEntry] = []
        for entry in entries:
            if run and self._joins(run[-1], entry):
                run.append(entry)
                continue
            _close(run, out)
            if run and self.bridges_between(run[-1], entry):
                out.append(remembered(run[-1], "bridge", bridge))
            run = [entry]
        _close(run, out)
        return out

    def bridges_between(self, last: ConversationEntry, entry: ConversationEntry) -> bool:
        """Whether a bridge stands between two entries."""
        return (
            self.bridges
            and last.role is TOOL
            and entry.role is USER
            and not _is_one_message(last, entry)
        )

    def _joins(self, last: ConversationEntry, entry: ConversationEntry) -> bool:
        if last.role is not entry.role:
            return False
        if entry.role is USER:
            return self.users
        return entry.role is ASSISTANT and self.assistants and not last.tool_calls


def bridge() -> ConversationEntry:
    """An assistant entry between a tool result and the user's next message."""
    return ConversationEntry(
        ASSISTANT,
        "[No reply before the next message.]",
        origin="bridge",
        action="inserted",
        reason="the user spoke before the assistant answered the tool result",
    )


def _is_one_message(result: ConversationEntry, entry: ConversationEntry) -> bool:
    source = result.root.source
    return source is not None and source is entry.root.source and wire_of(entry) == "bedrock"


def _close(run: list[ConversationEntry], out: list[ConversationEntry]) -> None:
    if len(run) > 1:
        run[:] = [join_entries(run, f"{len(run)} {run[0].role.value} messages in a row")]
    out.extend(run)
