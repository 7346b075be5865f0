"""One curation: the tokens of the call, the call at work, and `Curation`, its outcome.

A usage report belongs to the messages that were sent, not to a conversation: it is found again by
these messages, in any conversation. So the same messages and the same reports give the same view.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from time import monotonic
from typing import Any, NamedTuple, TypedDict

from history_curator.cache_loss import CacheLost
from history_curator.caching import find_provider_edits
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.formats import MessageFormat
from history_curator.managers.base import Step
from history_curator.memo import Memo, Record
from history_curator.report import CurationReport
from history_curator.rules import Tail
from history_curator.tokens import UsageAnchor, available_tokens, read_usage
from history_curator.tokens.estimate import Request
from history_curator.window import ViewBuilder, WindowOptions

_CACHE_LIFETIME = {"anthropic": 300.0, "bedrock": 300.0}
_LONGEST_CACHE_LIFETIME = 3600.0
"""Seconds of idleness after which a provider's cache is cold, where the provider does not say."""
_REPORTS_LOOKED_FOR = 8
"""Newest answers among which the last usage report is looked for."""
_MOST_REQUESTS = 20_000
"""Requests that are remembered."""
_LEAST_RATIO, _MOST_RATIO = 0.4, 2.5
"""A report below this share of our count, or over the limit and above that, is about another request."""


class Budget(NamedTuple):
    """The tokens of one call."""

    max_tokens: int
    overhead: int
    reserve: int
    usual: int  # for messages, by the settings and the last usage report
    available: int  # for messages, in this call
    likely: int  # for messages, as far as the provider most likely takes them
    anchor: UsageAnchor | None = None  # the last usage report
    last: Request | None = None

    def request(self, counted: int) -> Request:
        """Return the request of this call, once its view is counted."""
        doubted = None if self.last is None else self.last.doubted
        return Request(counted, self.usual, self.available, self.anchor, doubted)


@dataclass(eq=False)
class CallBudgets:
    """Works out the token budget of each call, and corrects it by the usage reports of providers."""

    memo: Memo
    provider: str
    window_options: Callable[[int | None], WindowOptions]
    calibration: UsageAnchor | bool | None
    rebuilds: bool  # whether a view that is no longer remembered is built again from its messages

    def __post_init__(self) -> None:
        given, self._learns = self.calibration, self.calibration is not False
        self.newest_report = self._start = given if isinstance(given, UsageAnchor) else None
        self._lifetime = _CACHE_LIFETIME.get(self.provider, _LONGEST_CACHE_LIFETIME)
        self._requests: OrderedDict[int, Request] = OrderedDict()
        self._has_pauses = False

    def plan(
        self, record: Record, limit: int, usual_limit: int, overhead: int, reserve: int
    ) -> Budget:
        """Return the tokens of a call: `limit` is that of the request, `usual_limit` of the settings."""
        last = self._find_last_request(record, usual_limit, overhead) if self._learns else None
        return self._budget_after(last, limit, usual_limit, overhead, reserve)

    def _budget_after(
        self, last: Request | None, limit: int, usual_limit: int, overhead: int, reserve: int = 0
    ) -> Budget:
        """Return the budget of a call that follows the request `last`, or None for the first."""
        anchor, most = self._start if last is None else last.anchor, limit - reserve
        if anchor is None:
            usual, available = max(0, usual_limit - overhead), most - overhead
            return Budget(limit, overhead, reserve, usual, available, available, None, last)
        previous = None if last is None else last.usual
        usual = available_tokens(usual_limit, overhead, anchor, previous=previous)
        available, likely = anchor.available_tokens(most), anchor.likely_tokens(most)
        available, likely = available - overhead, likely - overhead
        return Budget(limit, overhead, reserve, usual, available, likely, anchor, last)

    def remember(self, call: Call, budget: Budget, counted: int) -> Callable[[Any], None] | None:
        """Remember the request of a call; return a function that takes its report."""
        if not self._learns or not len(call.record):
            return None
        name = call.record.fingerprints[-1]
        request = budget.request(counted)._replace(is_cold=self._is_cold(call))
        self._keep(name, request)

        def observe(reported: Any) -> None:
            usage = read_usage(reported)
            if usage is not None:
                self._take_report(name, request, usage.input)

        return observe

    def _is_cold(self, call: Call) -> bool:
        return (call.options.get("idle") or 0) >= self._lifetime

    def find_cold_units(self, call: Call) -> set[int]:
        """Return the units at whose arrival the provider's cache had gone cold.

        Message times tell, or the caller does with `idle`.
        """
        units, facts = call.curated.pairing.units, call.curated.facts
        cold = {len(units) - 1} if units and self._is_cold(call) else set[int]()
        if self._has_pauses:
            recorded, curated = call.record.entries(), call.curated.entries()
            places = {id(entry.root): at for at, entry in enumerate(recorded)}
            starts = [places.get(id(curated[unit.start].root), len(recorded)) for unit in units]
            for end, name in enumerate(call.record.fingerprints, start=1):
                if name in self._requests and self._requests[name].is_cold:
                    cold.update([at for at, start in enumerate(starts) if start < end][-1:])
        if not facts or facts[-1].time is None:
            return cold
        answered: float | None = None
        for position, unit in enumerate(units):
            times = [facts[at].time for at in unit.indexes if at >= 0]
            known = [each for each in times if each is not None]
            if unit.kind != "user":
                answered = times[0]
            if known and answered is not None and max(known) - answered >= self._lifetime:
                cold.add(position)
        return cold

    def _find_last_request(self, record: Record, limit: int, overhead: int) -> Request | None:
        """Return the newest earlier request of these messages, with what was reported up to it.

        A report on a message is about the view of the messages before it; forgotten views
        are built again, from the oldest of the newest answers on.
        """
        answers, last = self._find_newest_answers(record)
        reported = [(at, usage.input) for at in answers if (usage := record.facts[at].usage)]
        ratio = self._find_growth_ratio(record, reported) if last is None else None
        if ratio is not None:
            anchor = UsageAnchor(round(reported[0][1] / ratio), reported[0][1], ratio)
            last = Request(anchor.counted, limit - overhead, limit - overhead, anchor)
        for index, tokens in reported:
            name = record.fingerprints[index - 1]
            request = self._requests.get(name)
            if request is None:
                request = self._rebuild_request(record.first(index), limit, overhead, last)
                if request is not None and ratio is not None:  # the provider counted all of it
                    counted = min(request.counted, round(tokens / ratio))
                    request = request._replace(counted=counted)
            if request is not None and not request.is_reported:
                request = self._take_report(name, request, tokens, carried_limit=limit)
            last = request or last
        return last

    def _find_newest_answers(self, record: Record) -> tuple[list[int], Request | None]:
        """Return the newest answers, back to one whose request is remembered, and that request."""
        answers: list[int] = []
        known: Request | None = None
        for index in range(len(record) - 1, 0, -1):
            entry = record.facts[index].entry
            if entry.role is MessageRole.ASSISTANT and not (entry.span and entry.span[0]):
                known = self._requests.get(record.fingerprints[index - 1])
                answers.append(index)
                if known is not None or len(answers) >= _REPORTS_LOOKED_FOR:
                    break
        return answers[::-1], known

    def _find_growth_ratio(
        self, record: Record, reported: Sequence[tuple[int, int]]
    ) -> float | None:
        """Return by how much reports grew from answer to answer, over what we count in between."""
        ratios = sorted(
            (after - before) / sum(map(self.memo.count, record.facts[start:end]))
            for (start, before), (end, after) in pairwise(reported)
            if after > before
        )
        return ratios[len(ratios) // 2] if ratios else None

    def _rebuild_request(
        self, record: Record, limit: int, overhead: int, last: Request | None
    ) -> Request | None:
        """Return the request that a curator would have built from these messages."""
        if not self.rebuilds or not len(record):
            return None
        builder = ViewBuilder(record, self.memo, self.window_options(limit), "request")
        budget = self._budget_after(last, limit, limit, overhead)
        try:
            view = builder.fit_with_block(budget.usual, budget.available, budget.likely)
        except BudgetUnsatisfiableError:
            return None
        return budget.request(view.tokens + overhead)

    def _keep(self, name: int, request: Request) -> Request:
        """Remember a request by the fingerprint of its messages; a report it already has stays."""
        known = self._requests.get(name)
        if known is not None and known.is_reported and not request.is_reported:
            request = request._replace(anchor=known.anchor, doubted=known.doubted, is_reported=True)
        if known is not None and known.is_cold:
            request = request._replace(is_cold=True)
        self._requests[name] = request
        self._requests.move_to_end(name)
        self._has_pauses |= request.is_cold
        while len(self._requests) > _MOST_REQUESTS:
            self._requests.popitem(last=False)
        return request

    def _take_report(
        self, name: int, request: Request, reported: int, carried_limit: int | None = None
    ) -> Request:
        """Remember what the provider counted for a request, and return the request with it.

        A report that a message carries may be about another agent's request: a surprise within the
        limit is believed once the next report goes on from it.
        """
        anchor, counted, doubted = request.anchor, request.counted, request.doubted
        most = inf if carried_limit is None else max(carried_limit, _MOST_RATIO * counted)
        if not _LEAST_RATIO * counted <= reported <= most:
            return self._keep(name, request._replace(is_reported=True))
        is_carried = carried_limit is not None and reported <= carried_limit
        if is_carried and anchor is not None and not anchor.explains(counted, reported):
            if doubted is None or not doubted.explains(counted, reported):
                doubted = UsageAnchor(counted, reported, anchor.ratio)
                return self._keep(name, request._replace(doubted=doubted, is_reported=True))
            anchor = doubted
        if anchor is None:  # what is over the limit is more likely a ratio than a hidden prompt
            ratio = reported / max(1, counted) if reported > request.usual else 1.0
            anchor = UsageAnchor(counted, reported, ratio)
        self.newest_report = anchor.after(counted, reported)
        request = request._replace(anchor=self.newest_report, doubted=None, is_reported=True)
        return self._keep(name, request)


class CallOptions(TypedDict, total=False):
    """The arguments of `Curator.curate` beside the messages."""

    tools: Sequence[Mapping[str, Any]] | None
    reserve: int
    tail: Tail | None
    session: Any
    max_tokens: int | None
    format: MessageFormat | None
    query: str | None
    key: Hashable
    idle: float | None


@dataclass
class Call:
    """One running `Curator.curate`: `record` is what was given, `curated` what the managers left."""

    options: CallOptions
    format: MessageFormat
    given: Sequence[Any]
    record: Record
    curated: Record
    tail: Tail
    budget: Budget | None
    overhead: int
    warnings: list[str] = field(default_factory=list)
    compactions: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    started: float = field(default_factory=monotonic)
    is_checked: bool = False  # whether an answer was compared with the promise of its view


@dataclass(frozen=True, slots=True)
class Curation:
    """The outcome of one curation.

    Attributes:
        messages, entries: the view, in the format it was given in and as entries.
        tokens: its tokens: messages, tools and priming. Where the provider reported what it counted
            for an earlier view, that number and what was added; otherwise as counted here.
        error: the provider exceeds `tokens` by more than this in fewer than one of a hundred calls;
            None without a report.
    """

    messages: list[Any]
    entries: Sequence[ConversationEntry]
    tokens: int
    _report: list[Any] = field(repr=False, compare=False)  # it, or a function that returns it
    error: int | None = None
    _observe: Callable[[Any], None] | None = field(default=None, repr=False, compare=False)
    _check: Callable[[Curation, Any], CacheLost | None] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def report(self) -> CurationReport:
        """A decision for every entry; worked out on first access."""
        if not isinstance(self._report[0], CurationReport):
            self._report[0] = self._report[0]()
        report: CurationReport = self._report[0]
        return report

    def observe(self, usage: Any) -> None:
        """Take the provider's usage report for this view; the next one is counted from there.

        An answer of any provider or framework that carries it will do. None teaches nothing.

        Examples:
            >>> from history_curator import Curator
            >>> curator, messages = Curator(max_tokens=900), [{"role": "user", "content": "hello"}]
            >>> curator.curate(messages).observe({"prompt_tokens": 58, "completion_tokens": 3})
            >>> messages += [{"role": "assistant", "content": "hi"}]
            >>> curator.curate(messages).tokens > 58  # the report, and the tokens added since
            True
        """
        if self._observe is not None:
            self._observe(usage)
        self.check_cache(usage)

    def check_cache(self, answer: Any) -> CacheLost | None:
        """Return what an answer to this view shows of a lost prompt cache, once; None where all is well.

        `observe` does it as well. A loss is also published on the curator's bus, logged, and a
        warning in the report.
        """
        return None if self._check is None else self._check(self, answer)

    def provider_edits(self) -> dict[str, Any]:
        """Return the request fields with which the provider shortens the conversation by itself.

        An alternative to `messages`, for the same budget: send the whole record with them. It is not
        proved to fit, no recap says what left, and no report explains it. Anthropic's clear tool uses,
        OpenAI's Responses compact; for Bedrock they belong into the body of InvokeModel.
        """
        report = self.report
        return find_provider_edits(report.provider, report.max_tokens, report.compact_to)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    def __reduce__(self) -> tuple[Any, ...]:
        return Curation, (self.messages, self.entries, self.tokens, [self.report], self.error)
