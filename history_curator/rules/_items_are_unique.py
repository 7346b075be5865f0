"""P7, for OpenAI Responses: no item is in the list twice."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from history_curator.formats import ANONYMOUS, item_ids
from history_curator.entries import ConversationEntry
from history_curator.rules import _features as has
from history_curator.rules._invariant import (
    ASSISTANT,
    Entries,
    Errors,
    Finding,
    Invariant,
    edit,
    remembered,
)


class ItemsAreUnique(Invariant):
    """Every id of an item stands once in the list.

    OpenAI: ``Duplicate item found with id rs_1``. A log that was put together of pieces, or an
    output that was added to a list that had it already, has the same items twice.

    Repair: the later answer is written without its ids and its reasoning, which is bound to them;
    what the provider did by itself, and what the earlier answer shows already, is left out.
    """

    code = "P7"
    about = has.TYPED
    errors: ClassVar[Errors] = {
        "repeated": dict.fromkeys(
            ("openai-responses", "core"),
            "Duplicate item found with id. Remove duplicate items from your input.",
        )
    }

    def look_across(self, entries: Entries) -> list[Finding]:
        """Look for ids that an earlier answer has."""
        found: list[Finding] = []
        seen: set[str] = set()
        for index, entry in enumerate(entries):
            if entry.role is not ASSISTANT:
                continue
            ids = item_ids(entry)
            repeated = seen.intersection(ids)
            if repeated or len(set(ids)) < len(ids):
                found.append((index, "repeated", "an item that is in the list already"))
            seen.update(ids)
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Take the ids off."""
        out = list(entries)
        for index, _, _ in self.look_across(entries):
            if index is not None:
                out[index] = remembered(out[index], "anonymous", partial(_anonymous, out[index]))
        return out


def _anonymous(entry: ConversationEntry) -> ConversationEntry:
    parts = entry.parts and tuple(part for part in entry.parts if part.kind != "other")
    return edit(
        entry,
        reasoning=None,
        parts=parts or None,
        metadata={**(entry.metadata or {}), ANONYMOUS: True},
        action=entry.action or "repaired",
        reason="items that are in the list already: written without their ids",
    )
