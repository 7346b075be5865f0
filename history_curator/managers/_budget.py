"""`TokenBudgetManager`: the budget as a manager, for a place in a list of managers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from history_curator.managers._cut import seal_for
from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry


@dataclass(frozen=True)
class TokenBudgetManager:
    """Fit the entries into a token budget.

    Oversized tool results are capped, and the oldest exchanges are dropped and told in a ledger;
    between jumps of the cut the view only grows at its end. The seal of a `Curator` with
    `max_tokens` does the same, so this manager is for budgets inside a pipeline.

    Args:
        max_tokens: the budget of the messages.
        low_water: how full a jump of the cut leaves the view; None is 0.7.
        ledger: whether a marked entry tells what was said and done before the cut.
        recall: placeholders name the handle that the recall tool takes; a text is its name.

    Raises:
        BudgetUnsatisfiableError: when what must stay does not fit.

    Examples:
        >>> from history_curator import Curator, TokenBudgetManager
        >>> curator = Curator(TokenBudgetManager(500))
        >>> len(curator.curate([{"role": "user", "content": "hi"}]).messages)
        1
    """

    max_tokens: int
    low_water: float | None = None
    recall: bool | str = False
    ledger: bool = True

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> Sequence[ConversationEntry]:
        """Return the entries that fit."""
        seal = seal_for(
            context.counter,
            self.max_tokens,
            low_water=self.low_water,
            ledger=self.ledger,
            recall=self.recall,
            preserve_last_n=context.preserve_last_n,
        )
        room = self.max_tokens
        timeline = context.timeline_of(entries)
        return seal.fit(timeline, context.tail, usual=room, room=room).entries
