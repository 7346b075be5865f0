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

from history_curator.errors import BudgetUnsatisfiableError
from history_curator.model import ConversationEntry
from history_curator.seal._fit import Fit
from history_curator.seal._forms import Forms
from history_curator.seal._grid import (
    CHARACTERS_PER_TOKEN,
    SMALL_BUDGET,
    cell_size,
)
from history_curator.seal._search import Search
from history_curator.structure import Body, Timeline, flatten
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
        heading = [entry for _, entry in timeline.pairing.system]
        spent = sum(map(self.count, heading))
        left = room - spent
        found = self._whole(timeline, left, heading) if left >= 0 else None
        if found is None:
            must = _must_keep(timeline, preserve_last_n)
            if units and left >= 0:
                found = Search(self, timeline, left, must, heading).run()
            if found is None:
                raise self._refusal(timeline, room, must)
        found.tokens += spent
        return found

    def _whole(self, timeline: Timeline, left: int, heading: list[ConversationEntry]) -> Fit | None:
        """Everything, or None when it is more than what is left.

        What did not fit without its newest unit does not fit later: histories grow. A long one is
        not even counted.
        """
        pairing, memory = timeline.pairing, timeline.memory
        units, full = pairing.units, self.forms.full
        if not units:
            return Fit(heading, 0, 1)
        last = len(units) - 1
        key = (self.forms.key, left, pairing.revision)
        if memory.get("over") == key or pairing.size > left * MOST_CHARACTERS_PER_TOKEN:
            return None
        name = (self.forms.key, pairing.revision)
        body: Body | None = memory.get("whole")
        if body is None or body.key != name or body.counted > last:
            body = None
            room = left
            for position in range(last - 1, -1, -1):
                room -= full(units[position], room)
                if room < 0:
                    break
            else:
                body = memory["whole"] = Body(name)
        while body is not None and body.counted < last and body.tokens <= left:
            unit = units[body.counted]
            body.add((full(unit, left), unit.entries))
            body.counted += 1
        if body is None or body.tokens > left:
            memory["over"] = key
            memory.pop("whole", None)
            return None
        newest = full(units[last], left - body.tokens)
        if body.tokens + newest > left:
            return None
        if pairing.system and pairing.system[-1][0] > units[0].start:
            return Fit(flatten(units, pairing.system), body.tokens + newest, 1)
        entries = [*heading, *body.entries, *units[last].entries]
        return Fit(entries, body.tokens + newest, 1, body=body, lead=len(heading))

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
