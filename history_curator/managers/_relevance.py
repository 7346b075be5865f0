"""`RelevanceManager`: the budget holds what matters for the question, not only what is recent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError
from history_curator.managers._cut import fits, place_of, stopped_fitting, window_of
from history_curator.managers._protocol import CurationContext
from history_curator.managers.relevance import (
    Search,
    Signals,
    query_at,
    rank,
    resolve_scorer,
    take,
)
from history_curator.managers.relevance._compose import label, quote_cost, recollection
from history_curator.managers.relevance._memory import Memories, Memory
from history_curator.managers.relevance._text import numpy, require
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.window import Sealed
from history_curator.timeline import Timeline
from history_curator.tokens import TokenCounter

SHARE = 0.7
"""Of the budget: what earlier parts may take."""
AGENT = 0.1
"""Of the entries: from how many calls on a conversation is an agent's work and not a chat."""
SMALLEST = 64
"""Tokens below which a recollection is not worth its marks."""
_SLACK = 24


class RelevanceManager:
    """Keeps a recent window and gives the rest of the budget to earlier parts that matter.

    Guaranteed: nothing happens while the history fits; the window compactions as seldom as the budget's
    own, so it stays put while the history grows; earlier units come back whole and word for word,
    as one marked user entry right before the latest user entry, so that everything before it is
    repeated byte for byte on the next call; what is selected depends on the history alone.

    A question that is not among the entries yet (``Curator.curate(…, query=…)``) finds its parts
    too: its block ends the view, where the question follows. With ``tail="history"`` and no such
    question nothing is brought back for one that is answered. When a scorer fails, the words alone
    take its place and the report carries a warning.

    Where tools are in use (a call in every tenth entry or more) what an agent needs
    again is in the recap, and the entries are handed on as they are, unless `share` is given. The
    request at which a conversation becomes the one or the other is reported as a jump.

    Not guaranteed: that the right parts are found.

    Args:
        share: of the budget, for earlier parts; None for 0.7 in a chat and nothing in an agent's
            work.
        scorer: None for words, and for words that mean about the same where the ``vectors`` extra
            is installed; ``"lexical"`` for words alone, ``"soft"`` for both; ``"embeddings"``,
            ``"hybrid"``, an embedding model (LangChain ``Embeddings``, LlamaIndex
            ``BaseEmbedding``, a function from texts to vectors) or a `Scorer`.
        embeddings: the embedding model for ``"embeddings"`` and ``"hybrid"``.
        compact_to: cut depth of the window, as for `Curator`.
        folder: where the index of long conversations is kept; None keeps it in memory.
        signals: how strongly neighbours, speakers and dates count.

    Examples:
        >>> from history_curator.entries import ConversationEntry as E, MessageRole as R
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
        scorer: Any = None,
        embeddings: Any = None,
        compact_to: float | None = None,
        folder: Any = None,
        signals: Signals | None = None,
    ) -> None:
        if share is not None and not 0.0 <= share <= 0.9:
            raise ConfigurationError(f"share must be between 0 and 0.9, got {share}.")
        require()
        self.share = share
        self.scorer = resolve_scorer(scorer, embeddings, folder)
        self.compact_to = compact_to
        self._memories = Memories(self.scorer, signals)

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> Sequence[ConversationEntry]:
        """Return the window with earlier parts that matter, or the entries when they fit."""
        room = context.max_tokens
        if room is None or not entries:
            return entries
        timeline = context.timeline_of(entries)
        if fits(timeline, context.counter, room):
            return entries
        works, worked = self._is_work(timeline)
        if works != worked:
            context.jump(self)
        plan = None if works else self._plan(timeline, context, room)
        if plan is None:
            return entries
        if plan.window.compacted or stopped_fitting(timeline, context.counter, room):
            context.jump(self)
        with self._memories.lend(entries) as memory:
            return self._compose(memory, timeline, plan, context)

    def _is_work(self, timeline: Timeline) -> tuple[bool, bool]:
        """Whether this is an agent's work and not a chat, and whether the request before was."""
        if self.share is not None:
            return False, False
        called, pairing = [bool(entry.tool_calls) for entry in timeline.entries], timeline.pairing
        works = sum(called) >= AGENT * len(called)
        if pairing.newest_answer < 1:
            return works, works
        start = pairing.units[pairing.newest_answer].start
        return works, sum(called[:start]) >= AGENT * start

    def _plan(self, timeline: Timeline, context: CurationContext, room: int) -> _Plan | None:
        """Return the window beside the parts, with less room for them where it has to be."""
        blocks = int(room * (SHARE if self.share is None else self.share))
        for part in (1, 2, 4):
            aside = blocks // part
            try:
                window = window_of(timeline, context, room - aside - _SLACK, self.compact_to)
                break
            except BudgetUnsatisfiableError:
                continue
        else:
            return None
        last, count = timeline.entries[-1], len(timeline.entries)
        said = _about_to_be_said(last, context)
        asked = _asked(timeline, window) if said is None else count
        if said is None and context.tail == "history" and _is_answer(last):
            asked = None
        if asked is not None and asked >= count - 1:
            # Every call asks something new, so all that the window leaves is free.
            aside = room - window.tokens - _SLACK
        return _Plan(window, asked, said, aside)

    def _compose(
        self, memory: Memory, timeline: Timeline, plan: _Plan, context: CurationContext
    ) -> list[ConversationEntry]:
        view, entries = list(plan.window.entries), timeline.entries
        asked, window = plan.asked, plan.window
        if asked is None or plan.room < SMALLEST:
            return view
        key = (asked, plan.said, window.unit, window.heads, plan.room, context.counter.name)
        if key not in memory.made:
            memory.keep(key, _recollect(memory.search, timeline, plan, asked, context.counter))
        found: _Recollected = memory.made[key]
        if found.failure:
            context.warn(found.failure)
        if found.block is not None:
            place = place_of(view, entries[asked]) if asked < len(entries) else len(view)
            view.insert(place, found.block)
            for position in found.chosen:
                for entry in timeline.pairing.units[position].entries:
                    context.explain(entry, "before the cut; quoted in the recollection")
        return view


@dataclass(frozen=True, slots=True)
class _Plan:
    """The window, the position of what is asked, its words when it is no entry yet, and the room."""

    window: Sealed
    asked: int | None
    said: str | None
    room: int


@dataclass(frozen=True, slots=True)
class _Recollected:
    """The units brought back for a question, and the block that quotes them."""

    chosen: tuple[int, ...]
    block: ConversationEntry | None
    failure: str


def _recollect(
    search: Search, timeline: Timeline, plan: _Plan, asked: int, counter: TokenCounter
) -> _Recollected:
    entries, units = timeline.entries, timeline.pairing.units
    query = query_at(entries, asked, plan.said)
    limit = max(asked, _start(timeline, plan.window))
    scores, failure = search.scores(entries, query, limit)
    before = entries[min(asked, len(entries) - 1)]
    room = plan.room - counter.count_entry(recollection((), before))

    def label_cost(position: int) -> int:
        return counter.count(label(units[position].start).rstrip())

    def cost(position: int, taken: set[int]) -> int:
        """A label is shown only where the unit before is not quoted as well."""
        quoted = quote_cost(units[position].entries, counter)
        if position - 1 not in taken:
            quoted += label_cost(position)
        return quoted - (label_cost(position + 1) if position + 1 in taken else 0)

    taken = take(_order(timeline, plan.window, scores), cost, room)
    while taken:
        runs = [(units[position].start, units[position].entries) for position in sorted(taken)]
        block = recollection(runs, before)
        if counter.count_entry(block) <= plan.room:
            return _Recollected(tuple(sorted(taken)), block, failure)
        taken.pop()
    return _Recollected((), None, failure)


def _order(timeline: Timeline, window: Sealed, scores: Any) -> Iterator[int]:
    """Yield the units before the cut that match and are not shown, best first."""
    np = numpy()
    units = timeline.pairing.units[: window.unit + 1]
    starts = np.array([unit.start for unit in units[: window.unit]], dtype=int)
    if not len(starts):
        return iter(())
    sizes = np.diff(np.array([unit.offset for unit in units]))
    scores = np.maximum.reduceat(scores[: _start(timeline, window)], starts)
    hits = np.flatnonzero(scores > 0)
    order, heads = hits[rank(scores[hits], sizes[hits])], set(window.heads)
    return (position for position in order.tolist() if position not in heads)


def _start(timeline: Timeline, window: Sealed) -> int:
    """The first entry behind the cut."""
    units = timeline.pairing.units
    return units[window.unit].start if window.unit < len(units) else len(timeline.entries)


def _asked(timeline: Timeline, window: Sealed) -> int | None:
    """The position of the latest thing the user said that the window shows."""
    pairing = timeline.pairing
    if not pairing.users:
        return None
    latest = pairing.users[-1]
    shown = latest >= window.unit or latest in window.heads
    return pairing.units[latest].start if shown else None


def _about_to_be_said(last: ConversationEntry, context: CurationContext) -> str | None:
    """Return the question that the caller will append, or None when it is there already."""
    said = (context.query or "").strip()
    if not said or (last.is_real_user and (last.content or "").strip() == said):
        return None
    return said


def _is_answer(entry: ConversationEntry) -> bool:
    return entry.role is MessageRole.ASSISTANT and not entry.tool_calls
