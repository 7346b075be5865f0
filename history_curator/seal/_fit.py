"""What the ladder comes to."""

from __future__ import annotations

from dataclasses import dataclass

from history_curator.model import ConversationEntry


@dataclass(frozen=True, slots=True)
class Fit:
    """The outcome of the ladder.

    Attributes:
        entries: the view, before the provider's profile has seen it.
        tokens: what they cost.
        rung: how far down the ladder it went, 1 to 5.
        cut: position of the first unit after the cut line.
        clear: position of the first unit in full.
        start: position in the record of the first entry after the cut line.
        settled: how many leading entries stay as they are while the lines do; None when unknown.
        steady: how many leading entries the next view repeats while the lines stay; None for all.
        clear_start: position in the record of the first entry after the clear line.
        cap: characters a tool result is capped at, but for the newest unit's.
        lines: names the lines; views with the same name have the same settled entries.
    """

    entries: list[ConversationEntry]
    tokens: int
    rung: int
    cut: int = 0
    clear: int = 0
    start: int = 0
    settled: int | None = None
    steady: int | None = None
    clear_start: int = 0
    cap: int | None = None
    lines: object = None
