"""The view of one request: the cut of the usual room, or of a smaller one where less is left.

A reserve, or a budget for one call, leaves a view less room than the cut was laid for. While the
view fits all the same nothing changes; otherwise this one is cut where a fold of a smaller room
cuts, and the usual fold goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

from history_curator.caching import Along, State, Track
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.timeline import Timeline
from history_curator.window._fold import Fold, Reached
from history_curator.window._forms import Form, written_tokens
from history_curator.window._jump import Cut

if TYPE_CHECKING:
    from history_curator.window._seal import Seal

Tail = Literal["request", "history"]

_entries, _tokens = map(attrgetter, ("entries", "tokens"))


class Found(NamedTuple):
    """A view that conforms.

    Attributes:
        cut: where it begins.
        entries: what is sent.
        flat: the same before the provider's rules looked at it as a whole.
        tokens: what it costs.
        smaller: whether it is that of a smaller room than the usual one.
        squeezed: whether its newest unit was squeezed to fit, or had to go.
    """

    cut: Cut
    entries: list[ConversationEntry]
    flat: list[ConversationEntry]
    tokens: int
    smaller: bool = False
    squeezed: bool = False


class View:
    """Looks for the view of one timeline, for one request.

    Args:
        seal: whose budget and rules hold.
        timeline: the conversation.
        heading: the system entries in front.
        fold: the fold of the usual room.
        tail: whether the view is about to be sent.
        budget: tokens for system entries and all else, by the settings.
        edited: whether managers edited or left out something.
    """

    def __init__(
        self,
        seal: Seal,
        timeline: Timeline,
        heading: Form,
        fold: Fold,
        tail: Tail,
        *,
        budget: int,
        edited: bool,
    ) -> None:
        self.seal = seal
        self.timeline = timeline
        self.heading = heading
        self.tail = tail
        self.edited = edited
        self.along: Along | None = None
        self.state: State | None = None
        self.kept = 0  # tokens that the fold counts beyond what is shown
        self.room = 0  # tokens for the view, system entries included
        self.likely = 0  # the same, where the provider most likely takes it
        self.left = 0  # tokens for the units, in the smallest room that was tried
        self.fixed = heading.tokens + self._behind()  # tokens of what is neither unit nor head
        self._usual = fold
        self._come = Reached()  # what the fold of the usual room comes to
        self._budget = budget

    def _behind(self) -> int:
        """What system entries cost that keep their place behind the last unit."""
        system, units = self.timeline.pairing.system, self.timeline.pairing.units
        if self.seal.profile.hoists or not units or not system or system[-1][0] < units[-1].start:
            return 0
        late = [entry for at, entry in system if at > units[-1].start]
        return sum(map(self.seal.counter.count_entry, late))

    def room_of(self, room: int, along: Along | None) -> int:
        """Return what the view may take: as it is stated, or as the provider's own counts leave it.

        Where that is too little even for what must stay, the provider may take it all the same.
        """
        self.likely = room
        self.along = along
        self._come = reached = self._usual.reach(self._track(along))
        if along is not None and along.is_cold(reached.state):
            place = self.timeline.pairing.units[-1].head.root.sequence
            self._come = reached = self._usual.reach(self._track(along.went_cold(place)))
        self.state = reached.state
        if along is not None and reached.state is not None and reached.state.meter is not None:
            meter = reached.state.meter
            shown = self.conformed(self._pieces(self._usual, reached), reached.cut).tokens
            self.kept = reached.size + self.fixed - shown
            self.likely = meter.likely(along.limit) - along.priced
            return meter.room(along.limit) - along.priced - self.kept
        return room

    def _track(self, along: Along | None) -> Track | None:
        if along is None or not self.timeline.pairing.units:
            return None
        assert self.seal.max_tokens is not None
        overhead = along.priced + self.heading.tokens
        late = self._late() if self.seal.profile.hoists else []
        early = self.heading.tokens - sum(tokens for _, tokens in late)
        room = self.seal.rounded(self._budget - early)
        return along.track(self.seal.max_tokens, overhead, room, late)

    def _late(self) -> list[tuple[int, int]]:
        """Where system entries came that stand in front all the same, and what they cost."""
        system, units = self.timeline.pairing.system, self.timeline.pairing.units
        return [
            (entry.root.sequence, self.seal.counter.count_entry(entry))
            for at, entry in system
            if at > units[0].start
        ]

    def find(self, room: int) -> Found | None:
        """Return the view of the first fold that fits; None where a jump does not help."""
        self.room = room
        return self._search()

    def _search(self, *, before: bool = False) -> Found | None:
        fold, smaller, self.left = self._usual, False, self.room - self.fixed
        while self.left > 0 or not smaller:
            reached = self._reached(fold, before=before)
            undivided = reached.cut.at == reached.first
            if smaller and reached.size > max(fold.room, self.left if undivided else 0):
                break
            found = self.conformed(self._pieces(fold, reached), reached.cut)
            if found.tokens <= self.room:
                return found._replace(smaller=smaller)
            if smaller:
                self.left -= max(1, found.tokens - self.room)
            fold, smaller = self.smaller(), True
        return None

    def _reached(self, fold: Fold, *, before: bool = False) -> Reached:
        reached = self._come if fold is self._usual else fold.reach()
        if before:
            reached = reached.before or Reached()
        return reached.shown(self.room - self.fixed)

    def smaller(self) -> Fold:
        """Return the fold of the room that is left; never a larger one than the usual."""
        most = max(self._usual.room, self._reached(self._usual).room)
        return self.seal.fold(self.timeline, min(self.left, most))

    def usual_entries(self) -> list[ConversationEntry]:
        """Return what the usual room shows, whether it fits this time or not."""
        pieces = self._pieces(self._usual, self._reached(self._usual))
        return list(chain.from_iterable(map(_entries, pieces)))

    def compacted(self, found: Found) -> bool:
        """Whether a view does not simply go on from that of the request before.

        That request was made before the newest answer, in a room like this one. Since then the cut
        moved, a result changed an older exchange, or a system entry came that moves to the front.
        """
        pairing = self.timeline.pairing
        at = pairing.newest_answer
        if at < 0:
            return False
        late = pairing.changed_units[-1:]
        if self.seal.profile.hoists:
            late = late + [place for place, _ in pairing.system[-1:]]
        start = pairing.units[at].start
        return any(place > start for place in late) or not self._goes_on(found)

    def _goes_on(self, found: Found) -> bool:
        """Whether a view begins with that of the request before; False where that is not known."""
        metered = self.state is not None and self.state.meter is not None  # its room varies
        if found.smaller and metered:
            return False
        ample = metered or self.room >= self._usual.room + self.fixed
        past = self._reached(self._usual, before=True)
        if ample and not found.smaller:
            if past.cut == found.cut:
                return True
            if past.cut.at != found.cut.at and (past.cut.recap or found.cut.recap):
                return False  # the recap tells of more; it need not be written again to see that
            earlier: Found | None = self.conformed(self._pieces(self._usual, past), past.cut)
        else:
            earlier = self._search(before=True)
        return earlier is not None and earlier.flat == found.flat[: len(earlier.flat)]

    def _pieces(self, fold: Fold, reached: Reached) -> list[Form]:
        cut, end = reached.cut, reached.end
        pieces = [self.heading, *fold.pieces(cut, end)]
        system, units = self.timeline.pairing.system, self.timeline.pairing.units
        if not system or self.seal.profile.hoists:
            return pieces
        if not units or system[-1][0] < units[0].start:
            return pieces
        return self._with_system(pieces, cut.at, end)

    def _with_system(self, pieces: list[Form], cut: int, end: int) -> list[Form]:
        """Put system entries between units where they stood; those before the cut in front."""
        units, made = self.timeline.pairing.units, self.seal.forms.made
        stop = units[end].start if end < len(units) else len(self.timeline.entries)
        late = [each for each in self.timeline.pairing.system if units[0].start < each[0] < stop]
        start, behind = units[cut].start, len(pieces) - (end - cut)
        front = [made((entry,), (entry,)) for place, entry in late if place < start]
        rest = [(place, made((entry,), (entry,))) for place, entry in late if place > start]
        out = [pieces[0], *front, *pieces[1:behind]]
        for unit, piece in zip(units[cut:end], pieces[behind:], strict=True):
            while rest and rest[0][0] < unit.start:
                out.append(rest.pop(0)[1])
            out.append(piece)
        return [*out, *(piece for _, piece in rest)]

    def conformed(self, pieces: Sequence[Form], cut: Cut) -> Found:
        """Return the view of these pieces, after the rules that look at all of it."""
        profile, count = self.seal.profile, self.seal.counter.count_entry
        flat = list(chain.from_iterable(map(_entries, pieces)))
        tokens = sum(map(_tokens, pieces))
        entries = profile.repair(flat, self.tail)
        if self.edited:
            entries = profile.settle_reasoning(entries, edited=True)
        if entries is not flat:
            known = {id(entry) for entry in flat}
            tokens = sum(
                sum(map(count, run))
                if all(id(entry) in known for entry in run)
                else _written(run, self.seal)
                for run in _runs(entries)
            )
        return Found(cut, entries, flat, tokens)


def _runs(entries: Sequence[ConversationEntry]) -> Iterator[Sequence[ConversationEntry]]:
    """Entries with what is written as they say: a result is written as its call asks for it."""
    start = 0
    for at, entry in enumerate(entries):
        if at > start and entry.role is not MessageRole.TOOL:
            yield entries[start:at]
            start = at
    yield entries[start:]


def _written(run: Sequence[ConversationEntry], seal: Seal) -> int:
    """What a run costs in which a rule changed something, written; once."""
    format, counter = seal.format, seal.counter
    return written_tokens(run, format, counter)
