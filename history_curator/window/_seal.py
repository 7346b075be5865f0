"""The seal: always last. The fold, the provider's rules, and the proof of the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_

from history_curator.caching import Along, State
from history_curator.formats import MessageFormat
from history_curator.entries import ConversationEntry
from history_curator.rules import ProviderProfile
from history_curator.window._fold import COMPACT_TO, Fold
from history_curator.window._forms import CAP, LEAST_CAP, Form, Forms, written_tokens
from history_curator.window._recap import Recap
from history_curator.window._rungs import refusal, squeezed
from history_curator.window._view import Found, Tail, View
from history_curator.timeline import Timeline, flatten
from history_curator.tokens import TokenCounter

STEP = 0.02
"""The room of a fold is rounded down to this share of the budget, so that a date in the system
prompt moves nothing."""
_FOLDS = 8
"""How many rooms and headings of one conversation are remembered."""


@dataclass(slots=True)
class Sealed:
    """A view that is proven to fit and to conform.

    Attributes:
        entries: the view.
        tokens: their exact count, without tools, reserve and priming.
        settled: how many leading entries the next view repeats, unless it compactions.
        cut: position in the record of the first entry behind the cut; 0 when nothing was cut.
        unit: position of the first unit behind the cut.
        heads: positions of the units before the cut that stay.
        compacted: whether this view does not simply go on from the request before.
        fitted: the entries before the provider's rules looked at them as a whole.
        state: what is known about the provider's own counts; None where nothing is.
        kept: tokens that the fold keeps free in this view, for a recap that turned out shorter.
        shorter: whether it is shorter than the cut leaves it.
    """

    entries: list[ConversationEntry]
    tokens: int
    settled: int
    cut: int = 0
    unit: int = 0
    heads: tuple[int, ...] = ()
    compacted: bool = False
    fitted: Sequence[ConversationEntry] = ()
    state: State | None = None
    kept: int = 0
    shorter: bool = False


class Seal:
    """Fits timelines into a budget, as a provider takes them.

    Args:
        counter: counts the tokens.
        profile: whose rules hold.
        max_tokens: the budget that the cut is laid for; None for no budget.
        compact_to: how full a jump leaves the view; None is `COMPACT_TO`.
        recap: whether what left the view is told.
        recall_tool: whether placeholders and the recap name handles; a text is the recall tool's name.
        preserve_last_n: the last n entries are never left out.
        format: writes the view; None where entries are the end of it.
    """

    def __init__(
        self,
        counter: TokenCounter,
        profile: ProviderProfile,
        max_tokens: int | None,
        *,
        compact_to: float | None = None,
        recap: bool = True,
        recall_tool: bool | str = False,
        preserve_last_n: int | None = None,
        format: MessageFormat | None = None,
    ) -> None:
        self.counter = counter
        self.profile = profile
        self.max_tokens = max_tokens
        self.format = format
        self._compact_to = COMPACT_TO if compact_to is None else compact_to
        self.preserve = preserve_last_n or 0
        cap = None if max_tokens is None else max(LEAST_CAP, int(max_tokens * CAP))
        self.forms = Forms(counter, profile, cap, recall_tool=recall_tool, format=format)
        self._recap = None
        if recap and max_tokens is not None:
            self._recap = Recap(counter, max_tokens, recall_tool=recall_tool)

    def whole(self, timeline: Timeline, tail: Tail, *, edited: bool = False) -> Sealed:
        """Return the view without a budget: everything, as the provider takes it."""
        pairing = timeline.pairing
        start = pairing.hard_starts[-1] if pairing.hard_starts else 0  # nothing before it is sent
        flat = flatten(pairing.units[start:], pairing.system)
        entries = (
            self.profile.repair(flat, tail, edited=edited) if timeline.entries or edited else []
        )
        tokens = written_tokens(entries, self.format, self.counter)
        return Sealed(entries, tokens, self._settled(entries, flat, timeline, edited), fitted=flat)

    def fit(
        self,
        timeline: Timeline,
        tail: Tail,
        *,
        usual: int,
        room: int,
        edited: bool = False,
        along: Along | None = None,
    ) -> Sealed:
        """Return the view that fits.

        Args:
            timeline: the conversation.
            tail: whether it is about to be sent or goes on.
            usual: tokens for system entries and all else, by the settings. The cut is laid for
                these.
            room: tokens there are this time. Where they are fewer, this one view is shorter.
            edited: whether managers edited or left out something.
            along: what is known of the requests before; the room is then what the provider's own
                counts leave.

        Raises:
            BudgetUnsatisfiableError: when what must stay does not fit. Its numbers are those of
                the messages alone.
        """
        if not timeline.entries and not edited:  # an empty history stays empty
            return Sealed([], 0, 0)
        heading = self.heading(timeline)
        fold = self.fold(timeline, usual - heading.tokens, tracked=along is not None)
        view = View(self, timeline, heading, fold, tail, budget=usual, edited=edited)
        found = view.find(view.room_of(room, along)) or squeezed(view)
        if found is None:
            raise refusal(view)
        return self._sealed(view, found)

    def _sealed(self, view: View, found: Found) -> Sealed:
        """A view that was found, with what the report says about it."""
        timeline, cut = view.timeline, found.cut
        settled = self._settled(found.entries, found.flat, timeline, view.edited, found.squeezed)
        if found.smaller and not found.squeezed:
            settled = min(settled, _common(found.entries, view.usual_entries()))
        return Sealed(
            found.entries,
            found.tokens,
            settled,
            timeline.pairing.units[cut.at].start if cut.at else 0,
            cut.at,
            cut.heads,
            view.compacted(found),
            found.flat,
            view.state,
            view.kept,
            found.smaller,
        )

    def usable(self, timeline: Timeline, room: int) -> int:
        """Return what managers may fill without the cut moving: the room of the fold."""
        heading = self.heading(timeline).tokens
        return heading + self.rounded(room - heading)

    def rounded(self, room: int) -> int:
        """Return a room as a fold has it."""
        assert self.max_tokens is not None
        step = max(1, int(self.max_tokens * STEP))
        return room // step * step

    def fold(self, timeline: Timeline, room: int, *, tracked: bool = False) -> Fold:
        """Return the fold of a timeline in a room, rounded down; made once."""
        assert self.max_tokens is not None
        room = max(1, self.rounded(room))
        key = (self, room, tracked)  # holding the seal keeps the key its own
        fold: Fold | None = timeline.folds.get(key)
        if fold is None:
            if len(timeline.folds) >= _FOLDS:
                timeline.folds.clear()
            fold = timeline.folds[key] = Fold(
                timeline,
                self.forms,
                self._recap,
                budget=self.max_tokens,
                room=room,
                compact_to=self._compact_to,
                preserve_last_n=self.preserve,
            )
        return fold

    def heading(self, timeline: Timeline) -> Form:
        """Return the system entries that stand in front."""
        system = timeline.pairing.system
        if not self.profile.hoists and timeline.pairing.units:
            start = timeline.pairing.units[0].start
            system = [(at, entry) for at, entry in system if at < start]
        entries = tuple([entry for _, entry in system])
        known, form = timeline.folds.get(self, ((), None))
        if form is None or not _alike(known, entries):
            merged = tuple(self.profile.repair(entries, "history")) if entries[1:] else entries
            form = self.forms.made(merged, entries)
            timeline.folds[self] = entries, form
        made: Form = form
        return made

    def _settled(
        self,
        entries: Sequence[ConversationEntry],
        flat: Sequence[ConversationEntry],
        timeline: Timeline,
        edited: bool,
        squeezed: bool = False,
    ) -> int:
        """How many leading entries the next view repeats unless it compactions."""
        pairing = timeline.pairing
        waiting = {id(entry.root) for at in pairing.incomplete_units for entry in pairing.units[at].entries}
        if squeezed:
            waiting.update(id(entry.root) for entry in pairing.units[-1].entries)
        repaired = not _alike(entries, flat)
        end, left = len(entries), set(waiting)
        for at in reversed(range(end) if waiting else ()):  # they are at the end, mostly
            root = id(entries[at].root)
            if root in waiting:
                end = at
                left.discard(root)
            elif not left:
                break
        if self.profile.strips and (edited or repaired) and pairing.units[-1:]:
            end = min(end, _first_thought(entries))
        if end == len(entries):
            while end and entries[end - 1].origin is not None:  # it ends the view, not the record
                end -= 1
            end -= self.profile.merges
        return max(0, end)


def _alike(one: Sequence[ConversationEntry], other: Sequence[ConversationEntry]) -> bool:
    return one is other or (len(one) == len(other) and all(map(is_, one, other)))


def _first_thought(entries: Sequence[ConversationEntry]) -> int:
    for at, entry in enumerate(entries):
        if entry.reasoning:
            return at
    return len(entries)


def _common(one: Sequence[ConversationEntry], other: Sequence[ConversationEntry]) -> int:
    count = 0
    for mine, yours in zip(one, other, strict=False):
        if mine is not yours:
            break
        count += 1
    return count
