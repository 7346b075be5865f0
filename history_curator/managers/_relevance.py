"""`RelevanceManager`: the budget holds what matters for the question, not only what is recent."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError
from history_curator.managers._cut import fits, kept_before_cut, ladder_for, place_of
from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry, MessageRole
from history_curator.relevance import (
    query_at,
    rank,
    rank_identifiers,
    resolve_scorer,
    spread,
    take,
)
from history_curator.relevance._compose import (
    RECOLLECTION_HEAD,
    RECOLLECTION_TAIL,
    identifier_note,
    quote,
    quote_cost,
    recollection,
)
from history_curator.relevance._memory import Memories, Memory
from history_curator.relevance._scorers import Query
from history_curator.relevance._select import NEIGHBOURS
from history_curator.relevance._text import numpy
from history_curator.seal import Fit
from history_curator.structure import Unit
from history_curator.tokens import TokenCounter

__all__ = ["RelevanceManager"]

logger = logging.getLogger("history_curator")

CHAT_SHARE = 0.6
AGENT_SHARE = 0.1
WIDER = 1.75
"""With tools the grid is laid wider than the budget, by this times the share of the blocks, so
that a window that is smaller by the blocks does not jump more often than one without them."""
MOST_QUOTED = 2_000
"""Tokens that quotes take at most once tools are used, unless a share is given."""
BLOCKS = 3
SMALLEST = 64
MOST_IDENTIFIERS = 1_000
_SLACK = 24


class RelevanceManager:
    """Keeps a recent window and gives the rest of the budget to earlier parts that matter.

    Guaranteed: nothing happens while the history fits; the window is cut on the grid, so it stays
    put while the history grows; earlier units come back whole and word for word; what is selected
    depends on the history alone. With ``recollection`` they come back as one marked user entry
    right before the latest user entry, so that everything before it is repeated byte for byte on
    the next call, and the block stays the same while an agent works on that question.

    A question that is not among the entries yet (``Curator.curate(…, query=…)``) finds its parts
    too: its block ends the view, where the question follows. With ``tail="history"`` and no such
    question nothing is brought back for one that is answered. When a scorer fails, the lexical one
    takes its place and the report carries a warning.

    Not guaranteed: that the right parts are found. The lexical scorer matches words.

    Args:
        share: of the budget, for earlier parts. None: 0.6 in a plain conversation; once
            tools are used 0.1, at most 2,000 tokens, as the latest results matter most then.
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
            ladder = ladder_for(context, room, self.low_water)
            if fits(memory.timeline, ladder, context.counter, room):
                return entries
            plan = self._plan(memory, context, room)
            return entries if plan is None else self._compose(memory, plan, context)

    def _plan(self, memory: Memory, context: CurationContext, room: int) -> _Plan | None:
        tools = memory.tools
        note = min(int(room * self.identifiers), MOST_IDENTIFIERS) if tools else 0
        if self.share is not None:
            blocks = int(room * self.share)
        elif tools:
            blocks = min(int(room * AGENT_SHARE), MOST_QUOTED)
        else:
            blocks = int(room * CHAT_SHARE)
        grid = room + int((blocks + note) * WIDER)
        for part in (1, 2, 4):
            window = room - (blocks + note) // part - _SLACK
            ladder = ladder_for(context, grid if tools else window, self.low_water)
            try:
                fit = ladder.fit(memory.timeline, window, context.preserve_last_n)
            except BudgetUnsatisfiableError:
                continue
            blocks, note = blocks // part, note // part
            kept = kept_before_cut(memory.timeline, fit)
            said = _about_to_be_said(memory, context)
            asked = _questions(memory, fit, kept)
            if said is not None:
                asked.append(len(memory.timeline.entries))
            elif context.tail == "history" and _is_answered(memory):
                asked = []
            if not tools:
                asked = asked[-1:]
                # Every call asks something new, so all that the window leaves is free.
                if asked and asked[0] >= len(memory.timeline.entries) - 1:
                    blocks = room - fit.tokens - _SLACK
            return _Plan(fit, kept, tuple(asked), blocks, note, said)
        return None

    def _compose(
        self, memory: Memory, plan: _Plan, context: CurationContext
    ) -> list[ConversationEntry]:
        fit, units = plan.fit, memory.timeline.pairing.units
        found = self._recollections(memory, plan, context.counter)
        in_order = self.placement == "in_order"
        chosen = [position for recollected in found for position in recollected.chosen]
        view = _in_order(memory, plan, chosen) if in_order else list(fit.entries)
        note = self._note(memory, plan, context.counter)
        if note is not None:
            # At the clear line: everything before it stays as it is when that line moves.
            view.insert(place_of(view, units[fit.clear].head), note)
        entries = memory.timeline.entries
        for recollected in found:
            if recollected.failure:
                context.warn(recollected.failure)
            if recollected.block is not None:
                asked = recollected.asked
                place = place_of(view, entries[asked]) if asked < len(entries) else len(view)
                view.insert(place, recollected.block)
                for position in recollected.chosen:
                    for entry in units[position].entries:
                        context.explain(entry, "before the cut; quoted in the recollection")
        return view

    def _recollections(
        self, memory: Memory, plan: _Plan, counter: TokenCounter
    ) -> list[_Recollected]:
        """Return what each question brings back, the oldest question first.

        A question keeps its block while it is in the window, so that a new question changes
        nothing before it.
        """
        found: list[_Recollected] = []
        left = plan.blocks
        most = max(plan.blocks // BLOCKS, SMALLEST) if memory.tools else plan.blocks
        seen: frozenset[int] = frozenset()
        for asked in plan.asked:
            said = plan.said if asked == len(memory.timeline.entries) else None
            # What is asked now is never short of room for the sake of what was asked before.
            room = min(left if said == plan.said else left - most, most)
            if room < SMALLEST:
                continue
            key = (asked, said, plan.fit.start, plan.kept, room, counter.name, seen)
            if key not in memory.made:
                limit = max(asked, plan.fit.start)
                query = query_at(memory.timeline.entries, asked, said)
                scores, failure = self._scores(memory, query, limit)
                order = self._order(memory, plan, scores, seen.union(plan.kept))
                made = self._recollect(memory, asked, order, room, counter)
                memory.keep(key, replace(made, failure=failure))
            recollected: _Recollected = memory.made[key]
            found.append(recollected)
            left -= recollected.tokens
            seen = seen.union(recollected.chosen)
        return found

    def _recollect(
        self,
        memory: Memory,
        asked: int,
        order: Iterable[int],
        room: int,
        counter: TokenCounter,
    ) -> _Recollected:
        units = memory.timeline.pairing.units
        if self.placement == "in_order":
            taken, left = take(order, lambda p: _cost(units[p], counter), room)
            return _Recollected(asked, tuple(taken), None, room - left)
        room -= counter.count(RECOLLECTION_HEAD) + counter.count(RECOLLECTION_TAIL) + 8
        taken, _ = take(order, lambda p: quote_cost(units[p].entries, counter), room)
        if not taken:
            return _Recollected(asked, (), None, 0)
        block = recollection(
            [quote(units[p].entries, units[p].start) for p in taken],
            before=memory.timeline.entries[min(asked, len(memory.timeline.entries) - 1)],
        )
        return _Recollected(asked, tuple(taken), block, counter.count_entry(block))

    def _scores(self, memory: Memory, query: Query, limit: int) -> tuple[Any, str]:
        """Return the scores, and what went wrong when they are those of the words alone."""
        try:
            return memory.scores(query, limit), ""
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever an embedding model raises
            name = type(self.scorer).__name__
            failure = (
                f"{name} failed ({type(error).__name__}: {error}); earlier parts were found by "
                "their words instead."
            )
            logger.warning("%s", failure)
            return memory.lexical_scores(query, limit), failure

    def _order(
        self, memory: Memory, plan: _Plan, scores: Any, shown: frozenset[int]
    ) -> Iterator[int]:
        """Yield the units that may come back and are not shown yet, best first."""
        np = numpy()
        fit = plan.fit
        starts, sizes = memory.layout(fit.cut)
        if not len(starts):
            return iter(())
        scores = np.maximum.reduceat(scores[: fit.start], starts)
        scores = spread(scores, NEIGHBOURS[: self.neighbours])
        hits = np.flatnonzero(scores > 0)
        order = hits[rank(scores[hits], sizes[hits])]
        return (int(position) for position in order if int(position) not in shown)

    def _note(self, memory: Memory, plan: _Plan, counter: TokenCounter) -> ConversationEntry | None:
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
        note = identifier_note(ranked, plan.note, counter, before=units[clear].head)
        memory.keep(key, note)
        return note


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the window begins, which questions it holds, and the tokens for the blocks."""

    fit: Fit
    kept: tuple[int, ...]
    asked: tuple[int, ...]
    blocks: int
    note: int
    said: str | None


@dataclass(frozen=True, slots=True)
class _Recollected:
    """The units brought back for one question, and the block that quotes them."""

    asked: int
    chosen: tuple[int, ...]
    block: ConversationEntry | None
    tokens: int
    failure: str = ""


def _questions(memory: Memory, fit: Fit, kept: Sequence[int]) -> list[int]:
    """Positions of the entries that ask: the one whose turn is cut, and all after the cut."""
    pairing = memory.timeline.pairing
    inside = bisect_left(pairing.users, fit.cut)
    before = [position for position in pairing.users[:inside][-1:] if position in kept]
    return [pairing.units[position].start for position in (*before, *pairing.users[inside:])]


def _about_to_be_said(memory: Memory, context: CurationContext) -> str | None:
    """Return the question that the caller will append, or None when it is there already."""
    said = (context.query or "").strip()
    last = memory.timeline.entries[-1]
    if not said or (last.is_real_user and (last.content or "").strip() == said):
        return None
    return said


def _is_answered(memory: Memory) -> bool:
    last = memory.timeline.entries[-1]
    return last.role is MessageRole.ASSISTANT and not last.tool_calls


def _cost(unit: Unit, counter: TokenCounter) -> int:
    return sum(map(counter.count_entry, unit.entries))


def _in_order(memory: Memory, plan: _Plan, chosen: Sequence[int]) -> list[ConversationEntry]:
    """The view with the chosen units at their own places, in full."""
    units = memory.timeline.pairing.units
    view = list(plan.fit.entries)
    later = [*plan.kept, plan.fit.cut]
    for position in sorted(chosen):
        following = later[bisect_left(later, position)]
        place = place_of(view, units[following].head)
        view[place:place] = units[position].entries
    return view
