"""`Unit`: what is kept or left out whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from history_curator.model import ConversationEntry, MessageRole, ToolCall, new_entry

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
    """A user entry, an answer, or an exchange. It never changes: a result makes a new one of it.

    Attributes:
        kind: ``user``, ``assistant`` (no calls) or ``exchange``.
        head: the entry that opens the unit.
        results: one result or None per call of the head.
        entries: the head and its results in call order, with a placeholder for each missing one.
        missing: how many calls wait for their result.
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
        "missing",
        "offset",
        "results",
        "start",
        "told",
    )

    def __init__(
        self,
        kind: UnitKind,
        head: ConversationEntry,
        start: int,
        offset: int,
        results: tuple[ConversationEntry | None, ...] = (),
        *,
        entries: tuple[ConversationEntry, ...] | None = None,
    ) -> None:
        self.kind = kind
        self.head = head
        self.start = start
        self.offset = offset
        self.results = results
        self.missing = results.count(None) if entries is None else 0
        self.entries = (head, *_filled(head, results)) if entries is None else entries
        self.form: Any = None
        self.told: Any = None
        self.facts: Any = None

    @property
    def complete(self) -> bool:
        """Whether every call has its result."""
        return not self.missing

    def answered(self, slot: int, result: ConversationEntry) -> Unit:
        """Return the unit with a result in its place; the other placeholders stay who they are."""
        results = (*self.results[:slot], result, *self.results[slot + 1 :])
        entries = (*self.entries[: slot + 1], result, *self.entries[slot + 2 :])
        unit = Unit(self.kind, self.head, self.start, self.offset, results, entries=entries)
        unit.missing = self.missing - (self.results[slot] is None)
        return unit

    def __repr__(self) -> str:
        return f"<Unit {self.kind} at {self.start}>"


def _filled(
    head: ConversationEntry, results: Sequence[ConversationEntry | None]
) -> Iterable[ConversationEntry]:
    calls: Sequence[ToolCall] = head.tool_calls or ()
    for call, result in zip(calls, results, strict=True):
        yield placeholder(call.id, call.name) if result is None else result


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
