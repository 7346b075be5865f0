"""One request: what was asked for, and what the provider says about views of its conversation."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from history_curator.caching import Along, State, cache_key, mark_of
from history_curator.formats import MessageFormat, model_of
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.report import CurationReport, Step
from history_curator.rules import ProviderProfile
from history_curator.window import Sealed, Tail
from history_curator.timeline import Conversation, Timeline
from history_curator.tokens import Report, TokenCounter, Usage, read_usage

if TYPE_CHECKING:
    from history_curator.curator import Curator

_TTL = {"anthropic": 300.0, "bedrock": 300.0}
"""Seconds a provider keeps a prefix, where nothing reported says better."""


class Options(NamedTuple):
    """What `curate` was called with, beside the messages."""

    tools: Sequence[Mapping[str, Any]] | None
    reserve: int
    tail: Tail | None
    session: Any
    max_tokens: int | None
    format: MessageFormat | None
    query: str | None
    key: Hashable
    idle: float | None = None


class Request:
    """One call of `curate`, after reading.

    Attributes:
        record: what was recorded; the list may grow on behind `count`.
        count: how many entries there are.
        limit: the budget of this call.
        usual: the budget that the cut is laid for.
        priced: tokens of tools and priming.
        reserve: tokens that are left free.
        tail: whether the view is about to be sent.
        session: what the caller passed for managers and events.
        warnings: what the report shows.
        compactions: managers whose cut moved.

    Args:
        curator: who makes the view.
        conversation: whose view is made.
        options: what `curate` was called with.
        tools: tokens of the tools that are sent along.
    """

    def __init__(
        self, curator: Curator, conversation: Conversation, options: Options, tools: int
    ) -> None:
        self.record = conversation.record.entries
        self.count = len(self.record)
        self.limit = curator.max_tokens if options.max_tokens is None else options.max_tokens
        self.usual = self.limit
        if self.limit is not None and curator.max_tokens is not None:
            self.usual = max(self.limit, curator.max_tokens)
        self.priced = curator.counter.priming + tools
        self.reserve = options.reserve
        self.tail = options.tail or tail_of(self.record)
        self.session = options.session
        self.warnings: list[str] = []
        self.compactions: list[str] = []
        self._idle, self._name = options.idle, options.key
        self._calibration, self._reports = curator.calibration, curator._reports
        self._asked: str | None = getattr(curator.counter, "model", None)
        self._ttl = _TTL.get(curator.profile.name)
        self._conversation = conversation
        # Held, because the conversation may be somebody else's when something is reported.
        self._place = len(conversation.seen)
        self._last = self._said_at(self._place)

    @property
    def name(self) -> Hashable:
        """The conversation: its key, or how it begins."""
        if self._name is None:
            self._name = cache_key(self.record)
        return self._name

    def along(self, limit: int) -> Along:
        """Return what goes along with the fold, in a limit."""
        along = Along(
            None if self._calibration is None else self._calibration.known,
            limit - self.reserve, self.priced, self._ttl,
            idle=self._idle, note=self._note_cold, asked=self._asked,
        )  # fmt: skip
        if not len(self._reports):
            return along
        observed, cold, shorter = self._reports.of(self.name, self._mark)
        return along._replace(observed=observed, cold=cold, shorter=shorter)

    def predicted(self, state: State | None, counted: int, kept: int) -> tuple[int, int | None]:
        """Return what the provider will count for a view, and by how much it may be more.

        Args:
            state: what is known.
            counted: the view as we count it.
            kept: what the fold keeps free in it, and counts as well.
        """
        if state is None or state.meter is None:
            return counted, None
        meter = state.meter
        return round(meter.tokens(counted + kept)), math.ceil(meter.error(counted + kept))

    def note(self, counted: int, *, shorter: bool) -> None:
        """Remember what a view takes that is shorter than the cut leaves it.

        The message that answers it may carry what was reported, but not what that was for.
        """
        if self._calibration is None or self._last is None:
            return
        if shorter or len(self._reports):
            last, size = self._last
            place = (self._place, mark_of(last) ^ size)
            self._reports.add_shorter(self.name, place, counted if shorter else None)

    def observing(self, counted: int) -> Callable[[Any, str | None], None] | None:
        """Return what takes the report for a view that we count so."""
        calibration = self._calibration
        if calibration is None or self._last is None:
            return None
        place, (last, size), reports = self._place, self._last, self._reports
        key, entries = self._name, self.record

        def observe(given: Any, model: str | None) -> None:
            usage = given if isinstance(given, Usage) else read_usage(given)
            if usage is None:
                return
            who, name = model or model_of(given), cache_key(entries) if key is None else key
            calibration.observe(who or calibration.counter, counted, usage, key=name)
            reports.add(name, (place, mark_of(last) ^ size), Report(usage, counted, who))

        return observe

    def _mark(self, place: int) -> int | None:
        """Return the mark of the record at a place; None where it has none.

        It tells apart what begins alike and says the same last: by how much was said between.
        """
        found = self._said_at(place)
        return None if found is None else mark_of(found[0]) ^ found[1]

    def _said_at(self, place: int) -> tuple[ConversationEntry, int] | None:
        """The last entry of the record at a place, and how much was said before it."""
        conversation = self._conversation
        if not 0 < place <= len(conversation.seen):
            return None
        entries = conversation.entries_at(place - 1)
        return (entries[-1], conversation.size_before(place - 1)) if entries else None

    def _note_cold(self, place: int) -> None:
        mark = self._mark(place)
        if mark is not None:
            self._reports.add_cold(self.name, (place, mark))


def tail_of(record: Sequence[ConversationEntry]) -> Tail:
    """Return what a caller who does not say so is about to do.

    A conversation in which the assistant had the last word is a record, not a request.
    """
    for entry in reversed(record):
        if entry.role is not MessageRole.SYSTEM:
            answered = entry.role is MessageRole.ASSISTANT and not entry.tool_calls
            return "history" if answered else "request"
    return "history"


class ConstantReason(dict[int, str]):
    """One reason for whatever is asked."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self._reason = reason

    def get(self, key: int, default: Any = None) -> Any:
        return self._reason


_OLD = ConstantReason("before the cut: the budget is reached")


def left_out(timeline: Timeline) -> dict[int, str]:
    """Return positions of what pairing could not use, with the reasons."""
    pairing = timeline.pairing
    if not pairing.orphans and not pairing.replaced:
        return {}
    left = dict(pairing.orphans)
    replaced = {id(entry.root) for entry in pairing.replaced}
    for index, entry in enumerate(timeline.entries):
        if id(entry.root) in replaced:
            left[index] = "a later result for the same call took its place"
    return left


def explain(
    request: Request,
    sealed: Sealed,
    steps: Sequence[Step],
    orphans: dict[int, str],
    *,
    counter: TokenCounter,
    profile: ProviderProfile,
    managers: Sequence[Any],
    mode: str,
) -> CurationReport:
    """Return the report of a view."""
    mine = [Step("seal", sealed.entries)]
    if request.limit is not None:
        mine.insert(0, Step("budget", sealed.fitted, _OLD))
    return CurationReport(
        record=request.record,
        count=request.count,
        view=sealed.entries,
        steps=[*steps, *mine],
        counter=counter,
        tokens=sealed.tokens + request.priced,
        max_tokens=request.limit,
        overhead=request.priced + request.reserve,
        provider=profile.name,
        strategy="+".join(type(each).__name__ for each in managers) or "budget",
        settled=sealed.settled,
        cut=sealed.cut,
        compacted=sealed.compacted or bool(request.compactions),
        orphans=orphans,
        mode=mode,
        warnings=request.warnings,
    )
