"""What the budget leaves of a conversation: as a manager, and for managers that work on what it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from history_curator.managers._protocol import CurationContext
from history_curator.entries import ConversationEntry
from history_curator.rules import ProviderProfile
from history_curator.window import Seal, Sealed
from history_curator.timeline import Timeline
from history_curator.tokens import TokenCounter

NO_RULES = ProviderProfile("none", ())
"""Managers leave the provider's rules to the seal of the curator."""
_MOST = 64
_SEALS: dict[tuple[object, ...], Seal] = {}


def seal_for(
    counter: TokenCounter,
    room: int | None,
    *,
    compact_to: float | None = None,
    recap: bool = False,
    recall_tool: bool | str = False,
    preserve_last_n: int | None = None,
) -> Seal:
    """Return the seal for a budget of messages, made once."""
    key = (counter.name, room, compact_to, recap, recall_tool, preserve_last_n)
    seal = _SEALS.get(key)
    if seal is None:
        if len(_SEALS) >= _MOST:
            _SEALS.clear()
        seal = _SEALS[key] = Seal(
            counter,
            NO_RULES,
            room,
            compact_to=compact_to,
            recap=recap,
            recall_tool=recall_tool,
            preserve_last_n=preserve_last_n,
        )
    return seal


def window_of(
    timeline: Timeline, context: CurationContext, room: int, compact_to: float | None = None
) -> Sealed:
    """Return what `room` tokens leave of a conversation, without a recap.

    Raises:
        BudgetUnsatisfiableError: when what must stay is larger.
    """
    seal = seal_for(
        context.counter,
        room,
        compact_to=context.compact_to if compact_to is None else compact_to,
        recall_tool=context.recall_tool,
        preserve_last_n=context.preserve_last_n,
    )
    return seal.fit(timeline, context.tail, usual=room, room=room)


def fits(timeline: Timeline, counter: TokenCounter, room: int) -> bool:
    """Whether everything fits; counts no further than the room goes."""
    left = room - sum(counter.count_entry(entry) for _, entry in timeline.pairing.system)
    exceeds: Callable[[str, int], bool] | None = getattr(counter, "exceeds", None)
    for unit in reversed(timeline.pairing.units):
        for entry in unit.entries:
            text = entry.content
            if left < 0:
                return False
            if text and exceeds and len(text) > 4_096 + 2 * left and exceeds(text, left):
                return False
            left -= counter.count_entry(entry)
    return left >= 0


def stopped_fitting(timeline: Timeline, counter: TokenCounter, room: int) -> bool:
    """Whether everything fitted for the request before this one, where it does not any more."""
    units = timeline.pairing.units[max(timeline.pairing.newest_answer, 0) :]
    new = sum(counter.count_entry(entry) for unit in units for entry in unit.entries)
    return fits(timeline, counter, room + new)


def place_of(view: Sequence[ConversationEntry], wanted: ConversationEntry) -> int:
    """Where an entry stands in a view, in whatever form; the end when it is not there."""
    root = wanted.root
    return next((i for i, entry in enumerate(view) if entry.root is root), len(view))


@dataclass(frozen=True)
class TokenBudgetManager:
    """Fit the entries into a token budget.

    Oversized tool results are capped, and the oldest exchanges are dropped and told in a recap;
    between compactions of the cut the view only grows at its end. The seal of a `Curator` with
    `max_tokens` does the same, so this manager is for budgets inside a pipeline.

    Args:
        max_tokens: the budget of the messages.
        compact_to: how full a jump of the cut leaves the view; None is 0.7.
        recap: whether a marked entry tells what was said and done before the cut.
        recall_tool: placeholders name the handle that the recall tool takes; a text is its name.

    Raises:
        BudgetUnsatisfiableError: when what must stay does not fit.

    Examples:
        >>> from history_curator import Curator, TokenBudgetManager
        >>> curator = Curator(TokenBudgetManager(500))
        >>> len(curator.curate([{"role": "user", "content": "hi"}]).messages)
        1
    """

    max_tokens: int
    compact_to: float | None = None
    recall_tool: bool | str = False
    recap: bool = True

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> Sequence[ConversationEntry]:
        """Return the entries that fit."""
        seal = seal_for(
            context.counter,
            self.max_tokens,
            compact_to=self.compact_to,
            recap=self.recap,
            recall_tool=self.recall_tool,
            preserve_last_n=context.preserve_last_n,
        )
        room = self.max_tokens
        timeline = context.timeline_of(entries)
        return seal.fit(timeline, context.tail, usual=room, room=room).entries
