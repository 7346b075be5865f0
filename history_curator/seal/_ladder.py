"""The ladder: what to lose, least first, until the view fits its budget.

1. Everything, when it fits.
2. Oversized tool results capped to head and tail.
3. Old tool results cleared to a placeholder, before the *clear line*.
4. Oldest units dropped, before the *cut line*; the first thing the user said stays.
5. The newest exchange squeezed.
6. `BudgetUnsatisfiableError`.

Both lines lie on the grid (see `_grid`), and the cut line is a function of the clear line alone,
so one jump moves both and between jumps the view only grows at its end. What is remembered
between calls only saves work: the same history gives the same view.
"""

from __future__ import annotations

from dataclasses import replace

from history_curator.errors import BudgetUnsatisfiableError
from history_curator.seal._fit import Fit
from history_curator.seal._forms import Forms
from history_curator.seal._grid import (
    CHARACTERS_PER_TOKEN,
    SMALL_BUDGET,
    cell_size,
)
from history_curator.seal._search import Search
from history_curator.structure import Timeline, flatten
from history_curator.tokens import TokenCounter

CAP_SHARES = (0.20, 0.10, 0.05)
"""One tool result may take this share of the budget before it is capped: the first of these that
makes everything fit, else the last. The newest unit, which the model is about to answer, may
always take the first."""
SMALL_CAP_SHARE = 0.02
"""The last share of a small budget, where room is dearest."""
MOST_CHARACTERS_PER_TOKEN = 12
"""No conversation has more characters a token, overhead included: a longer one is not counted."""


class Ladder:
    """Fits timelines into token budgets.

    Args:
        counter: counts the tokens.
        max_tokens: the budget the grid is laid for.
        low_water: how full the view is after a cut; None chooses by budget, 1.0 cuts just enough
            on every call.
        recall: placeholders name a handle for the recall tool.
    """

    def __init__(
        self,
        counter: TokenCounter,
        max_tokens: int,
        low_water: float | None = None,
        *,
        recall: bool = False,
    ) -> None:
        self.cell = cell_size(max_tokens, low_water)
        shares = CAP_SHARES if max_tokens > SMALL_BUDGET else (*CAP_SHARES, SMALL_CAP_SHARE)
        caps = [max(256, int(max_tokens * share) * CHARACTERS_PER_TOKEN) for share in shares]
        self.levels = [Forms(counter, cap, caps[0], recall=recall) for cap in caps]
        self.forms = self.levels[-1]
        self.recall = recall
        self.count = counter.count_entry

    def fit(self, timeline: Timeline, room: int, preserve_last_n: int | None = None) -> Fit:
        """Return the view of a timeline in at most `room` tokens.

        Raises:
            BudgetUnsatisfiableError: when what must stay does not fit.
        """
        units = timeline.pairing.units
        system = [entry for _, entry in timeline.pairing.system]
        heading = sum(map(self.count, system))
        left = room - heading
        if left >= 0:
            whole = self._full(timeline, left)
            if whole is not None:
                return Fit(flatten(units, timeline.pairing.system), heading + whole, 1)
        must = _must_keep(timeline, preserve_last_n)
        found = Search(self, timeline, left, must).run() if units and left >= 0 else None
        if found is None:
            raise self._refusal(timeline, room, must)
        tokens = heading + found.tokens
        return replace(
            found,
            entries=system + found.entries,
            tokens=tokens,
            settled=None if found.settled is None else len(system) + found.settled,
            steady=None if found.steady is None else len(system) + found.steady,
        )

    def _full(self, timeline: Timeline, left: int) -> int | None:
        """Tokens of everything, or None when it is more than what is left.

        What did not fit without its newest unit does not fit later: histories grow. A long one is
        not even counted.
        """
        pairing = timeline.pairing
        units, full = pairing.units, self.forms.full
        if not units:
            return 0
        key = (self.forms.key, left, pairing.revision)
        if timeline.memory.get("over") == key or pairing.size > left * MOST_CHARACTERS_PER_TOKEN:
            return None
        room = left
        for position in range(len(units) - 2, -1, -1):
            room -= full(units[position], room)
            if room < 0:
                timeline.memory["over"] = key
                return None
        newest = full(units[-1], room)
        return left - room + newest if newest <= room else None

    def _refusal(self, timeline: Timeline, room: int, must: set[int]) -> BudgetUnsatisfiableError:
        units = timeline.pairing.units
        irreducible = [
            (index, "system", self.count(entry)) for index, entry in timeline.pairing.system
        ]
        for position in sorted(must):
            unit = units[position]
            cost = self.forms.cleared(unit)[0]
            irreducible.append((unit.start, str(unit.head.role), cost))
        needed = sum(cost for _, _, cost in irreducible)
        return BudgetUnsatisfiableError(max(needed, room + 1), room, irreducible)


def _must_keep(timeline: Timeline, preserve_last_n: int | None) -> set[int]:
    """Positions of units that no rung may drop."""
    units = timeline.pairing.units
    must = set(timeline.pinned)
    if timeline.pairing.users:
        must.add(timeline.pairing.users[-1])
    if units and units[-1].kind != "assistant":
        must.add(len(units) - 1)
    wanted = {id(entry) for entry in timeline.entries[-preserve_last_n:]} if preserve_last_n else ()
    position = len(units)
    while wanted and position > 0:
        position -= 1
        found = {id(entry) for entry in (units[position].head, *units[position].results)} & wanted
        if found:
            must.add(position)
            wanted -= found
    return must
