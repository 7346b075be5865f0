"""Views with a block that brings earlier messages back, right before the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.units import Pairing

if TYPE_CHECKING:
    from history_curator.window.build_view import View, ViewBuilder


class Block(NamedTuple):
    """A text of ours for a view, the position of the recorded entry it goes before, and the reason."""

    text: str
    before: int
    reason: str


def is_first_exchange(pairing: Pairing) -> bool:
    """Whether the request before this one was made when no tool had been called yet."""
    exchanges = (at for at, unit in enumerate(pairing.units) if unit.kind == "exchange")
    first = next(exchanges, None)
    return first is not None and first >= pairing.newest_answer


def add_block(builder: ViewBuilder, view: View, block: Block, limit: int) -> View:
    """Return a view with a block of ours, before a recorded entry or at the end, where it fits."""
    record, flat = builder.record, list(view.fitted)
    root = record.entry_at(block.before).root if block.before < len(record) else None
    place = next((at for at, entry in enumerate(flat) if entry.root is root), len(flat))
    note = ConversationEntry(
        MessageRole.USER,
        block.text,
        # That of its neighbour, so that the order holds where a provider joins the two.
        sequence=flat[min(place, len(flat) - 1)].sequence,
        pinned=True,
        origin="recollection",
        action="inserted",
        reason=block.reason,
    )
    flat.insert(place, note)
    entries = builder.profile.repair(flat, builder.tail, edited=builder.edited)
    was, now = {id(entry) for entry in view.entries}, {id(entry) for entry in entries}
    count = builder.memo.counter.count_entry
    tokens = view.tokens + sum(count(entry) for entry in entries if id(entry) not in was)
    tokens -= sum(count(entry) for entry in view.entries if id(entry) not in now)
    if tokens > limit:
        return view
    stable = min(view.stable_entries, count_common(entries, view.entries))
    return view._replace(entries=entries, fitted=flat, tokens=tokens, stable_entries=stable)


def count_common(one: Sequence[ConversationEntry], other: Sequence[ConversationEntry]) -> int:
    """Return how many leading entries two views share."""
    pairs = enumerate(zip(one, other, strict=False))
    changed = (count for count, (mine, yours) in pairs if mine is not yours)
    return next(changed, min(len(one), len(other)))
