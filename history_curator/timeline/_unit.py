"""`Unit`: what is kept or left out whole."""

from __future__ import annotations

from typing import Any, Literal

from history_curator.model import ConversationEntry, MessageRole, new_entry

UnitKind = Literal["user", "assistant", "exchange"]

LARGEST = 16_384
"""Characters that one entry counts for at most in the cheap size of a record."""
MISSING_RESULT = "[No result: the call was not answered, and it may have run.]"
_MISSING = {
    "origin": "placeholder",
    "action": "inserted",
    "reason": "the call has no result, and providers refuse a call without one",
}


class Unit:
    """A user entry, an answer, or an exchange. It never changes: a late result makes a new one of it.

    Attributes:
        kind: ``user``, ``assistant`` (no calls) or ``exchange``.
        head: the entry that opens the unit.
        entries: the head and its results in call order, with a placeholder for each missing one.
        waiting: the places of the calls that have no result yet.
        start: position of the head in the record.
        offset: cheap size, in characters, of everything recorded before the head.
        form: how it is shown, as its last maker made it; private to the seal.
        told: what the ledger says when it is gone; private to the seal.
        facts: what was reported on it and when it was said; private to the seal.
    """

    __slots__ = (
        "entries",
        "facts",
        "form",
        "head",
        "kind",
        "offset",
        "start",
        "told",
        "waiting",
    )

    def __init__(
        self,
        kind: UnitKind,
        head: ConversationEntry,
        start: int,
        offset: int,
        entries: tuple[ConversationEntry, ...],
    ) -> None:
        self.kind = kind
        self.head = head
        self.start = start
        self.offset = offset
        self.entries = entries
        self.waiting: tuple[int, ...] = ()
        self.form: Any = None
        self.told: Any = None
        self.facts: Any = None

    @property
    def missing(self) -> int:
        """How many calls wait for their result."""
        return len(self.waiting)

    @property
    def results(self) -> tuple[ConversationEntry | None, ...]:
        """One result or None per call of the head."""
        results: list[ConversationEntry | None] = [*self.entries[1:]]
        for slot in self.waiting:
            results[slot] = None
        return tuple(results)

    def __repr__(self) -> str:
        return f"<Unit {self.kind} at {self.start}>"


def placeholder(call_id: str, tool_name: str | None) -> ConversationEntry:
    """Return a marked result for a call that was never answered."""
    return new_entry(
        MessageRole.TOOL,
        MISSING_RESULT,
        0,
        None,
        tool_call_id=call_id,
        tool_name=tool_name,
        status="error",
        seldom=_MISSING,
    )


def weight(entry: ConversationEntry) -> int:
    """Return the cheap size of an entry in characters, capped so that no giant outweighs the rest."""
    size = len(entry.content) if entry.content else 0
    if entry.tool_calls:
        for call in entry.tool_calls:
            size += len(call.arguments) + len(call.name)
    return size + 16 if size < LARGEST else LARGEST + 16
