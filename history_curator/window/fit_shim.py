"""Fit entries into a budget, for managers. Replaced by the new window when the rooms are merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from history_curator.entries import ConversationEntry
from history_curator.rules import ProviderProfile
from history_curator.timeline import Timeline
from history_curator.tokens import TokenCounter
from history_curator.window._seal import Seal


class FittedView(NamedTuple):
    """Entries that fit a budget.

    Attributes:
        entries: the view.
        cutoff: position in the given entries of the first one behind the cutoff; 0: nothing was cut.
        kept: positions before the cutoff that stay.
        compacted: whether this view does not go on from the request before.
    """

    entries: list[ConversationEntry]
    cutoff: int
    kept: tuple[int, ...]
    compacted: bool


def fit_entries(
    entries: Sequence[ConversationEntry],
    *,
    counter: TokenCounter,
    max_tokens: int,
    tail: Literal["request", "history"] = "request",
    compact_to: float | None = None,
    recap: bool = False,
    recall_tool: bool | str = False,
    preserve_last_n: int | None = None,
) -> FittedView:
    """Return what `max_tokens` leave of a conversation."""
    timeline = Timeline(entries)
    seal = Seal(
        counter,
        ProviderProfile("none", ()),
        max_tokens,
        compact_to=compact_to,
        recap=recap,
        recall_tool=recall_tool,
        preserve_last_n=preserve_last_n,
    )
    sealed = seal.fit(timeline, tail, usual=max_tokens, room=max_tokens)
    positions = {id(entry.root): position for position, entry in enumerate(entries)}
    kept = (
        positions[id(entry.root)]
        for unit_index in sealed.heads
        for entry in timeline.pairing.units[unit_index].entries
        if id(entry.root) in positions
    )
    return FittedView(sealed.entries, sealed.cut, tuple(sorted(kept)), sealed.compacted)
