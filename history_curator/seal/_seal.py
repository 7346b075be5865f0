"""The seal: always last. The fold, the provider's rules, and the proof of the budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter, is_, or_
from typing import Literal

from history_curator.caching import Along, State, Track
from history_curator.dialects import Dialect
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.model import ConversationEntry, MessageRole
from history_curator.rules import ProviderProfile
from history_curator.rules._invariant import remembered
from history_curator.seal._fold import LOW_WATER, Cut, Fold
from history_curator.seal._forms import CAP, LEAST_CAP, Form, Forms
from history_curator.seal._ledger import Ledger
from history_curator.seal._proof import written_tokens
from history_curator.timeline import Timeline, flatten
from history_curator.tokens import TokenCounter

Tail = Literal["request", "history"]

STEP = 0.02
"""The room of a fold is rounded down to this share of the budget, so that a date in the system
prompt moves nothing."""
_concerned = attrgetter("concerned")
_FOLDS = 8
"""How many rooms of one conversation are remembered."""


@dataclass(slots=True)
class Sealed:
    """A view that is proven to fit and to conform.

    Attributes:
        entries: the view.
        tokens: their exact count, without tools, reserve and priming.
        settled: how many leading entries the next view repeats, unless it jumps.
        cut: position in the record of the first entry behind the cut; 0 when nothing was cut.
        unit: position of the first unit behind the cut.
        heads: positions of the units before the cut that stay.
        jumped: whether this view does not simply go on from the request before.
        fitted: the entries before the provider's rules looked at them as a whole.
        state: what is known about the provider's own counts; None where nothing is.
        kept: tokens that the fold keeps free in this view, for a ledger that turned out shorter.
    """

    entries: list[ConversationEntry]
    tokens: int
    settled: int
    cut: int = 0
    unit: int = 0
    heads: tuple[int, ...] = ()
    jumped: bool = False
    fitted: Sequence[ConversationEntry] = ()
    state: State | None = None
    kept: int = 0


class Seal:
    """Fits timelines into a budget, as a provider takes them.

    Args:
        counter: counts the tokens.
        profile: whose rules hold.
        max_tokens: the budget that the cut is laid for; None for no budget.
        low_water: how full a jump leaves the view; None is `LOW_WATER`.
        ledger: whether what left the view is told.
        recall: whether placeholders and the ledger name handles; a text is the recall tool's name.
        preserve_last_n: the last n entries are never left out.
        dialect: writes the view; None where entries are the end of it.
    """

    def __init__(
        self,
        counter: TokenCounter,
        profile: ProviderProfile,
        max_tokens: int | None,
        *,
        low_water: float | None = None,
        ledger: bool = True,
        recall: bool | str = False,
        preserve_last_n: int | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        self.counter = counter
        self.profile = profile
        self.max_tokens = max_tokens
        self._dialect = dialect
        self._low_water = LOW_WATER if low_water is None else low_water
        self._preserve = preserve_last_n or 0
        cap = None if max_tokens is None else max(LEAST_CAP, int(max_tokens * CAP))
        self.forms = Forms(counter, profile, cap, recall=recall, dialect=dialect)
        self._ledger = None
        if ledger and max_tokens is not None:
            self._ledger = Ledger(counter, max_tokens, recall=recall)

    def whole(self, timeline: Timeline, tail: Tail, *, edited: bool = False) -> Sealed:
        """Return the view without a budget: everything, as the provider takes it."""
        pairing = timeline.pairing
        start = pairing.barriers[-1] if pairing.barriers else 0  # nothing before it is sent
        flat = flatten(pairing.units[start:], pairing.system)
        entries = (
            self.profile.repair(flat, tail, edited=edited) if timeline.entries or edited else []
        )
        tokens = written_tokens(entries, self._dialect, self.counter)
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
        view = _View(self, timeline, tail, edited, room)
        fold = self._fold(timeline, usual - view.heading.tokens, tracked=along is not None)
        for at_most in view.rooms(fold, along):
            view.room = at_most
            sealed = view.of(fold) or view.shorter()
            if sealed is not None:
                sealed.state, sealed.kept = view.state, view.kept
                return sealed
        raise view.refusal()

    def usable(self, timeline: Timeline, room: int) -> int:
        """Return what managers may fill without the cut moving: the room of the fold."""
        heading = self.heading(timeline).tokens
        return heading + self._rounded(room - heading)

    def _rounded(self, room: int) -> int:
        assert self.max_tokens is not None
        step = max(1, int(self.max_tokens * STEP))
        return room // step * step

    def _fold(self, timeline: Timeline, room: int, *, tracked: bool = False) -> Fold:
        assert self.max_tokens is not None
        room = max(1, self._rounded(room))
        key = (id(self), room, tracked)
        fold: Fold | None = timeline.folds.get(key)
        if fold is None:
            if len(timeline.folds) >= _FOLDS:
                timeline.folds.clear()
            fold = timeline.folds[key] = Fold(
                timeline,
                self.forms,
                self._ledger,
                budget=self.max_tokens,
                room=room,
                low_water=self._low_water,
                preserve_last_n=self._preserve,
            )
            fold.tracked = tracked
        return fold

    def heading(self, timeline: Timeline) -> Form:
        """Return the system entries that stand in front."""
        system = timeline.pairing.system
        if not self.profile.hoists and timeline.pairing.units:
            start = timeline.pairing.units[0].start
            system = [(at, entry) for at, entry in system if at < start]
        entries = tuple(entry for _, entry in system)
        if len(entries) > 1:
            merged = tuple(self.profile.repair(entries, "history"))
            return Form(self.forms, merged, written_tokens(merged, self._dialect, self.counter))
        return self.forms.made(entries, entries)

    def _settled(
        self,
        entries: Sequence[ConversationEntry],
        flat: Sequence[ConversationEntry],
        timeline: Timeline,
        edited: bool,
        squeezed: bool = False,
    ) -> int:
        """How many leading entries the next view repeats unless it jumps."""
        pairing = timeline.pairing
        waiting = {id(entry.root) for at in pairing.open for entry in pairing.units[at].entries}
        if squeezed:
            waiting.update(id(entry.root) for entry in pairing.units[-1].entries)
        repaired = len(entries) != len(flat) or not all(map(is_, entries, flat))
        end = len(entries)
        if waiting:
            end = next((at for at, entry in enumerate(entries) if id(entry.root) in waiting), end)
        if self.profile.strips and (edited or repaired) and pairing.units[-1:]:
            end = min(end, _first_thought(entries))
        if self.profile.merges and end == len(entries):
            end -= 1
        return max(0, end)


class _View:
    """The views of one timeline, for one request."""

    def __init__(self, seal: Seal, timeline: Timeline, tail: Tail, edited: bool, room: int) -> None:
        self.seal = seal
        self.timeline = timeline
        self.tail = tail
        self.edited = edited
        self.room = room
        self.heading = seal.heading(timeline)
        self.fixed = self.heading.tokens + self._behind()
        self.state: State | None = None
        self.kept = 0
        self._along: Along | None = None
        self._track: Track | None = None
        self._usual: tuple[Fold, Cut] | None = None

    def _behind(self) -> int:
        """What system entries cost that keep their place behind the last unit."""
        system, units = self.timeline.pairing.system, self.timeline.pairing.units
        if self.seal.profile.hoists or not units or not system or system[-1][0] < units[-1].start:
            return 0
        late = [entry for at, entry in system if at > units[-1].start]
        return sum(map(self.seal.counter.count_entry, late))

    def rooms(self, fold: Fold, along: Along | None) -> Iterator[int]:
        """What the view may take: as it is stated, or as the provider's own counts leave it.

        Where that is too little even for what must stay, the provider may take it all the same.
        """
        if along is not None and self.timeline.pairing.units:
            self._along = along
            cut = self._follow(fold, along)
            if along.is_cold(cut.state):
                place = self.timeline.pairing.units[-1].head.root.sequence
                cut = self._follow(fold, along.went_cold(place))
            self.state = cut.state
            if cut.state is not None and cut.state.meter is not None:
                meter = cut.state.meter
                self.kept = self._kept(fold, cut)
                yield meter.room(along.limit) - along.priced - self.kept
                self.room = meter.likely(along.limit) - along.priced
        yield self.room

    def _follow(self, fold: Fold, along: Along) -> Cut:
        assert self.seal.max_tokens is not None
        overhead = along.priced + self.heading.tokens
        self._track = along.track(self.seal.max_tokens, overhead, fold.room)
        return fold.reach(self._track)

    def _kept(self, fold: Fold, cut: Cut) -> int:
        """What the fold counts beyond what is shown: a ledger may turn out shorter than its room."""
        return cut.size + self.fixed - self._conformed(self._pieces(fold, cut))[1]

    def of(self, fold: Fold) -> Sealed | None:
        """The view of a fold; None when it does not fit."""
        cut = self._cut(fold)
        if self._usual is None:
            self._usual = (fold, cut)
        room = self.room - self.fixed
        return self._proven(self._pieces(fold, cut), cut, jumped=fold.jumped(cut, room))

    def _cut(self, fold: Fold) -> Cut:
        """The cut of a fold; none where everything fits."""
        cut = fold.reach(self._track if fold.tracked else None)
        moved = max(cut.at, cut.bare) > fold.first
        fits = moved and cut.whole <= self.room - self.fixed
        return fold.uncut(cut) if fits else cut

    def shorter(self) -> Sealed | None:
        """A view for this request alone: the cut of a smaller room, then the last rungs."""
        assert self._usual is not None
        units = self.timeline.pairing.units
        room = self.room - self.fixed
        usual = self._pieces(*self._usual)
        most = max(self._usual[0].room, self._usual[1].room)
        while room > 0:
            fold = self.seal._fold(self.timeline, min(room, most))
            cut = self._cut(fold)
            if cut.size > max(fold.room, room if cut.at == fold.first else 0):
                break
            sealed = self._proven(self._pieces(fold, cut), cut, jumped=True)
            if sealed is not None:
                sealed.settled = _common(sealed.entries, [e for p in usual for e in p.entries])
                return sealed
            room -= max(1, self._over)
        if not units or room <= 0:
            return self._last_rung(Cut(), 0)
        fold = self.seal._fold(self.timeline, min(room, most))
        return self._last_rung(fold.reach(), room)

    def _last_rung(self, cut: Cut, room: int) -> Sealed | None:
        """Squeeze the newest unit; then give up the ledger and the heads that are not required."""
        fold, _ = self._usual or (None, None)
        units, forms = self.timeline.pairing.units, self.seal.forms
        if fold is None or not units:
            return None
        last = len(units) - 1
        required = self._required()
        older = [units[at] for at in required if at != last]
        fronts = [list(map(forms.cleared, older))]
        if cut.at == last:
            heads = self.seal._fold(self.timeline, min(room, fold.room)).shown(cut)[:-1]
            fronts = [heads, list(map(forms.shown, older)), *fronts]
        for front in fronts:
            system = sum(piece.tokens for piece in self._all_system()) - self.fixed
            left = room - system - sum(piece.tokens for piece in front)
            while left >= 0 or last not in required:
                newest = forms.squeezed(units[last], left)
                end = [newest] if newest.tokens <= left else []
                if not end and last in required:
                    break
                pieces = [*self._all_system(), *front, *end]
                sealed = self._proven(pieces, cut, jumped=True, squeezed=True)
                if sealed is not None:
                    return sealed
                if not end:
                    break
                left = min(left, newest.tokens) - max(1, self._over)
        return None

    def _all_system(self) -> list[Form]:
        """Every system entry, in front: there is no room to leave them where they stood."""
        if self.seal.profile.hoists or not self.timeline.pairing.units:
            return [self.heading]
        start, made = self.timeline.pairing.units[0].start, self.seal.forms.made
        system = self.timeline.pairing.system
        return [self.heading, *(made((each,), (each,)) for at, each in system if at > start)]

    def _required(self) -> list[int]:
        """Positions of units that no rung may drop."""
        pairing = self.timeline.pairing
        units = pairing.units
        must = set(pairing.pinned) | set(pairing.barriers[-1:])
        if pairing.users:
            must.add(pairing.users[-1])
        if units and units[-1].kind != "assistant":
            must.add(len(units) - 1)
        if self.seal._preserve:
            first = len(self.timeline.entries) - self.seal._preserve
            must |= {
                at for at, unit in enumerate(units) if _reaches(unit.entries, first, unit.start)
            }
        barrier = pairing.barriers[-1] if pairing.barriers else 0
        return sorted(at for at in must if at >= barrier)

    def refusal(self) -> BudgetUnsatisfiableError:
        """What cannot be left out, and what it needs."""
        units, forms = self.timeline.pairing.units, self.seal.forms
        required = self._required()
        pieces = [forms.cleared(units[at]) for at in required]
        _, tokens = self._conformed([*self._all_system(), *pieces])
        irreducible: list[tuple[int | None, str, int]] = [
            (place, "system", self.seal.counter.count_entry(entry))
            for place, entry in self.timeline.pairing.system
        ]
        irreducible += [
            (units[at].start, str(units[at].head.role), piece.tokens)
            for at, piece in zip(required, pieces, strict=True)
        ]
        if self.state is not None and self.state.meter is not None and self._along is not None:
            self.room = self._along.limit - self._along.priced
            tokens = (
                round(self.state.meter.tokens(tokens + self._along.priced)) - self._along.priced
            )
        return BudgetUnsatisfiableError(max(tokens, self.room + 1), self.room, irreducible)

    def _pieces(self, fold: Fold, cut: Cut) -> list[Form]:
        pieces = [self.heading, *fold.shown(cut)]
        system, units = self.timeline.pairing.system, self.timeline.pairing.units
        if not system or self.seal.profile.hoists:
            return pieces
        if not units or system[-1][0] < units[0].start:
            return pieces
        return self._with_system(pieces, cut)

    def _with_system(self, pieces: list[Form], cut: Cut) -> list[Form]:
        """Put system entries between units where they stood; those before the cut in front."""
        units, made = self.timeline.pairing.units, self.seal.forms.made
        late = [each for each in self.timeline.pairing.system if each[0] > units[0].start]
        start = units[cut.at].start
        front = [made((entry,), (entry,)) for place, entry in late if place < start]
        rest = [(place, made((entry,), (entry,))) for place, entry in late if place > start]
        behind = len(units) - cut.at
        out = [pieces[0], *front, *pieces[1 : len(pieces) - behind]]
        for unit, piece in zip(units[cut.at :], pieces[len(pieces) - behind :], strict=True):
            while rest and rest[0][0] < unit.start:
                out.append(rest.pop(0)[1])
            out.append(piece)
        return [*out, *(piece for _, piece in rest)]

    def _conformed(self, pieces: Sequence[Form]) -> tuple[list[ConversationEntry], int]:
        profile = self.seal.profile
        self._flat = flat = [entry for piece in pieces for entry in piece.entries]
        tokens = sum(piece.tokens for piece in pieces)
        entries = flat
        concerned = reduce(or_, map(_concerned, pieces), 0)
        if not profile.holds_across(flat, self.tail, concerned):
            entries = profile.repair(flat, self.tail)
        if self.edited:
            entries = profile.settle(entries, 0, edited=True)
        if entries is not flat:
            known = {id(entry) for entry in flat}
            tokens = sum(
                sum(map(self.seal.counter.count_entry, run))
                if all(id(entry) in known for entry in run)
                else _proven_tokens(run, self.seal)
                for run in _runs(entries)
            )
        return entries, tokens

    def _proven(
        self, pieces: Sequence[Form], cut: Cut, *, jumped: bool, squeezed: bool = False
    ) -> Sealed | None:
        """The view of these pieces; None when it does not fit."""
        entries, tokens = self._conformed(pieces)
        self._over = tokens - self.room
        if tokens > self.room:
            return None
        units = self.timeline.pairing.units
        return Sealed(
            entries,
            tokens,
            self.seal._settled(entries, self._flat, self.timeline, self.edited, squeezed),
            units[cut.at].start if cut.at else 0,
            cut.at,
            cut.heads,
            jumped,
            self._flat,
        )


def _runs(entries: Sequence[ConversationEntry]) -> Iterator[Sequence[ConversationEntry]]:
    """Entries with what is written as they say: a result is written as its call asks for it."""
    start = 0
    for at, entry in enumerate(entries):
        if at > start and entry.role is not MessageRole.TOOL:
            yield entries[start:at]
            start = at
    yield entries[start:]


def _proven_tokens(run: Sequence[ConversationEntry], seal: Seal) -> int:
    """What a run costs in which a rule changed something, written; once."""
    dialect, counter = seal._dialect, seal.counter
    key = ("written", dialect and dialect.name, counter.name, *map(id, run))
    found: tuple[object, int] = remembered(
        run[0], key, lambda: (run, written_tokens(run, dialect, counter))
    )
    return found[1]  # holding the run keeps the ids in the key theirs


def _reaches(entries: Sequence[ConversationEntry], first: int, start: int) -> bool:
    return start + len(entries) > first


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
