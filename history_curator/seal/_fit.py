"""What the ladder comes to."""

from __future__ import annotations

from collections.abc import Sequence
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
        clear_start: position in the record of the first entry after the clear line.
        cap: characters a tool result is capped at, but for the newest unit's.
        body: the entries that stay as they are while the lines do, if it is known which.
        lead: how many entries stand before the body.
        newest: the newest unit, as it stands at the end of the entries.
        later: the form it has when it is no longer the newest.
    """

    entries: list[ConversationEntry]
    tokens: int
    rung: int
    cut: int = 0
    clear: int = 0
    start: int = 0
    clear_start: int = 0
    cap: int | None = None
    body: Body | None = None
    lead: int = 0
    newest: Sequence[ConversationEntry] = ()
    later: Sequence[ConversationEntry] = ()

    @property
    def passing(self) -> int:
        """How many entries at the end the next view may show otherwise, while the lines stay."""
        for count, (now, then) in enumerate(zip(self.newest, self.later, strict=False)):
            if now is not then and now != then:
                return len(self.newest) - count
        return 0
