"""Where the budget would cut a conversation, as the manager that brings parts back sees it."""

from __future__ import annotations

from typing import NamedTuple

from history_curator.errors import BudgetUnsatisfiableError
from history_curator.managers._cut import window_of as sealed_window
from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry
from history_curator.timeline import Timeline

__all__ = ["Window", "window_of"]


class Window(NamedTuple):
    """What a budget leaves of a conversation.

    Attributes:
        entries: what it shows.
        tokens: what they cost.
        cut: position of the first unit behind the cut.
        kept: positions of the units before the cut that stay.
        jumped: whether it does not go on from that of the request before.
    """

    entries: list[ConversationEntry]
    tokens: int
    cut: int
    kept: tuple[int, ...]
    jumped: bool


def window_of(
    timeline: Timeline, context: CurationContext, room: int, low_water: float | None
) -> Window | None:
    """Return what `room` tokens leave of a conversation; None when what must stay is larger."""
    try:
        sealed = sealed_window(timeline, context, room, low_water)
    except BudgetUnsatisfiableError:
        return None
    return Window(list(sealed.entries), sealed.tokens, sealed.unit, sealed.heads, sealed.jumped)
