"""Where the window would begin: what the managers that bring earlier parts back have in common."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry, MessageRole
from history_curator.seal import Fit, Ladder
from history_curator.structure import Timeline
from history_curator.tokens import TokenCounter

__all__ = ["fits", "kept_before_cut", "ladder_for", "place_of"]

_MOST = 64
_LADDERS: dict[tuple[str, int, float | None, bool], Ladder] = {}


def ladder_for(context: CurationContext, room: int, low_water: float | None = None) -> Ladder:
    """Return the ladder the seal would use for a budget, made once."""
    if low_water is None:
        low_water = getattr(context, "low_water", None)
    recall = bool(getattr(context, "recall", False))
    key = (context.counter.name, room, low_water, recall)
    ladder = _LADDERS.get(key)
    if ladder is None:
        if len(_LADDERS) >= _MOST:
            _LADDERS.clear()
        ladder = _LADDERS[key] = Ladder(context.counter, room, low_water, recall=recall)
    return ladder


def fits(timeline: Timeline, ladder: Ladder, counter: TokenCounter, room: int) -> bool:
    """Whether everything fits; counts no further than the room goes."""
    left = room - sum(counter.count_entry(entry) for _, entry in timeline.pairing.system)
    for unit in reversed(timeline.pairing.units):
        if left < 0:
            break
        left -= ladder.forms.full(unit, left)
    return left >= 0


def place_of(view: Sequence[ConversationEntry], wanted: ConversationEntry) -> int:
    """Where an entry stands in a view, in whatever form; the end when it is not there."""
    root = wanted.root
    return next((i for i, entry in enumerate(view) if entry.root is root), len(view))


def kept_before_cut(timeline: Timeline, fit: Fit) -> tuple[int, ...]:
    """Positions of the units before the cut that the ladder kept."""
    pairing = timeline.pairing
    last = place_of(fit.entries, pairing.units[fit.cut].head)
    front = fit.entries[len(pairing.system) : last]
    heads = {id(entry.root) for entry in front if entry.role is not MessageRole.TOOL}
    turn = bisect_left(pairing.users, fit.cut) - 1
    likely = {*pairing.users[:1], *timeline.pinned, *pairing.users[max(turn, 0) : turn + 1]}
    for positions in (likely, range(fit.cut)):
        found = [p for p in positions if p < fit.cut and id(pairing.units[p].head.root) in heads]
        if len(found) == len(heads):
            break
    return tuple(sorted(found))
