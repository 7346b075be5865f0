"""`RelevanceManager`: the budget holds what matters for the question, not only what is recent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError
from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry
from history_curator.relevance import latest_question, query_at, rank, rank_identifiers
from history_curator.relevance import resolve_scorer, spread, take
from history_curator.relevance._compose import (
    RECOLLECTION_HEAD,
    RECOLLECTION_TAIL,
    identifier_note,
    quote,
    recollection,
)
from history_curator.relevance._memory import Memories, Memory
from history_curator.relevance._select import NEIGHBOURS
from history_curator.relevance._text import numpy
from history_curator.seal import Fit, Ladder
from history_curator.structure import Unit
from history_curator.tokens import TokenCounter

__all__ = ["RelevanceManager"]

CHAT_SHARE = 0.65
AGENT_SHARE = 0.15
_SLACK = 24


class RelevanceManager:
    """Keeps a recent window and gives the rest of the budget to earlier parts that matter.

    Guaranteed: nothing happens while the history fits; the window is cut on the grid, so it stays
    put while the history grows; earlier units come back whole and word for word; what is selected
    depends on the history alone. With ``recollection`` they come back as one marked user entry
    right before the latest user entry, so that everything before it is repeated byte for byte on
    the next call, and the block stays the same while an agent works on that question.

    Not guaranteed: that the right parts are found. The lexical scorer matches words.

    Args:
        share: of the budget, for earlier parts. None: 0.65 in a plain conversation, 0.15 once
            tools are used, where the latest results matter most.
        scorer: ``"lexical"``, ``"embeddings"``, ``"hybrid"``, an embedding model (LangChain
            ``Embeddings``, LlamaIndex ``BaseEmbedding``) or a `Scorer`.
        embeddings: the embedding model for ``"embeddings"`` and ``"hybrid"``.
        placement: ``"recollection"`` (one block) or ``"in_order"`` (units at their own places,
            which changes the prefix with every question).
        neighbours: how far a hit lends its score to what was said around it.
        identifiers: of the budget, for a list of paths, ids and arguments of tool calls that are
            no longer shown; at the cut, where it is stable. 0 leaves it out.
        low_water: cut depth of the window, as for `Curator`.

    Example:
        >>> from history_curator.model import ConversationEntry as E, MessageRole as R
        >>> from history_curator.tokens import get_counter
        >>> said = [E(R.USER, "my dog is called Rex"), E(R.ASSISTANT, "a fine name")]
        >>> said += [E(R.USER, "and now the weather " * 20), E(R.ASSISTANT, "rain " * 30)] * 5
        >>> said += [E(R.USER, "what is my dog called?")]
        >>> context = CurationContext(get_counter("heuristic"), max_tokens=400)
        >>> view = RelevanceManager().curate(said, context=context)
        >>> any("Rex" in entry.content for entry in view)
        True
    """

    def __init__(
        self,
        share: float | None = None,
        *,
        scorer: Any = "lexical",
        embeddings: Any = None,
        placement: Literal["recollection", "in_order"] = "recollection",
        neighbours: int = 3,
        identifiers: float = 0.1,
        low_water: float | None = None,
    ) -> None:
        if share is not None and not 0.0 <= share <= 0.9:
            raise ConfigurationError(f"share must be between 0 and 0.9, got {share}.")
        if not 0.0 <= identifiers <= 0.5:
            raise ConfigurationError(f"identifiers must be between 0 and 0.5, got {identifiers}.")
        if placement not in ("recollection", "in_order"):
            raise ConfigurationError(
                f"placement={placement!r} is unknown. Fix: 'recollection' or 'in_order'."
            )
        if not 0 <= neighbours <= len(NEIGHBOURS):
            raise ConfigurationError(
                f"neighbours must be between 0 and {len(NEIGHBOURS)}, got {neighbours}."
            )
        self.share = share
        self.scorer = resolve_scorer(scorer, embeddings)
        self.placement = placement
        self.neighbours = neighbours
        self.identifiers = identifiers
        self.low_water = low_water
        self._memories = Memories(self.scorer)

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> Sequence[ConversationEntry]:
        """Return the window with earlier parts that matter, or the entries when they fit."""
        room = context.max_tokens
        if room is None or not entries:
            return entries
        memory = self._memories.open(entries)
        with memory.lock:
            ladder = _ladder(context.counter, room, self.low_water)
            if _fits(memory, ladder, context.counter, room):
                return entries
            plan = self._plan(memory, ladder, context, room)
            return entries if plan is None else self._compose(memory, plan, context)

    def _plan(
        self, memory: Memory, ladder: Ladder, context: CurationContext, room: int
    ) -> _Plan | None:
        agent = memory.tools
        share = self.share
        if share is None:
            share = AGENT_SHARE if agent else CHAT_SHARE
        block = int(room * share)
        note = int(room * self.identifiers) if agent else 0
        try:
            fit = ladder.fit(memory.timeline, room - block - note - _SLACK, context.preserve_last_n)
        except BudgetUnsatisfiableError:
            return None
        asked = latest_question(memory.timeline.entries)
        return _Plan(fit, asked, block, note)

    def _compose(
        self, memory: Memory, plan: _Plan, context: CurationContext
    ) -> list[ConversationEntry]:
        fit = plan.fit
        view = list(fit.entries)
        chosen = self._choose(memory, plan, context)
        if self.placement == "in_order":
            view = _in_order(memory, plan, chosen)
        units = memory.timeline.pairing.units
        front = len(memory.timeline.pairing.system)
        before = {*fit.kept, *(chosen if self.placement == "in_order" else ())}
        front += sum(len(units[position].entries) for position in before if position < fit.cut)
        note = self._note(memory, plan, context.counter)
        if note is not None:
            view.insert(front, note)
        if chosen and self.placement == "recollection" and plan.asked is not None:
            block = memory.made[("block", *plan.key)]
            asked = memory.timeline.entries[plan.asked]
            place = next(i for i, entry in enumerate(view) if entry is asked)
            view.insert(place, block)
            for position in chosen:
                for entry in units[position].entries:
                    context.explain(entry, "before the cut; quoted in the recollection")
        return view

    def _choose(self, memory: Memory, plan: _Plan, context: CurationContext) -> list[int]:
        """Return the positions of the units to bring back; a block is made along the way."""
        if plan.asked is None or not plan.block:
            return []
        key = ("chosen", *plan.key)
        if key in memory.made:
            return list(memory.made[key])
        units = memory.timeline.pairing.units
        counter = context.counter
        order = self._order(memory, plan)
        quotes: dict[int, str] = {}
        if self.placement == "recollection":

            def cost(position: int) -> int:
                unit = units[position]
                quotes[position] = quote(unit.entries, unit.start)
                return counter.count(quotes[position]) + 1

            frame = counter.count(RECOLLECTION_HEAD) + counter.count(RECOLLECTION_TAIL) + 8
            chosen, _ = take(order, cost, plan.block - frame)
            memory.keep(("block", *plan.key), recollection([quotes[p] for p in chosen]))
        else:

            def cost(position: int) -> int:
                return sum(map(counter.count_entry, units[position].entries))

            chosen, _ = take(order, cost, plan.block)
        memory.keep(key, tuple(chosen))
        return chosen

    def _order(self, memory: Memory, plan: _Plan) -> list[int]:
        """Return the units that may come back, best first."""
        np = numpy()
        fit, asked = plan.fit, plan.asked
        assert asked is not None
        entries, units = memory.timeline.entries, memory.timeline.pairing.units
        limit = max(asked, fit.start)
        scores = memory.scores(query_at(entries, asked), limit)
        starts = np.fromiter((unit.start for unit in units[: fit.clear]), dtype=np.int64)
        starts = starts[starts < limit]
        if not len(starts):
            return []
        scores = np.maximum.reduceat(scores, starts)
        scores = spread(scores, NEIGHBOURS[: self.neighbours])
        sizes = np.fromiter((_size(unit) for unit in units[: len(starts)]), dtype=np.int64)
        order = rank(scores, sizes)
        kept = set(fit.kept)
        return [
            position
            for position in order.tolist()
            if scores[position] > 0
            and position not in kept
            and (position < fit.cut or _is_cleared(units[position]))
        ]

    def _note(
        self, memory: Memory, plan: _Plan, counter: TokenCounter
    ) -> ConversationEntry | None:
        if not plan.note:
            return None
        units = memory.timeline.pairing.units
        clear = plan.fit.clear
        limit = units[clear].start if clear < len(units) else len(memory.timeline.entries)
        key = ("note", limit, plan.note, counter.name)
        if key in memory.made:
            known: ConversationEntry | None = memory.made[key]
            return known
        ranked = rank_identifiers(memory.mentions(limit))
        return memory.keep(key, identifier_note(ranked, plan.note, counter))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the window begins and how many tokens each block may take."""

    fit: Fit
    asked: int | None
    block: int
    note: int

    @property
    def key(self) -> tuple[Any, ...]:
        """Everything a selection depends on, given the history."""
        return self.asked, self.fit.start, self.fit.clear, self.fit.kept, self.block


@lru_cache(maxsize=64)
def _ladder(counter: TokenCounter, room: int, low_water: float | None) -> Ladder:
    return Ladder(counter, room, low_water)


def _fits(memory: Memory, ladder: Ladder, counter: TokenCounter, room: int) -> bool:
    pairing = memory.timeline.pairing
    left = room - sum(counter.count_entry(entry) for _, entry in pairing.system)
    for unit in reversed(pairing.units):
        if left < 0:
            break
        left -= ladder.forms.full(unit, left)
    return left >= 0


def _is_cleared(unit: Unit) -> bool:
    return unit.kind == "exchange"


def _size(unit: Unit) -> int:
    size = 0
    for entry in unit.entries:
        size += len(entry.content or "")
        for call in entry.tool_calls or ():
            size += len(call.arguments)
    return size


def _in_order(memory: Memory, plan: _Plan, chosen: Sequence[int]) -> list[ConversationEntry]:
    """The view with the chosen units at their own places, in full."""
    units = memory.timeline.pairing.units
    fit = plan.fit
    front = len(memory.timeline.pairing.system)
    rest = list(fit.entries)
    view = rest[:front]
    kept_entries = front
    placed: dict[int, list[ConversationEntry]] = {}
    for position in fit.kept:
        size = len(units[position].entries)
        placed[position] = rest[kept_entries : kept_entries + size]
        kept_entries += size
    for position in chosen:
        if position < fit.cut:
            placed[position] = list(units[position].entries)
    for position in sorted(placed):
        view.extend(placed[position])
    return view + rest[kept_entries:]
