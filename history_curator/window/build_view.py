"""Put a view together, apply the provider's rules, and prove the budget.

The cutoff is chosen for the usual budget. A reserve, or a budget for one call, may leave less. While
the usual view still fits, it is sent. Otherwise this one view gets the cutoff of a smaller budget,
and the next one does not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.memo import Memo, Record
from history_curator.rules import ProviderProfile, Tail
from history_curator.tokens.estimate import Request
from history_curator.window.cutoff import ANSWERED, Cutoff, UnitSizes, WindowState, find_cutoff
from history_curator.window.fallback import shrink_newest
from history_curator.window.recap import Recap
from history_curator.window.rendering import Renderer, Rendering, WindowOptions

STEP = 0.02
"""The available tokens are rounded down to this share of the budget, so that a date in the system
prompt does not move the cutoff."""
NO_RULES = ProviderProfile("none", ())


class View(NamedTuple):
    """A view that fits and conforms."""

    entries: list[ConversationEntry]
    fitted: Sequence[ConversationEntry] = ()  # before the rules looked at them as a whole
    tokens: int = 0  # without tools, reserve and priming
    cutoff: Cutoff = Cutoff()
    is_smaller: bool = False  # than the usual budget leaves it
    is_shrunk: bool = False  # its newest unit was shrunk to fit, or had to go
    stable_entries: int = 0  # the next view repeats them, unless it compacts
    cutoff_index: int = 0  # position in the record of the first entry behind the cutoff
    kept_entries: tuple[int, ...] = ()  # positions in the record of those before it that stay
    compacted: bool = False  # it does not simply go on from that of the request before


class Block(NamedTuple):
    """A text of ours for a view, the position of the recorded entry it goes before, and the reason."""

    text: str
    before: int
    reason: str


@dataclass(eq=False)
class ViewBuilder:
    """Builds the views of one record."""

    record: Record
    memo: Memo
    options: WindowOptions
    tail: Tail
    edited: bool = False  # managers edited or left out something
    previous: Request | None = None  # the one before, where reports say what was available then
    cold_units: Collection[int] = ()  # before which the provider's cache went cold
    query: str = ""  # the user's question, where it is not recorded yet

    def __post_init__(self) -> None:
        self.profile, self.pairing = self.options.profile, self.record.pairing
        self.renderer = Renderer(self.record, self.memo, self.options)
        self._recap = Recap(self.record, self.memo.counter, self.options)
        self._aside = 0  # tokens set aside for a block
        self._states: dict[int, tuple[WindowState, WindowState]] = {}

    def build_unlimited(self) -> View:
        """Return the view without a budget: everything, as the provider takes it."""
        if not len(self.record) and not self.edited:  # an empty history stays empty
            return View([])
        start = max(self.pairing.barriers, default=0)  # nothing before it is sent
        shown = WindowState(len(self.pairing.units), Cutoff(start))
        view = self.apply_rules(self.pieces(shown), shown.cutoff)
        return view._replace(stable_entries=self._count_stable(view))

    def fit_with_block(self, usual: int, limit: int, likely_limit: int = 0) -> View:
        """Return the view that fits, with a block where the retriever finds something.

        The tokens of the block are set aside whether there is one or not, so everything before it is
        repeated on the next call. The arguments are those of `fit`.
        """
        retriever, aside = self.options.retriever, self.options.count_aside(self.pairing)
        self._aside = aside
        view = self.fit(usual - aside, limit, likely_limit)
        if retriever is None or (aside and not view.cutoff_index):
            return view
        if not aside:  # once a tool is called, nothing is set aside any more
            is_changed = view.compacted or not self._extends_chat(view, usual, limit)
            return view._replace(compacted=is_changed)
        if view.is_shrunk:
            return self.fit(usual, limit, likely_limit)
        block = retriever.find(self, view, limit, aside)
        return view if block is None else self._add_block(view, block, limit)

    def fit(self, usual: int, limit: int, likely_limit: int = 0) -> View:
        """Return the view that fits, or raise an error with the numbers of the messages alone.

        The cutoff is chosen for the `usual` tokens of the settings. Where the `limit` of this call is
        lower, this one view is shorter. `likely_limit` most likely fits, by a prediction.
        """
        if not len(self.record) and not self.edited:  # an empty history stays empty
            return View([])
        self.usual = self._round_down(usual - self.heading.tokens)
        self.limit = limit
        view = self._search(self.usual, limit) or shrink_newest(self, likely_limit)
        units, cutoff = self.pairing.units, view.cutoff
        stable = self._count_stable(view)
        if view.is_smaller and not view.is_shrunk:
            state = self.find_state(self.usual).restore_if_all_fits(limit - self.fixed_tokens)
            usual_entries = list(chain.from_iterable([each.entries for each in self.pieces(state)]))
            stable = min(stable, count_common(view.entries, usual_entries))
        kept = [index for at in cutoff.kept_units for index in units[at].indexes if index >= 0]
        return view._replace(
            stable_entries=stable,
            cutoff_index=units[cutoff.unit].start if cutoff.unit else 0,
            kept_entries=tuple(kept),
            compacted=self._is_compacted(view),
        )

    @cached_property
    def late_system(self) -> list[int]:
        """Positions in the record of system entries that keep their place among the units."""
        units = self.pairing.units
        if self.profile.hoists or not units:
            return []
        return [index for index, _ in self.pairing.system if index > units[0].start]

    @cached_property
    def heading(self) -> Rendering:
        """The system entries that stand in front."""
        late = self.late_system
        indexes = [index for index, _ in self.pairing.system if index not in late]
        entries = [self.record.entry_at(index) for index in indexes]
        sizes = {id(self.record.entry_at(index)): self._count_at(index) for index in indexes}
        if entries[1:]:
            entries = self.profile.repair(entries, "history")
        shown = self.profile.repair_unit(tuple(entries))
        tokens = [self._count_shown((entry,), sizes) for entry in shown]
        return Rendering(shown, tokens, sum(tokens))

    @cached_property
    def fixed_tokens(self) -> int:
        """Tokens of what is neither a unit nor a kept question: system entries in front or last."""
        last = self.pairing.units[-1].start if self.pairing.units else 0
        trailing = [self._count_at(index) for index in self.late_system if index > last]
        return self.heading.tokens + sum(trailing)

    def find_state(self, available: int, *, previous: bool = False) -> WindowState:
        """Return the cutoff, and the size of what it shows, for a budget: now, or at the last request."""
        if available not in self._states:
            self._states[available] = find_cutoff(self._sizes, available)
        return self._states[available][previous]

    def round_remaining(self, remaining: int) -> int:
        """Return a budget for `find_state`: the tokens that remain, at most the usual, rounded down."""
        return self._round_down(min(remaining, self.usual))

    def pieces(self, state: WindowState) -> list[Rendering]:
        """Return what is shown: system entries, kept questions, recap, and units in order."""
        cutoff = state.cutoff
        notes = self._recap.write(cutoff)
        following = zip(cutoff.kept_units, (*cutoff.kept_units[1:], cutoff.unit), strict=False)
        front = [
            *[(note.before, 0, self.renderer.render_entries((note.entry,))) for note in notes],
            *[(at, 1, self._show_kept(at, after, cutoff)) for at, after in following],
        ]
        kept = [piece for *_, piece in sorted(front, key=lambda each: each[:2])]
        shown = [self._show_unit(at, cutoff) for at in range(cutoff.unit, state.end)]
        if not self.late_system:
            return [self.heading, *kept, *shown]
        return self._place_late_system(kept, shown, cutoff.unit, state.end)

    def system_pieces(self) -> list[Rendering]:
        """Return every system entry, in front: there may be no space to leave them in place."""
        return [self.heading, *map(self._show_system, self.late_system)]

    def apply_rules(self, pieces: Sequence[Rendering], cutoff: Cutoff) -> View:
        """Return the view of these pieces, after the rules that look at all of it."""
        flat = list(chain.from_iterable([piece.entries for piece in pieces]))
        sizes = dict(
            zip(map(id, flat), chain.from_iterable([piece.sizes for piece in pieces]), strict=True)
        )
        entries = self.profile.repair(flat, self.tail, is_valid=lambda entry: id(entry) in sizes)
        if self.edited:
            entries = self.profile.settle_reasoning(entries)
        if entries is flat:
            return View(flat, flat, sum([piece.tokens for piece in pieces]), cutoff)
        return View(entries, flat, self._count_shown(entries, sizes), cutoff)

    def _search(self, usual: int, limit: int, *, previous: bool = False) -> View | None:
        """Return the first view that fits: of the usual budget, else of less and less."""
        smaller, available, remaining = False, usual, limit - self.fixed_tokens
        while remaining > 0 or not smaller:
            state = self.find_state(available, previous=previous)
            state = state.restore_if_all_fits(limit - self.fixed_tokens)
            everything = state.cutoff.unit == state.first_allowed
            if smaller and state.tokens > max(available, remaining if everything else 0):
                break
            found = self.apply_rules(self.pieces(state), state.cutoff)
            if found.tokens <= limit:
                self.remaining = remaining
                return found._replace(is_smaller=smaller)
            if smaller:
                remaining -= max(1, found.tokens - limit)
            smaller, available = True, self.round_remaining(remaining)
        self.remaining = remaining
        return None

    def _is_compacted(self, view: View) -> bool:
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
        return any(index > start for index in changes) or not self._extends_previous_view(view)

    def _extends_previous_view(self, view: View) -> bool:
        usual, limit = self.usual, self.limit
        if self.previous is not None and self.previous.anchor is not None:
            usual = self._round_down(self.previous.usual - self._aside - self.heading.tokens)
            limit = self.previous.available
        past = self.find_state(usual, previous=True)
        past = past.restore_if_all_fits(limit - self.fixed_tokens)
        fits = past.tokens <= limit - self.fixed_tokens and not view.is_smaller
        if fits and past.cutoff == view.cutoff:
            return True
        earlier = self._search(usual, limit, previous=True)
        return earlier is not None and earlier.fitted == view.fitted[: len(earlier.fitted)]

    def _extends_chat(self, view: View, usual: int, limit: int) -> bool:
        """Whether a view goes on from that of the chat, where the newest answer calls the first tool."""
        units, answer = self.pairing.units, max(0, self.pairing.newest_answer)
        exchanges = (at for at, unit in enumerate(units) if unit.kind == "exchange")
        if next(exchanges, -1) < answer:
            return True
        start = units[answer].start
        chat = ViewBuilder(self.record.first(start), self.memo, self.options, "request")
        try:
            earlier = chat.fit_with_block(usual, limit)
        except BudgetUnsatisfiableError:
            return True
        return list(earlier.fitted) == list(view.fitted[: len(earlier.fitted)])

    def _add_block(self, view: View, block: Block, limit: int) -> View:
        """Return a view with a block, before a recorded entry or at the end, where it fits."""
        record, flat, count = self.record, list(view.fitted), self.memo.counter.count_entry
        root = record.entry_at(block.before).root if block.before < len(record) else None
        place = next((at for at, entry in enumerate(flat) if entry.root is root), len(flat))
        note = ConversationEntry(
            MessageRole.USER,
            block.text,
            # That of its neighbour, so that the order holds where a provider joins the two.
            sequence=flat[min(place, len(flat) - 1)].sequence,
            pinned=True,
            origin="recollection",
            action="inserted",
            reason=block.reason,
        )
        flat.insert(place, note)
        rendered = set(map(id, flat))  # each of these was judged alone when it was rendered
        entries = self.profile.repair(
            flat, self.tail, edited=self.edited, is_valid=lambda entry: id(entry) in rendered
        )
        was, now = {id(entry) for entry in view.entries}, {id(entry) for entry in entries}
        tokens = view.tokens + sum(count(entry) for entry in entries if id(entry) not in was)
        tokens -= sum(count(entry) for entry in view.entries if id(entry) not in now)
        if tokens > limit:
            return view
        stable = min(view.stable_entries, count_common(entries, view.entries))
        return view._replace(entries=entries, fitted=flat, tokens=tokens, stable_entries=stable)

    def _count_stable(self, view: View) -> int:
        """Return how many leading entries the next view repeats unless it compacts."""
        pairing, entries, end = self.pairing, view.entries, len(view.entries)
        waiting = [pairing.units[at] for at in pairing.waiting]
        units = [*waiting, *(pairing.units[-1:] if view.is_shrunk else ())]
        indexes = [index for unit in units for index in unit.indexes if index >= 0]
        changing = {id(self.record.entry_at(index).root) for index in indexes}
        if changing:
            found = (at for at, entry in enumerate(entries) if id(entry.root) in changing)
            end = next(found, end)
        repaired = entries is not view.fitted and (
            count_common(entries, view.fitted) < max(len(entries), len(view.fitted))
        )
        if self.profile.strips and (self.edited or repaired) and pairing.units:
            thinking = (at for at, entry in enumerate(entries) if entry.reasoning)
            end = min(end, next(thinking, len(entries)))
        if end == len(entries):
            while end and entries[end - 1].origin is not None:  # it ends the view, not the record
                end -= 1
            if self.profile.merges:  # the next message may be joined to the last one
                end -= 1
        return max(0, end)

    def _place_late_system(
        self, kept: list[Rendering], shown: list[Rendering], cutoff: int, end: int
    ) -> list[Rendering]:
        """Put system entries between units where they stood; those before the cutoff in front."""
        units = self.pairing.units
        stop = units[end].start if end < len(units) else len(self.record)
        start = units[cutoff].start if cutoff < len(units) else stop
        late = [(index, self._show_system(index)) for index in self.late_system if index < stop]
        front = [piece for index, piece in late if index < start]
        placed = [(unit.start, piece) for unit, piece in zip(units[cutoff:end], shown, strict=True)]
        placed += [each for each in late if each[0] > start]
        placed.sort(key=lambda each: each[0])
        return [self.heading, *front, *kept, *[piece for _, piece in placed]]

    def _show_unit(self, position: int, cutoff: Cutoff) -> Rendering:
        unit, renderer = self.pairing.units[position], self.renderer
        if position < cutoff.reasoning_from:
            return renderer.bind(renderer.render_without_reasoning(unit), unit)
        return renderer.bind(renderer.render_full(unit), unit)

    def _show_kept(self, position: int, following: int, cutoff: Cutoff) -> Rendering:
        """Return a unit before the cutoff that stays, and after a question that it was answered.

        `following` is the unit that is shown next.
        """
        piece, units = self._show_unit(position, cutoff), self.pairing.units
        is_open = following < len(units) and units[following].kind != "user"
        is_question = units[position].kind == "user" and not units[position].head.pinned
        if not is_question or following == position + 1 or is_open:
            return piece
        answered = self.renderer.render_entries((ANSWERED,))
        return Rendering(
            (*piece.entries, *answered.entries),
            (*piece.sizes, *answered.sizes),
            piece.tokens + answered.tokens,
        )

    def _show_system(self, index: int) -> Rendering:
        return self.renderer.render_entries((self.record.entry_at(index),))

    @cached_property
    def _sizes(self) -> UnitSizes:
        return UnitSizes(self.renderer, self.late_system, self._recap.size, self.cold_units)

    def _round_down(self, available: int) -> int:
        assert self.options.budget is not None
        step = max(1, int(self.options.budget * STEP))
        return max(1, available // step * step)

    def _count_at(self, index: int) -> int:
        return self.memo.count(self.record.facts[index])

    def _count_shown(self, entries: Sequence[ConversationEntry], sizes: Mapping[int, int]) -> int:
        """Return the tokens of entries; ``sizes`` has those of known ones, by identity."""
        count = self.memo.counter.count_entry
        return sum([sizes[id(each)] if id(each) in sizes else count(each) for each in entries])


def count_common(one: Sequence[ConversationEntry], other: Sequence[ConversationEntry]) -> int:
    """Return how many leading entries two views share."""
    pairs = enumerate(zip(one, other, strict=False))
    changed = (count for count, (mine, yours) in pairs if mine is not yours)
    return next(changed, min(len(one), len(other)))
