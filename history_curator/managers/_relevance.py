"""`RelevanceManager`: the budget holds what matters for the question, not only what is recent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError
from history_curator.managers._cut import fits, place_of, stopped_fitting, window_of
from history_curator.managers._protocol import CurationContext
from history_curator.managers.relevance import Signals, query_at, rank, resolve_scorer, take
from history_curator.managers.relevance._compose import recollection
from history_curator.managers.relevance._memory import Memories, Memory
from history_curator.managers.relevance._text import numpy, require
from history_curator.model import ConversationEntry, MessageRole
from history_curator.seal import Sealed
from history_curator.tokens import TokenCounter

__all__ = ["RelevanceManager"]

SHARE = 0.7
"""Of the budget: what earlier parts may take."""
AGENT = 0.1
"""Of the entries: from how many calls on a conversation is an agent's work and not a chat."""
SMALLEST = 64
"""Tokens below which a recollection is not worth its marks."""
_SLACK = 24


class RelevanceManager:
    """Keeps a recent window and gives the rest of the budget to earlier parts that matter.

    Guaranteed: nothing happens while the history fits; the window jumps as seldom as the budget's
    own, so it stays put while the history grows; earlier units come back whole and word for word,
    as one marked user entry right before the latest user entry, so that everything before it is
    repeated byte for byte on the next call; what is selected depends on the history alone.

    A question that is not among the entries yet (``Curator.curate(…, query=…)``) finds its parts
    too: its block ends the view, where the question follows. With ``tail="history"`` and no such
    question nothing is brought back for one that is answered. When a scorer fails, the words alone
    take its place and the report carries a warning.

    Where tools are in use (a call in every tenth entry or more) what an agent needs
    again is in the ledger, and the entries are handed on as they are, unless `share` is given. The
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
        low_water: cut depth of the window, as for `Curator`.
        folder: where the index of long conversations is kept; None keeps it in memory.
        signals: how strongly neighbours, speakers and dates count.

    Examples:
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
        scorer: Any = None,
        embeddings: Any = None,
        low_water: float | None = None,
        folder: Any = None,
        signals: Signals | None = None,
    ) -> None:
        if share is not None and not 0.0 <= share <= 0.9:
            raise ConfigurationError(f"share must be between 0 and 0.9, got {share}.")
        require()
        self.share = share
        self.scorer = resolve_scorer(scorer, embeddings, folder)
        self.low_water = low_water
        self._memories = Memories(self.scorer, signals=signals)

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> Sequence[ConversationEntry]:
        """Return the window with earlier parts that matter, or the entries when they fit."""
        room = context.max_tokens
        if room is None or not entries:
            return entries
        with self._memories.lend(entries) as memory:
            works, worked = self._is_work(memory)
            if (works and worked) or fits(memory.timeline, context.counter, room):
                return entries
            if works != worked:
                context.jump(self)
            if works:
                return entries
            plan = self._plan(memory, context, room)
            if plan is None:
                return entries
            if plan.window.jumped or stopped_fitting(memory.timeline, context.counter, room):
                context.jump(self)
            return self._compose(memory, plan, context)

    def _is_work(self, memory: Memory) -> tuple[bool, bool]:
        """Whether this is an agent's work and not a chat, and whether the request before was."""
        if self.share is not None:
            return False, False
        entries, pairing = memory.timeline.entries, memory.timeline.pairing
        works = memory.calls >= AGENT * len(entries)
        if pairing.newest_answer < 1:
            return works, works
        start = pairing.units[pairing.newest_answer].start
        before = memory.calls - sum(bool(entry.tool_calls) for entry in entries[start:])
        return works, before >= AGENT * start

    def _plan(self, memory: Memory, context: CurationContext, room: int) -> _Plan | None:
        """Return the window beside the parts, with less room for them where it has to be."""
        blocks = int(room * (SHARE if self.share is None else self.share))
        for part in (1, 2, 4):
            aside = blocks // part
            try:
                window = window_of(memory.timeline, context, room - aside - _SLACK, self.low_water)
                break
            except BudgetUnsatisfiableError:
                continue
        else:
            return None
        said = _about_to_be_said(memory, context)
        asked = _asked(memory, window) if said is None else len(memory.timeline.entries)
        if said is None and context.tail == "history" and _is_answered(memory):
            asked = None
        if asked is not None and asked >= len(memory.timeline.entries) - 1:
            # Every call asks something new, so all that the window leaves is free.
            aside = room - window.tokens - _SLACK
        return _Plan(window, asked, said, aside)

    def _compose(
        self, memory: Memory, plan: _Plan, context: CurationContext
    ) -> list[ConversationEntry]:
        view = list(plan.window.entries)
        asked = plan.asked
        if asked is None or plan.room < SMALLEST:
            return view
        key = (
            asked,
            plan.said,
            plan.window.unit,
            plan.window.heads,
            plan.room,
            context.counter.name,
        )
        if key not in memory.made:
            memory.keep(key, self._recollect(memory, plan, asked, context.counter))
        found: _Recollected = memory.made[key]
        if found.failure:
            context.warn(found.failure)
        if found.block is not None:
            entries = memory.timeline.entries
            place = place_of(view, entries[asked]) if asked < len(entries) else len(view)
            view.insert(place, found.block)
            for position in found.chosen:
                for entry in memory.timeline.pairing.units[position].entries:
                    context.explain(entry, "before the cut; quoted in the recollection")
        return view

    def _recollect(
        self, memory: Memory, plan: _Plan, asked: int, counter: TokenCounter
    ) -> _Recollected:
        entries, units = memory.timeline.entries, memory.timeline.pairing.units
        query = query_at(entries, asked, plan.said)
        limit = max(asked, _start(memory, plan.window))
        scores, failure = memory.search.scores(entries, query, limit)
        before = entries[min(asked, len(entries) - 1)]
        room = plan.room - counter.count_entry(recollection((), before))

        def cost(position: int, taken: set[int]) -> int:
            """A label is shown only where the unit before is not quoted as well."""
            quoted, label = memory.costs(position, counter)
            if position - 1 in taken:
                label = 0
            if position + 1 in taken:
                label -= memory.costs(position + 1, counter)[1]
            return quoted + label

        taken = take(_order(memory, plan.window, scores), cost, room)
        while taken:
            runs = [(units[position].start, units[position].entries) for position in sorted(taken)]
            block = recollection(runs, before)
            if counter.count_entry(block) <= plan.room:
                return _Recollected(tuple(sorted(taken)), block, failure)
            taken.pop()
        return _Recollected((), None, failure)


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


def _order(memory: Memory, window: Sealed, scores: Any) -> Iterator[int]:
    """Yield the units before the cut that match and are not shown, best first."""
    np = numpy()
    starts, sizes = memory.layout(window.unit)
    if not len(starts):
        return iter(())
    scores = np.maximum.reduceat(scores[: _start(memory, window)], starts)
    hits = np.flatnonzero(scores > 0)
    order = hits[rank(scores[hits], sizes[hits])]
    return (position for position in order.tolist() if position not in window.heads)


def _start(memory: Memory, window: Sealed) -> int:
    """The first entry behind the cut."""
    units = memory.timeline.pairing.units
    return units[window.unit].start if window.unit < len(units) else len(memory.timeline.entries)


def _asked(memory: Memory, window: Sealed) -> int | None:
    """The position of the latest thing the user said that the window shows."""
    pairing = memory.timeline.pairing
    if not pairing.users:
        return None
    latest = pairing.users[-1]
    shown = latest >= window.unit or latest in window.heads
    return pairing.units[latest].start if shown else None


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
