"""P5, for OpenAI Responses: what stands side by side in the list is one answer."""

from __future__ import annotations

from typing import ClassVar

from history_curator.formats import wire_of
from history_curator.entries import ConversationEntry
from history_curator.rules import _features as has
from history_curator.rules._invariant import ASSISTANT, Entries, Errors, Finding, Invariant
from history_curator.rules._joining import join_entries


class AnswersAreWhole(Invariant):
    """Two answers in a row of OpenAI Responses are one entry, as the flat list runs them together.

    When the user's message between two answers is left out, the items of the second stand behind
    those of the first, and nothing tells them apart: the count and the rules have to see them as
    they are sent.

    Repair: they are merged.
    """

    code = "P5"
    about = has.TYPED
    errors: ClassVar[Errors] = {"side by side": {}}

    def look_across(self, entries: Entries) -> list[Finding]:
        """Look for answers in a row, then whether the list is one of items."""
        found: list[Finding] = []
        before: ConversationEntry | None = None
        for index, entry in enumerate(entries):
            if entry.role is ASSISTANT and before is not None and _stand_together(before, entry):
                found.append((index, "side by side", "two answers that the list runs together"))
            before = entry
        return found if found and any(map(_is_item, entries)) else []

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Merge."""
        if not self.look_across(entries):
            return list(entries)
        out: list[ConversationEntry] = []
        for entry in entries:
            if out and _stand_together(out[-1], entry):
                out[-1] = join_entries((out[-1], entry), "the items of two answers stood together")
            else:
                out.append(entry)
        return out


def _stand_together(first: ConversationEntry, second: ConversationEntry) -> bool:
    if second.role is not ASSISTANT or first.role is not ASSISTANT or first.tool_calls:
        return False
    if first.barrier or second.barrier:
        return False
    return _is_typed(first) or _is_typed(second)


def _is_item(entry: ConversationEntry) -> bool:
    return wire_of(entry) == "responses"


def _is_typed(entry: ConversationEntry) -> bool:
    """Whether an answer is written with items that have a type; plain messages stay apart."""
    return _is_item(entry) or (entry.root.source is None and bool(entry.tool_calls))
