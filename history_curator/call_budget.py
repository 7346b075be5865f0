"""The tokens of one call, by the settings and by what the provider reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from history_curator.entries import MessageRole
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.memo import Memo, Record
from history_curator.tokens import UsageAnchor, available_tokens, read_usage
from history_curator.tokens.observed import ObservedRequests, Request
from history_curator.units import Pairing
from history_curator.window import View, ViewBuilder, WindowOptions, fit_view

_CACHE_LIFETIME = {"anthropic": 300.0, "bedrock": 300.0}
_LONGEST_CACHE_LIFETIME = 3600.0
"""Seconds of idleness after which a provider's cache is cold, where the provider does not say."""
_REPORTS_LOOKED_FOR = 8
"""Newest answers among which the last usage report is looked for."""


class Budget(NamedTuple):
    """The tokens of one call.

    Attributes:
        max_tokens: the limit of the whole request.
        overhead: tools and priming.
        reserve: tokens that are left free.
        usual: tokens for messages by the settings and the last usage report.
        available: tokens for messages in this call.
        likely: tokens for messages that the provider most likely takes.
        anchor: the last usage report.
        last: the request it was reported for, or one since.
    """

    max_tokens: int
    overhead: int
    reserve: int
    usual: int
    available: int
    likely: int
    anchor: UsageAnchor | None
    last: Request | None

    def request(self, counted: int) -> Request:
        """Return the request of this call, once its view is counted."""
        doubted = None if self.last is None else self.last.doubted
        return Request(counted, self.usual, self.available, self.anchor, doubted)


class CallBudgets:
    """Works out the tokens of each call, and remembers requests for the reports that follow.

    Args:
        memo: what is known of messages.
        provider: the profile's name, for how long its cache lives.
        window_options: returns how views are built in a budget.
        start: a report to start from; None for none.
        learns: whether usage reports count.
        rebuilds: whether a view that is no longer remembered can be built again.
    """

    def __init__(
        self,
        memo: Memo,
        provider: str,
        window_options: Callable[[int | None], WindowOptions],
        *,
        start: UsageAnchor | None,
        learns: bool,
        rebuilds: bool,
    ) -> None:
        self._memo = memo
        self._lifetime = _CACHE_LIFETIME.get(provider, _LONGEST_CACHE_LIFETIME)
        self._window_options = window_options
        self._start = start
        self._learns = learns
        self._rebuilds = rebuilds
        self._observed = ObservedRequests()

    @property
    def newest_report(self) -> UsageAnchor | None:
        """The newest usage report and the learned ratio."""
        return self._observed.newest or self._start

    def plan(self, record: Record, limit: int, usual: int, overhead: int, reserve: int) -> Budget:
        """Return the tokens of a call.

        Args:
            record: the conversation.
            limit: tokens of the whole request.
            usual: the same, by the settings.
            overhead: tokens of tools and priming.
            reserve: tokens that are left free.
        """
        last = self._last_request(record, usual, overhead) if self._learns else None
        return self._budget_after(last, limit, usual, overhead, reserve)

    def _budget_after(
        self, last: Request | None, limit: int, usual: int, overhead: int, reserve: int = 0
    ) -> Budget:
        """Return the tokens of a call, by what is known of the requests before it."""
        anchor = self._start if last is None else last.anchor
        available = likely = limit - reserve - overhead
        if anchor is not None:
            likely = anchor.likely_tokens(limit - reserve) - overhead
            available = anchor.available_tokens(limit - reserve) - overhead
        previous = None if last is None else last.usual
        normal = available_tokens(usual, overhead, anchor, previous=previous)
        return Budget(limit, overhead, reserve, normal, available, likely, anchor, last)

    def remember(
        self, record: Record, budget: Budget, view: View, counted: int, *, is_cold: bool
    ) -> Callable[[Any], None] | None:
        """Remember the request of a call where reports or pauses matter; return what takes its report."""
        if not self._learns or not record.names:
            return None
        name = record.names[-1]
        request = budget.request(counted)._replace(is_cold=is_cold)
        has_usage = any(facts.usage is not None for facts in record.facts[-2:])
        if is_cold or budget.anchor is not None or has_usage or view.is_smaller:
            self._observed.add(name, request)

        def observe(reported: Any) -> None:
            usage = read_usage(reported)
            if usage is not None:
                self._observed.report(name, request, usage.input)

        return observe

    def is_cold(self, idle_seconds: float | None) -> bool:
        """Whether the provider's cache has gone cold after so many idle seconds."""
        return idle_seconds is not None and idle_seconds >= self._lifetime

    def cold_units(self, record: Record, pairing: Pairing, *, is_cold: bool) -> set[int]:
        """Return the units at whose arrival the provider's cache had gone cold.

        Message times tell, or the caller does with `idle`.
        """
        units, facts, cold = pairing.units, record.facts, set[int]()
        if self._observed.has_pauses:
            ends = {unit.start: position for position, unit in enumerate(units)}
            for count, name in enumerate(record.names, start=1):
                request = self._observed.find(name)
                if request is None or not request.is_cold:
                    continue
                start = record.end_of(count)
                before = [position for first, position in ends.items() if first < start]
                cold.update(before[-1:])
        if is_cold and units:
            cold.add(len(units) - 1)
        if all(each.time is None for each in facts[-1:]):
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

    def _last_request(self, record: Record, limit: int, overhead: int) -> Request | None:
        """Return the newest earlier request of these messages, with what was reported up to it.

        A report on a message is about the view of the messages before it; forgotten views
        are built again, from the oldest of the newest answers on.
        """
        answers: list[tuple[int, Request | None]] = []
        for index in range(len(record) - 1, 0, -1):
            place = record.place_of(index)
            if record.facts[index].entry.role is MessageRole.ASSISTANT and place:
                known = self._observed.find(record.names[place - 1]) if self._observed else None
                answers.append((index, known))
                if known is not None or len(answers) >= _REPORTS_LOOKED_FOR:
                    break
        answers.reverse()
        last: Request | None = None
        ratio: float | None = None
        for index, known in answers:
            request, usage = known, record.facts[index].usage
            place = record.place_of(index)
            if request is None and usage is not None:
                if last is None and ratio is None:
                    ratio = self._growth_ratio(record, [index for index, _ in answers])
                    if ratio is not None:
                        anchor = UsageAnchor(round(usage.input / ratio), usage.input, ratio)
                        last = Request(anchor.counted, limit - overhead, limit - overhead, anchor)
                request = self._rebuild_request(record.first(place), limit, overhead, last)
                if request is not None and ratio is not None:  # the provider counted all of it
                    most = round(usage.input / ratio)
                    request = request._replace(counted=min(request.counted, most))
            if request is not None and usage is not None and not request.is_reported:
                name = record.names[place - 1]
                request = self._observed.read_report(name, request, usage.input, limit)
            last = request or last
        return last

    def _growth_ratio(self, record: Record, answers: Sequence[int]) -> float | None:
        """Return by how much reports grew from answer to answer, over what we count in between."""
        reported = [(at, usage.input) for at in answers if (usage := record.facts[at].usage)]
        ratios = []
        for (start, before), (end, after) in pairwise(reported):
            growth = sum(map(self._memo.count, record.facts[start:end]))
            if after > before:
                ratios.append((after - before) / growth)
        return sorted(ratios)[len(ratios) // 2] if ratios else None

    def _rebuild_request(
        self, record: Record, limit: int, overhead: int, last: Request | None
    ) -> Request | None:
        """Return the request that a curator would have built from these messages."""
        if not self._rebuilds or not len(record):
            return None
        builder = ViewBuilder(record, self._memo, self._window_options(limit), "request")
        budget = self._budget_after(last, limit, limit, overhead)
        try:
            view = fit_view(builder, budget.usual, budget.available, budget.likely)
        except BudgetUnsatisfiableError:
            return None
        return budget.request(view.tokens + overhead)
