"""Put a view together, apply the provider's rules, and prove the budget.

The cutoff is chosen for the usual budget. A reserve, or a budget for one call, may leave less. While
the usual view still fits, it is sent. Otherwise this one view gets the cutoff of a smaller budget,
and the next one does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from operator import attrgetter, is_, itemgetter
from typing import Literal, NamedTuple

from history_curator.entries import ConversationEntry
from history_curator.memo import Memo, Record
from history_curator.rules import ProviderProfile
from history_curator.tokens.estimate import Request
from history_curator.units import Pairing, Unit
from history_curator.window.cutoff import COMPACT_TO, Cutoff, WindowState, find_cutoff
from history_curator.window.recap import Recap
from history_curator.window.rendering import Renderer, Rendering
from history_curator.window.sizes import UnitSizes

Tail = Literal["request", "history"]

STEP = 0.02
"""The available tokens are rounded down to this share of the budget, so that a date in the system
prompt does not move the cutoff."""


@dataclass(frozen=True)
class WindowOptions:
    """How views are built, in every conversation.

    Attributes:
        profile: whose rules hold.
        budget: the budget that the cutoff is chosen for; None for no budget.
        compact_to: how full a compaction leaves the view.
        recap: whether a note lists removed messages.
        recall_tool: whether placeholders and the recap name handles; a text is the tool's name.
        preserve_last_n: the last n entries are never left out.
    """

    profile: ProviderProfile
    budget: int | None = None
    compact_to: float = COMPACT_TO
    recap: bool = True
    recall_tool: bool | str = False
    preserve_last_n: int = 0


@dataclass
class View:
    """A view that fits and conforms.

    Attributes:
        entries: what is sent.
        tokens: their exact count, without tools, reserve and priming.
        stable_entries: how many leading entries the next view repeats, unless it compacts.
        cutoff: position in the record of the first entry behind the cutoff; 0 when all is shown.
        kept_entries: positions in the record of entries before the cutoff that stay.
        compacted: whether this view does not simply go on from that of the request before.
        fitted: the entries before the provider's rules looked at them as a whole.
        is_smaller: whether it is shorter than the usual budget leaves it.
    """

    entries: list[ConversationEntry]
    tokens: int
    stable_entries: int
    cutoff: int = 0
    kept_entries: tuple[int, ...] = ()
    compacted: bool = False
    fitted: Sequence[ConversationEntry] = ()
    is_smaller: bool = False


class Candidate(NamedTuple):
    """A view that conforms and may fit.

    Attributes:
        cutoff: where it begins.
        entries: what is sent.
        flat: the same before the provider's rules looked at it as a whole.
        tokens: what it costs.
        is_smaller: whether it is that of less than the usual budget.
        is_shrunk: whether its newest unit was shrunk to fit, or had to go.
    """

    cutoff: Cutoff
    entries: list[ConversationEntry]
    flat: list[ConversationEntry]
    tokens: int
    is_smaller: bool = False
    is_shrunk: bool = False


class Piece(NamedTuple):
    """Entries that are shown together, bound to their messages, and their tokens."""

    entries: Sequence[ConversationEntry]
    sizes: Sequence[int]
    tokens: int


class ViewBuilder:
    """Builds the views of one record.

    Args:
        record: the conversation.
        memo: what is known of its messages.
        options: how views are built.
        tail: whether the view is about to be sent.
        edited: whether managers edited or left out something.
        previous: the request before, where usage reports say what was available then.
        cold_units: tells the units before which the provider's cache went cold.
    """

    def __init__(
        self,
        record: Record,
        memo: Memo,
        options: WindowOptions,
        tail: Tail,
        *,
        edited: bool = False,
        previous: Request | None = None,
        cold_units: Callable[[Pairing], Collection[int]] | None = None,
    ) -> None:
        self.record = record
        self.memo = memo
        self.options = options
        self.profile = options.profile
        self.tail = tail
        self.edited = edited
        self._previous = previous
        self.pairing = Pairing([facts.entry for facts in record.facts])
        self.renderer = Renderer(
            record, memo, options.profile, options.budget, recall_tool=options.recall_tool
        )
        self._cold_units = cold_units
        self._states: dict[int, tuple[WindowState, WindowState]] = {}

    def build_unlimited(self) -> View:
        """Return the view without a budget: everything, as the provider takes it."""
        pairing, record = self.pairing, self.record
        start = pairing.hard_starts[-1] if pairing.hard_starts else 0  # nothing before it is sent
        groups = [(unit.start, self._bind_unit(unit)) for unit in pairing.units[start:]]
        groups += [(index, [record.entry_at(index)]) for index, _ in pairing.system]
        groups.sort(key=itemgetter(0))
        entries = flat = list(chain.from_iterable([group for _, group in groups]))
        if len(record) or self.edited:
            entries = self.profile.repair(flat, self.tail, edited=self.edited)
        sizes = {id(record.entry_at(at)): self._count_at(at) for at in range(len(record))}
        found = Candidate(Cutoff(), entries, flat, self._count_shown(entries, sizes))
        return View(entries, found.tokens, self._stable_entries(found), fitted=flat)

    def build(self, usual: int, limit: int) -> View | None:
        """Return the view that fits; None where only a fallback can.

        Args:
            usual: tokens for all messages by the settings. The cutoff is chosen for these.
            limit: tokens for all messages this time. Where they are fewer, this one view is shorter.
        """
        self.usual = self._round_down(usual - self.heading.tokens)
        self.limit = limit
        found = self._search(self.usual, limit)
        return None if found is None else self.finish(found)

    def finish(self, found: Candidate) -> View:
        """Return a candidate as the view, with what the report says about it."""
        units, cutoff = self.pairing.units, found.cutoff
        stable = self._stable_entries(found)
        if found.is_smaller and not found.is_shrunk:
            stable = min(stable, _count_common(found.entries, self._usual_entries()))
        return View(
            found.entries,
            found.tokens,
            stable,
            units[cutoff.unit].start if cutoff.unit else 0,
            tuple([index for at in cutoff.kept_units for index in units[at].indexes if index >= 0]),
            self._is_compacted(found),
            found.flat,
            found.is_smaller,
        )

    @cached_property
    def heading(self) -> Piece:
        """The system entries that stand in front."""
        system, units = self.pairing.system, self.pairing.units
        if not self.profile.hoists and units:
            system = [each for each in system if each[0] < units[0].start]
        entries = [self.record.entry_at(index) for index, _ in system]
        sizes = {id(self.record.entry_at(index)): self._count_at(index) for index, _ in system}
        if entries[1:]:
            entries = self.profile.repair(entries, "history")
        shown = self.profile.repair_unit(tuple(entries))
        tokens = [self._count_shown((entry,), sizes) for entry in shown]
        return Piece(shown, tokens, sum(tokens))

    @cached_property
    def fixed_tokens(self) -> int:
        """Tokens of what is neither a unit nor a kept question: system entries in front or last."""
        system, units = self.pairing.system, self.pairing.units
        if self.profile.hoists or not units or not system or system[-1][0] < units[-1].start:
            return self.heading.tokens
        trailing = [index for index, _ in system if index > units[-1].start]
        return self.heading.tokens + sum(map(self._count_at, trailing))

    @cached_property
    def recap(self) -> Recap | None:
        """Sizes and writes the recap; None where none is wanted."""
        options = self.options
        if not options.recap or options.budget is None:
            return None
        return Recap(
            self.record,
            self.pairing,
            self._offsets,
            self.memo.counter,
            options.budget,
            recall_tool=options.recall_tool,
        )

    def state(self, available: int) -> tuple[WindowState, WindowState]:
        """Return what the units come to in so many tokens: now, and for the request before."""
        found = self._states.get(available)
        if found is None:
            options = self.options
            assert options.budget is not None
            found = find_cutoff(self._sizes, available, options.compact_to, options.budget)
            self._states[available] = found
        return found

    def state_for_less(self, remaining: int) -> tuple[WindowState, WindowState, int]:
        """Return the same where only so many tokens remain for the units, and how many count."""
        available = self._round_down(min(remaining, self.usual))
        return (*self.state(available), available)

    def pieces(self, state: WindowState) -> list[Piece]:
        """Return what is shown: system entries, kept questions, recap, and units in order."""
        cutoff, units = state.cutoff, self.pairing.units
        kept_pieces = [self._build_piece(at, cutoff) for at in cutoff.kept_units]
        if self.recap is not None and cutoff.recap_tokens:
            note = self.recap.write(cutoff)
            if note is not None:
                kept_pieces.append(self.piece_of((note,)))
        shown = [self._build_piece(at, cutoff) for at in range(cutoff.unit, state.end)]
        system = self.pairing.system
        if self.profile.hoists or not units or not system or system[-1][0] < units[0].start:
            return [self.heading, *kept_pieces, *shown]
        return self._place_late_system(kept_pieces, shown, cutoff.unit, state.end)

    def piece_of(self, entries: tuple[ConversationEntry, ...]) -> Piece:
        """Return entries of ours as a piece, after the rules that hold in a unit by itself."""
        rendering = self.renderer.render_entries(entries)
        return Piece(rendering.entries, rendering.sizes, rendering.tokens)

    def unit_piece(self, rendering: Rendering, unit: Unit) -> Piece:
        """Return a rendered unit, bound to its messages."""
        bound = self.renderer.bind(rendering, unit.indexes)
        return Piece(bound, rendering.sizes, rendering.tokens)

    def system_pieces(self) -> list[Piece]:
        """Return every system entry, in front: there may be no space to leave them in place."""
        pairing = self.pairing
        if self.profile.hoists or not pairing.units:
            return [self.heading]
        start = pairing.units[0].start
        late = [index for index, _ in pairing.system if index > start]
        return [self.heading, *[self.piece_of((self.record.entry_at(at),)) for at in late]]

    def conform(self, pieces: Sequence[Piece], cutoff: Cutoff) -> Candidate:
        """Return the view of these pieces, after the rules that look at all of it."""
        flat = list(chain.from_iterable([piece.entries for piece in pieces]))
        sizes = dict(
            zip(map(id, flat), chain.from_iterable([piece.sizes for piece in pieces]), strict=True)
        )
        entries = self.profile.repair(flat, self.tail, is_valid=lambda entry: id(entry) in sizes)
        if self.edited:
            entries = self.profile.settle_reasoning(entries, 0, edited=True)
        if entries is flat:
            return Candidate(cutoff, flat, flat, sum([piece.tokens for piece in pieces]))
        return Candidate(cutoff, entries, flat, self._count_shown(entries, sizes))

    def _search(self, usual: int, limit: int, *, previous: bool = False) -> Candidate | None:
        """Return the first view that fits: of the usual budget, else of less and less."""
        states, smaller, remaining, available = (
            self.state(usual),
            False,
            limit - self.fixed_tokens,
            usual,
        )
        while remaining > 0 or not smaller:
            state = states[previous].restore_if_all_fits(limit - self.fixed_tokens)
            everything = state.cutoff.unit == state.first_allowed
            if smaller and state.tokens > max(available, remaining if everything else 0):
                break
            found = self.conform(self.pieces(state), state.cutoff)
            if found.tokens <= limit:
                self.remaining = remaining
                return found._replace(is_smaller=smaller)
            if smaller:
                remaining -= max(1, found.tokens - limit)
            now, before, available = self.state_for_less(remaining)
            states, smaller = (now, before), True
        self.remaining = remaining
        return None

    def _usual_entries(self) -> list[ConversationEntry]:
        """Return what the usual budget shows, whether it fits this time or not."""
        state = self.state(self.usual)[0].restore_if_all_fits(self.limit - self.fixed_tokens)
        return list(chain.from_iterable([piece.entries for piece in self.pieces(state)]))

    def _is_compacted(self, found: Candidate) -> bool:
        """Whether a view does not simply go on from that of the request before.

        That request was made before the newest answer, in a budget like this one. Since then the
        cutoff moved, a result changed an older exchange, or a system entry that moves in front was added.
        """
        pairing = self.pairing
        answer = pairing.newest_answer
        if answer < 0:
            return False
        changes = pairing.late_results[-1:]
        if self.profile.hoists:
            changes = changes + [index for index, _ in pairing.system[-1:]]
        start = pairing.units[answer].start
        return any(index > start for index in changes) or not self._extends_previous_view(found)

    def _extends_previous_view(self, found: Candidate) -> bool:
        usual, limit = self.usual, self.limit
        if self._previous is not None and self._previous.anchor is not None:
            usual = self._round_down(self._previous.usual - self.heading.tokens)
            limit = self._previous.available
        past = self.state(usual)[1].restore_if_all_fits(limit - self.fixed_tokens)
        if limit >= usual + self.fixed_tokens and not found.is_smaller:
            if past.cutoff == found.cutoff:
                return True
            recaps = past.cutoff.recap_tokens or found.cutoff.recap_tokens
            if past.cutoff.unit != found.cutoff.unit and recaps:
                return False  # the recap tells of more; it need not be written to see that
            earlier: Candidate | None = self.conform(self.pieces(past), past.cutoff)
        else:
            earlier = self._search(usual, limit, previous=True)
        return earlier is not None and earlier.flat == found.flat[: len(earlier.flat)]

    def _stable_entries(self, found: Candidate) -> int:
        """Return how many leading entries the next view repeats unless it compacts."""
        pairing, entries = self.pairing, found.entries
        units = [pairing.units[at] for at in pairing.incomplete_units]
        if found.is_shrunk:
            units.append(pairing.units[-1])
        changing = {
            id(self.record.entry_at(index).root)
            for unit in units
            for index in unit.indexes
            if index >= 0
        }
        end = next(
            (at for at, entry in enumerate(entries) if changing and id(entry.root) in changing),
            len(entries),
        )
        repaired = not _is_same(entries, found.flat)
        if self.profile.strips and (self.edited or repaired) and pairing.units:
            thinking = (at for at, entry in enumerate(entries) if entry.reasoning)
            end = min(end, next(thinking, len(entries)))
        if end == len(entries):
            while end and entries[end - 1].origin is not None:  # it ends the view, not the record
                end -= 1
            end -= self.profile.merges
        return max(0, end)

    def _place_late_system(
        self, kept_pieces: list[Piece], shown: list[Piece], cutoff: int, end: int
    ) -> list[Piece]:
        """Put system entries between units where they stood; those before the cutoff in front."""
        units, record = self.pairing.units, self.record
        stop = units[end].start if end < len(units) else len(record)
        start = units[cutoff].start if cutoff < len(units) else stop
        late = [index for index, _ in self.pairing.system if units[0].start < index < stop]
        front = [self.piece_of((record.entry_at(at),)) for at in late if at < start]
        waiting = [at for at in late if at > start][::-1]
        out = [self.heading, *front, *kept_pieces]
        for unit, piece in zip(units[cutoff:end], shown, strict=True):
            while waiting and waiting[-1] < unit.start:
                out.append(self.piece_of((record.entry_at(waiting.pop()),)))
            out.append(piece)
        return [*out, *[self.piece_of((record.entry_at(at),)) for at in reversed(waiting)]]

    def _build_piece(self, position: int, cutoff: Cutoff) -> Piece:
        unit, renderer = self.pairing.units[position], self.renderer
        if position < cutoff.reasoning_from:
            return self.unit_piece(renderer.render_without_reasoning(unit), unit)
        return self.unit_piece(renderer.render_full(unit), unit)

    @cached_property
    def _offsets(self) -> list[int]:
        """Cheap size, in characters, of everything recorded before each unit."""
        total = [0, *accumulate(map(attrgetter("weight"), self.record.facts))]
        return [total[unit.start] for unit in self.pairing.units]

    @cached_property
    def _sizes(self) -> UnitSizes:
        return UnitSizes(
            self.pairing,
            self._offsets,
            self.renderer,
            self.recap,
            cold=() if self._cold_units is None else self._cold_units(self.pairing),
            preserve_last_n=self.options.preserve_last_n,
        )

    def _round_down(self, available: int) -> int:
        assert self.options.budget is not None
        step = max(1, int(self.options.budget * STEP))
        return max(1, available // step * step)

    def _count_at(self, index: int) -> int:
        return self.memo.count(self.record.facts[index])

    def _count_shown(self, entries: Sequence[ConversationEntry], sizes: Mapping[int, int]) -> int:
        """Return the tokens of entries; ``sizes`` has those of known ones, by identity."""
        tokens, count = 0, self.memo.counter.count_entry
        for entry in entries:
            size = sizes.get(id(entry))
            tokens += count(entry) if size is None else size
        return tokens

    def _bind_unit(self, unit: Unit) -> list[ConversationEntry]:
        """Return the entries of a unit, bound to their messages."""
        rendering = Rendering(unit.entries, (), 0)
        return self.renderer.bind(rendering, unit.indexes)


def _is_same(one: Sequence[ConversationEntry], other: Sequence[ConversationEntry]) -> bool:
    return one is other or (len(one) == len(other) and all(map(is_, one, other)))


def _count_common(one: Sequence[ConversationEntry], other: Sequence[ConversationEntry]) -> int:
    count = 0
    for mine, yours in zip(one, other, strict=False):
        if mine is not yours:
            break
        count += 1
    return count
