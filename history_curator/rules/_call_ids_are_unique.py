"""P7: a call id names one call, in letters the provider takes."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import sha256
from typing import ClassVar, Literal

from history_curator.formats import names_its_calls, wire_of
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

PORTABLE_ID = r"[A-Za-z0-9_-]{1,40}"
MISTRAL_ID = r"[A-Za-z0-9]{9}"
BEDROCK_ID = r"[a-zA-Z0-9_.:-]{1,64}"


class CallIdsAreUnique(Invariant):
    """No two calls share an id, and every id fits the provider's alphabet and length.

    OpenAI takes 40 characters at most; Anthropic: ``^[a-zA-Z0-9_-]+$`` and ``tool_use ids must
    be unique``, across turns too; Bedrock ``[a-zA-Z0-9_.:-]{1,64}``; Mistral ``must be a-z, A-Z,
    0-9, with a length of 9``.

    Repair: a short hash of the old id and of how often it occurred before, written on both
    sides. The same conversation gets the same ids on any machine; a valid id is left alone, and so
    is a call that has none on the wire.

    Args:
        pattern: what an id has to match in full.
        scope: where an id may occur once, in the whole conversation or in one message.
        length: characters of a new id, ``call_`` included unless `bare`.
        bare: a new id is letters and digits only.

    Examples:
        >>> from history_curator.testing import parse_entries, show
        >>> show(CallIdsAreUnique().repair(parse_entries("U A(c1) T(c1) A(c1) T(c1)")))
        "U A(c1) T(c1) A(c1') T(c1')"
    """

    code = "P7"
    about = has.CALLS | has.RESULT
    errors: ClassVar[Errors] = {
        "alphabet": {
            "openai": "string too long. Expected a string with maximum length 40",
            "anthropic": "String should match pattern '^[a-zA-Z0-9_-]+$'",
            "bedrock": "Value at 'toolUseId' failed to satisfy constraint: Member must satisfy "
            "regular expression pattern: [a-zA-Z0-9_.:-]+",
            "mistral": "Tool call id was … but must be a-z, A-Z, 0-9, with a length of 9.",
        },
        "reused": {
            "anthropic": "`tool_use` ids must be unique",
            "openai": "Duplicate value for 'tool_call_id'",
            "bedrock": "The toolUse blocks contain duplicate Ids",
            "mistral": "Duplicate tool call id in assistant message",
        },
    }

    def __init__(
        self,
        pattern: str = PORTABLE_ID,
        *,
        scope: Literal["conversation", "message"] = "conversation",
        length: int = 21,
        bare: bool = False,
    ) -> None:
        self.pattern = pattern
        self.scope = scope
        self.length = length
        self.bare = bare
        self._fits = re.compile(pattern).fullmatch

    def look_at(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        """Hold every id against the pattern."""
        odd = [
            call.id
            for call in entry.tool_calls or ()
            if not self._fits(call.id) and names_its_calls(call)
        ]
        answered = entry.tool_call_id
        if (
            entry.role is TOOL
            and answered is not None
            and not self._fits(answered)
            and wire_of(entry) != "gemini"  # its call says whether it has an id
        ):
            odd.append(answered)
        return [
            ("alphabet", f"the call id {given!r} does not match {self.pattern}") for given in odd
        ]

    def look_across(self, entries: Entries) -> list[Finding]:
        """Look for an id that was used before."""
        ids = [call.id for entry in entries if entry.tool_calls for call in entry.tool_calls]
        if len(set(ids)) == len(ids):
            return []
        found: list[Finding] = []
        seen: set[str] = set()
        by_message = self.scope == "message"
        for index, entry in enumerate(entries):
            calls = entry.tool_calls
            if calls:
                if by_message:
                    if len(calls) == 1:
                        continue
                    seen = set()
                for call in calls:
                    if not names_its_calls(call):
                        continue
                    if call.id in seen:
                        found.append((index, "reused", f"the call id {call.id!r} is used again"))
                    else:
                        seen.add(call.id)
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Rename on both sides. Expects results right behind their calls."""
        out = list(entries)
        seen: set[str] = set()
        times: dict[str, int] = {}
        for index, entry in enumerate(entries):
            calls = entry.tool_calls
            if not calls:
                continue
            if self.scope == "message":
                seen, times = set(), {}
            ids: list[str] = []
            for call in calls:
                times[call.id] = times.get(call.id, 0) + 1
                new = call.id
                if not names_its_calls(call):
                    ids.append(new)
                    continue
                if new in seen or not self._fits(new):
                    new = self._fresh(call.id, times[call.id], seen)
                seen.add(new)
                ids.append(new)
            if all(new == call.id for new, call in zip(ids, calls, strict=True)):
                continue
            out[index] = _with_call_ids(entry, tuple(ids))
            for slot, place in enumerate(results_of(entries, index)):
                if place is not None and ids[slot] != calls[slot].id:
                    out[place] = _with_result_id(entries[place], ids[slot])
        return out

    def _fresh(self, old: str, times: int, seen: set[str]) -> str:
        salt = 0
        while True:
            digest = sha256(f"{old}\0{times}\0{salt}".encode("utf-8", "surrogatepass")).hexdigest()
            new = digest[: self.length] if self.bare else f"call_{digest}"[: self.length]
            if new not in seen:
                return new
            salt += 1


def _with_call_ids(entry: ConversationEntry, ids: tuple[str, ...]) -> ConversationEntry:
    calls = tuple(
        replace(call, id=new) for call, new in zip(entry.tool_calls or (), ids, strict=True)
    )
    return remembered(
        entry,
        ("call ids", ids),
        lambda: edit(
            entry,
            tool_calls=calls,
            action=entry.action or "repaired",
            reason=entry.reason or "a call id was used before or is not one the provider takes",
        ),
    )


def _with_result_id(entry: ConversationEntry, new: str) -> ConversationEntry:
    return remembered(
        entry,
        ("result id", new),
        lambda: edit(
            entry,
            tool_call_id=new,
            action=entry.action or "repaired",
            reason=entry.reason or "renamed with its call",
        ),
    )
