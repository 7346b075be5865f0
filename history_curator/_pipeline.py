"""What happens to one request on its way from messages to view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from history_curator.dialect import Dialect
from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry, MessageRole
from history_curator.profiles import ProviderProfile
from history_curator.report import CurationReport, Step
from history_curator.seal import Sealed
from history_curator.structure import Timeline, pair
from history_curator.tokens import TokenCounter

Tail = Literal["request", "history"]


class Options(NamedTuple):
    """What `curate` was called with, beside the messages."""

    tools: Sequence[Mapping[str, Any]] | None
    reserve: int
    tail: Tail
    session: Any
    max_tokens: int | None
    dialect: Dialect | None
    query: str | None = None


@dataclass(slots=True)
class Request:
    """One call of `curate`, after reading."""

    options: Options
    dialect: Dialect
    messages: list[Any]
    timeline: Timeline
    record: list[ConversationEntry]
    count: int
    overhead: int
    priced: int
    max_tokens: int | None
    warnings: list[str]

    @property
    def room(self) -> int | None:
        return None if self.max_tokens is None else self.max_tokens - self.overhead


class Run:
    """The managers at work on one request, whoever waits for them."""

    def __init__(self, request: Request, context: CurationContext) -> None:
        self.request = request
        self.context = context
        self.entries: Sequence[ConversationEntry] = request.record
        self.steps: list[Step] = []
        self.pins: dict[int, ConversationEntry] = {}
        self._rank = {id(entry.root): index for index, entry in enumerate(request.record)}
        self._known = {id(entry) for entry in request.record}

    def take(self, manager: Any, returned: Sequence[ConversationEntry]) -> None:
        """Go on with what a manager returned: once each, in the order of the record."""
        entries = self._in_order([self._bound(entry) for entry in returned])
        self.entries = list({id(entry.root): entry for entry in entries}.values())
        self.pins.update((id(entry.root), entry) for entry in self.entries if entry.pinned)
        self.steps.append(Step(type(manager).__name__, self.entries, dict(self.context.reasons)))

    def _bound(self, entry: ConversationEntry) -> ConversationEntry:
        """An entry copied by other means than `evolve` is an edit all the same."""
        if entry.original is not None or entry.source is None or id(entry) in self._known:
            return entry
        for recorded in self.request.record:
            if recorded.source is entry.source and recorded.span == entry.span:
                return entry.evolve(original=recorded, action=entry.action or "repaired")
        return entry

    def _in_order(self, entries: list[ConversationEntry]) -> list[ConversationEntry]:
        latest = -1
        keyed = []
        for entry in entries:
            latest = self._rank.get(id(entry.root), latest)
            keyed.append((latest, entry))
        return [entry for _, entry in sorted(keyed, key=lambda pair: pair[0])]

    def result(self, preserve_last_n: int | None) -> list[ConversationEntry]:
        """The entries, and what no manager may leave out: system, latest user, pins, last n.

        A pinned entry brings its whole exchange.
        """
        record = self.request.record
        present = {id(entry.root) for entry in self.entries}
        required = [entry for entry in record if entry.role is MessageRole.SYSTEM]
        required += self._pinned()
        latest = next((entry for entry in reversed(record) if entry.is_real_user), None)
        if latest is not None:
            required.append(latest)
        if preserve_last_n:
            required.extend(record[-preserve_last_n:])
        missing = {id(entry.root): entry for entry in required if id(entry.root) not in present}
        if not missing:
            return list(self.entries)
        return self._in_place([*self.entries], list(missing.values()))

    def _in_place(
        self, entries: list[ConversationEntry], missing: list[ConversationEntry]
    ) -> list[ConversationEntry]:
        """Put entries back where the record has them; invented ones stay with what they follow."""
        for entry in sorted(missing, key=lambda each: self._rank[id(each.root)]):
            after = self._rank[id(entry.root)]
            later = (
                place
                for place, other in enumerate(entries)
                if self._rank.get(id(other.root), -1) > after
            )
            entries.insert(next(later, len(entries)), entry)
        return entries

    def _pinned(self) -> list[ConversationEntry]:
        record = self.request.record
        if not self.pins and not any(entry.pinned for entry in record):
            return []
        found = []
        for unit in pair(record):
            members = [unit.head, *(result for result in unit.results if result is not None)]
            if any(entry.pinned or id(entry.root) in self.pins for entry in members):
                found += [self.pins.get(id(entry.root), entry) for entry in members]
        return found


class ConstantReason(dict[int, str]):
    """One reason for whatever is asked."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self._reason = reason

    def get(self, key: int, default: Any = None) -> Any:
        return self._reason


_OLD = ConstantReason("older than the cut line: the budget is reached")


def left_out(timeline: Timeline) -> dict[int, str]:
    """Positions of what pairing could not use, with the reasons."""
    pairing = timeline.pairing
    if not pairing.orphans and not pairing.replaced:
        return {}
    left = dict(pairing.orphans)
    replaced = {id(entry.root) for entry in pairing.replaced}
    if replaced:
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
    strategy: str,
    mode: str,
) -> CurationReport:
    """The report of a view."""
    fit, mine = sealed.fit, []
    if fit is not None and fit.rung > 1:
        mine.append(Step("TokenBudgetManager", fit.entries, _OLD if fit.rung >= 4 else {}))
    mine.append(Step("seal", sealed.entries))
    return CurationReport(
        record=request.record,
        count=request.count,
        view=sealed.entries,
        steps=[*steps, *mine],
        counter=counter,
        tokens=sealed.tokens + request.priced,
        max_tokens=request.max_tokens,
        overhead=request.overhead,
        provider=profile.name,
        strategy=strategy,
        repeated=_repeated(sealed, merges=profile.merges),
        cut=0 if fit is None else fit.start,
        clear=0 if fit is None else fit.clear_start,
        rung=0 if fit is None else fit.rung,
        cap=None if fit is None else fit.cap,
        orphans=orphans,
        mode=mode,
        warnings=request.warnings,
    )


def _repeated(sealed: Sealed, *, merges: bool) -> int:
    """How many leading entries the next call repeats at most: all before what may yet change.

    Args:
        sealed: the view.
        merges: whether the profile merges runs, so that the last entry may grow.
    """
    entries, fit = sealed.entries, sealed.fit
    count = len(entries)
    if fit is not None:
        count -= fit.passing
    if merges and count == len(entries):
        count -= 1
    return max(0, count)
