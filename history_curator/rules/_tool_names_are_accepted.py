"""P8: names are identifiers, the same on both sides."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar

from history_curator.entries import ConversationEntry
from history_curator.rules import _features as has
from history_curator.rules._exchanges import results_of
from history_curator.rules._invariant import (
    TOOL,
    Entries,
    Errors,
    Finding,
    Invariant,
    edit,
    remembered,
)

PORTABLE_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
PLAIN_NAME = r"[A-Za-z0-9_-]{1,64}"
LONG_NAME = r"[A-Za-z0-9_-]{1,128}"
GEMINI_NAME = r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"
_AUTHOR = re.compile(r"[^\s<|\\/>]{1,64}").fullmatch
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_ODD_AUTHOR = re.compile(r"[\s<|\\/>]+")


class ToolNamesAreAccepted(Invariant):
    """Tool names match the provider's pattern, and a result carries the name of its call.

    OpenAI, Bedrock and Mistral take ``[a-zA-Z0-9_-]{1,64}``; Gemini wants a letter or an
    underscore first; OpenAI also refuses white space in the author's ``name``.

    Repair: odd characters become underscores, on both sides; a result's name follows its call.

    Args:
        pattern: what a tool name has to match in full.
        authors: whether the author's name is checked, too.

    Examples:
        >>> from history_curator.entries import ConversationEntry, MessageRole, ToolCall
        >>> asked = ConversationEntry(MessageRole.ASSISTANT, tool_calls=(ToolCall("c1", "a b"),))
        >>> ToolNamesAreAccepted().repair([asked])[0].tool_calls[0].name
        'a_b'
    """

    code = "P8"
    within = True
    about = has.CALLS | has.RESULT | has.SELDOM
    errors: ClassVar[Errors] = {
        "name": {
            "openai": "Invalid 'messages[].tool_calls[].function.name': string does not match "
            "pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            "anthropic": "tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
            "bedrock": "Value at 'toolUse.name' failed to satisfy constraint: [a-zA-Z0-9_-]+",
            "mistral": "Function name was … but must be a-z, A-Z, 0-9, or contain underscores and "
            "dashes, with a maximum length of 64.",
        },
        "author": {
            "openai": "Invalid 'messages[].name': string does not match pattern. Expected a "
            "string that matches the pattern '^[^\\s<|\\\\/>]+$'.",
        },
        "mismatch": {},
    }

    def __init__(self, pattern: str = PORTABLE_NAME, *, authors: bool = False) -> None:
        self.pattern = pattern
        self.authors = authors
        self._fits = re.compile(pattern).fullmatch

    def look_at(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        """Hold every name against the pattern."""
        found = []
        if entry.tool_calls:
            found = [
                ("name", f"the tool name {call.name!r} does not match {self.pattern}")
                for call in entry.tool_calls
                if not self._fits(call.name)
            ]
        name = entry.tool_name
        if name is not None and entry.role is TOOL and not self._fits(name):
            found.append(("name", f"the tool name {name!r} does not match {self.pattern}"))
        if self.authors and entry.name is not None and not _AUTHOR(entry.name):
            found.append(("author", f"the name {entry.name!r} is empty, long or has a space"))
        return found

    def look_across(self, entries: Entries) -> list[Finding]:
        """Compare each result's name with its call's."""
        found: list[Finding] = []
        names: dict[str, str] = {}
        for index, entry in enumerate(entries):
            if entry.tool_calls:
                names = {call.id: call.name for call in entry.tool_calls}
            elif entry.role is TOOL and entry.tool_name is not None:
                name = names.get(entry.tool_call_id or "")
                if name is not None and name != entry.tool_name:
                    message = f"the result is named {entry.tool_name!r}, its call {name!r}"
                    found.append((index, "mismatch", message))
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Sanitise, and let results follow their calls."""
        out = [self._repaired(entry) if self.look_at(entry) else entry for entry in entries]
        for index, entry in enumerate(out):
            if entry.tool_calls:
                # Of calls that share an id, the last gives the name, as in the check.
                names = {call.id: call.name for call in entry.tool_calls}
                for place in results_of(out, index):
                    if place is not None and out[place].tool_name is not None:
                        out[place] = _named(out[place], names[out[place].tool_call_id or ""])
        return out

    def _repaired(self, entry: ConversationEntry) -> ConversationEntry:
        def make() -> ConversationEntry:
            calls = entry.tool_calls
            name = entry.name
            if self.authors and name is not None and not _AUTHOR(name):
                name = _ODD_AUTHOR.sub("_", name)[:64] or None
            return edit(
                entry,
                tool_calls=calls and tuple(replace(c, name=self._sanitised(c.name)) for c in calls),
                tool_name=entry.tool_name
                if entry.tool_name is None
                else self._sanitised(entry.tool_name),
                name=name,
                action=entry.action or "repaired",
                reason=entry.reason or "a name had characters the provider refuses",
            )

        return remembered(entry, ("names", self.pattern, self.authors), make)

    def _sanitised(self, name: str) -> str:
        if self._fits(name):
            return name
        plain = _ODD.sub("_", name) or "unknown_tool"
        for candidate in (plain, plain[:64], f"_{plain}"[:64]):
            if self._fits(candidate):
                return candidate
        return "unknown_tool"


def _named(entry: ConversationEntry, name: str) -> ConversationEntry:
    if entry.tool_name == name:
        return entry
    return remembered(
        entry,
        ("named", name),
        lambda: edit(
            entry,
            tool_name=name,
            action=entry.action or "repaired",
            reason=entry.reason or "a result carries the name of its call",
        ),
    )
