"""`TokenBudgetManager`: the ladder as a manager, for a place in a list of managers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry
from history_curator.seal import Ladder
from history_curator.structure import Timeline


@dataclass(frozen=True)
class TokenBudgetManager:
    """Fit the entries into a token budget, losing as little as possible.

    Caps oversized tool results, then clears old ones, then drops the oldest exchanges; cuts lie
    on a grid so that the prefix of the view stays the same between jumps. The seal of a `Curator`
    with `max_tokens` does the same, so this manager is for budgets inside a pipeline.

    Args:
        max_tokens: the budget of the messages.
        low_water: how full the view is after a cut; None chooses by budget.
        recall: placeholders name the handle that the recall tool takes.

    Raises:
        BudgetUnsatisfiableError: when what must stay does not fit.

    Example:
        >>> from history_curator import Curator, TokenBudgetManager
        >>> curator = Curator(TokenBudgetManager(500))
        >>> len(curator.curate([{"role": "user", "content": "hi"}]).messages)
        1
    """

    max_tokens: int
    low_water: float | None = None
    recall: bool = False

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> Sequence[ConversationEntry]:
        """Return the entries that fit."""
        ladder = Ladder(context.counter, self.max_tokens, self.low_water, recall=self.recall)
        timeline = Timeline.of(entries)
        return ladder.fit(timeline, self.max_tokens, context.preserve_last_n).entries
