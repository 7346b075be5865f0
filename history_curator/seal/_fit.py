"""What the ladder comes to."""

from __future__ import annotations

from dataclasses import dataclass

from history_curator.model import ConversationEntry
from history_curator.structure import Body


@dataclass(slots=True)
class Fit:
    """The outcome of the ladder.

    Attributes:
        entries: the view, before the provider's profile has seen it.
        tokens: what they cost.
        rung: how far down the ladder it went, 1 to 5.
        cut: position of the first unit after the cut line.
        clear: position of the first unit in full.
        start: position in the record of the first entry after the cut line.
        steady: how many leading entries the next view repeats while the lines stay; None for all.
        clear_start: position in the record of the first entry after the clear line.
        cap: characters a tool result is capped at, but for the newest unit's.
        body: the entries that stay as they are while the lines do, if it is known which.
        lead: how many entries stand before the body.
    """

    entries: list[ConversationEntry]
    tokens: int
    rung: int
    cut: int = 0
    clear: int = 0
    start: int = 0
    steady: int | None = None
    clear_start: int = 0
    cap: int | None = None
    body: Body | None = None
    lead: int = 0
