"""`Curator`: read, managers, window, rules, write."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from history_curator.config import CuratorConfig, CuratorOptions, check_options
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError, a_type
from history_curator.events import EventBus, HistoryCurated
from history_curator.formats import MessageFormat, find_format, group_response_items, ungroup_items
from history_curator.managers import apply_managers, build_managers
from history_curator.managers.base import CurationContext, HistoryManager, Step
from history_curator.memo import MEMO_BYTES, Memo, Record
from history_curator.report import CurationReport
from history_curator.rules import ProviderProfile, get_profile
from history_curator.run_steps import Steps, run_async, run_sync
from history_curator.tokens import (
    TokenCounter,
    UsageAnchor,
    available_tokens,
    get_counter,
    read_usage,
)
from history_curator.tokens.observed import ObservedRequests, Request
from history_curator.units import Pairing
from history_curator.window import (
    COMPACT_TO,
    STEP,
    Tail,
    View,
    ViewBuilder,
    WindowOptions,
    fit_view,
)

__all__ = ["Curation", "Curator"]

logger = logging.getLogger("history_curator")

_CACHE_LIFETIME = {"anthropic": 300.0, "bedrock": 300.0}
_LONGEST_CACHE_LIFETIME = 3600.0
"""Seconds of idleness after which a provider's cache is cold, where the provider does not say."""
_REPORTS_LOOKED_FOR = 8
"""Newest answers among which the last usage report is looked for."""


@dataclass(frozen=True, slots=True)
class Curation:
    """The outcome of one curation.

    Attributes:
        messages: the view, in the format it was given in.
        entries: the view as entries.
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

    @property
    def report(self) -> CurationReport:
        """A decision for every entry; worked out when somebody asks."""
        if not isinstance(self._report[0], CurationReport):
            self._report[0] = self._report[0]()
        report: CurationReport = self._report[0]
        return report

    def observe(self, usage: Any, *, model: str | None = None) -> None:
        """Take the provider's usage report for this view; the next one is counted from there.

        Args:
            usage: the report, or the answer that carries it: of OpenAI, Anthropic, Gemini, Bedrock,
                LangChain or LlamaIndex. None, or an answer without usage, teaches nothing.
            model: who answered; for callers that know it.

        Examples:
            >>> from history_curator import Curator
            >>> curator, messages = (
            ...     Curator(max_tokens=1_000),
            ...     [{"role": "user", "content": "hello"}],
            ... )
            >>> curator.curate(messages).observe({"prompt_tokens": 58, "completion_tokens": 3})
            >>> messages += [
            ...     {"role": "assistant", "content": "hi"},
            ...     {"role": "user", "content": "so?"},
            ... ]
            >>> curator.curate(messages).tokens > 58  # the report, and the tokens added since
            True
        """
        if self._observe is not None:
            self._observe(usage)

    def __reduce__(self) -> tuple[Any, ...]:
        return Curation, (self.messages, self.entries, self.tokens, [self.report], self.error)


class CallOptions(NamedTuple):
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


class Curator:
    """Decides how much of a conversation the model gets to see.

    Whatever the managers do, the view fits `max_tokens` or `BudgetUnsatisfiableError` is raised,
    no tool exchange is split, the provider's rules hold, the system message and the latest user
    message are there, and untouched messages are the very objects that were given. The input is not
    changed. The same messages and the same usage reports (`Curation.observe`, `idle`) give the same
    view, on any machine, after any restart; a curator is safe to share between threads and
    conversations.

    Args:
        managers: applied in order; none is a good default, the budget alone.
        max_tokens: the budget. None means no budget: only the provider's rules are enforced.
        counter: an encoding, a model name, or a `TokenCounter`.
        provider: whose rules hold: core, portable, openai, anthropic, gemini, bedrock, mistral,
            or a `ProviderProfile`.
        compact_to: the share of the budget that a compaction leaves filled; None is 0.7. 1.0 keeps as
            much as fits on every call, which loses the prompt cache on every call.
        recap: whether a marked entry tells what is no longer shown.
        retrieve: whether earlier messages that matter to the question are brought back, by a
            `RelevanceManager`; for long chats.
        reasoning: strip, keep or refuse reasoning that an edit unbinds; None is the profile's way.
        recall_tool: placeholders name the handle that the recall tool takes; a text is its name.
        mode: ``"shadow"`` works everything out and reports it, but returns the full history.
        bus: an `EventBus` that receives `HistoryCurated`.
        name: the curator's name in events.
        preserve_last_n: the last n entries are never left out.
        calibration: a `UsageAnchor` saved from another curator to start from; False ignores usage
            reports.
        cache_bytes: how much to remember of messages seen before. It never changes a view.

    Examples:
        >>> from history_curator import Curator
        >>> curator = Curator(max_tokens=1_000)
        >>> messages = [{"role": "user", "content": "hello"}]
        >>> curator.curate(messages).messages[0] is messages[0]
        True
    """

    def __init__(
        self,
        *managers: HistoryManager,
        max_tokens: int | None = None,
        counter: str | TokenCounter = "o200k_base",
        provider: str | ProviderProfile = "core",
        compact_to: float | None = None,
        recap: bool = True,
        retrieve: bool = False,
        reasoning: Literal["strip", "keep", "refuse"] | None = None,
        recall_tool: bool | str = False,
        mode: Literal["enforce", "shadow"] = "enforce",
        bus: EventBus | None = None,
        name: str = "history",
        preserve_last_n: int | None = None,
        calibration: UsageAnchor | bool | None = None,
        cache_bytes: int = MEMO_BYTES,
    ) -> None:
        check_options(locals())
        _check_managers(managers)
        self.managers = (*managers, *_relevance_manager(managers, wanted=retrieve))
        self.max_tokens = max_tokens
        self.counter = get_counter(counter)
        self.profile = get_profile(provider, reasoning=reasoning)
        self.compact_to = compact_to
        self.recap = recap
        self.retrieve = retrieve
        self.recall_tool = recall_tool
        self.mode = mode
        self.bus = bus
        self.name = name
        self.preserve_last_n = preserve_last_n
        self.learns = calibration is not False
        self._start = calibration if isinstance(calibration, UsageAnchor) else None
        self.cache_bytes = cache_bytes
        self._memo = Memo(self.counter, cache_bytes)
        self._observed = ObservedRequests()

    def __getstate__(self) -> dict[str, Any]:
        return {
            key: value for key, value in self.__dict__.items() if key not in ("_memo", "_observed")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._memo = Memo(self.counter, self.cache_bytes)
        self._observed = ObservedRequests()

    @property
    def calibration(self) -> UsageAnchor | None:
        """The newest usage report and the learned ratio, to be saved and given to another curator."""
        return self._observed.newest or self._start

    @classmethod
    def from_config(
        cls,
        config: CuratorConfig | Mapping[str, Any] | str | Path,
        *,
        objects: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> Curator:
        """Build a curator from a `CuratorConfig`, a mapping, or a YAML or TOML file.

        Args:
            config: the configuration.
            objects: the objects behind ``"@name"`` options, such as a summarizer.
            overrides: arguments of `Curator` that win over the configuration.
        """
        loaded = CuratorConfig.load(config)
        options = {
            name: getattr(loaded, name)
            for name in CuratorOptions.__annotations__
            if hasattr(loaded, name)
        }
        return cls(*build_managers(loaded.managers, objects), **{**options, **overrides})

    def curate(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        reserve: int = 0,
        tail: Tail | None = None,
        session: Any = None,
        max_tokens: int | None = None,
        format: MessageFormat | None = None,
        query: str | None = None,
        key: Hashable = None,
        idle: float | None = None,
    ) -> Curation:
        """Return the view of a conversation.

        Args:
            messages: the whole conversation, oldest first.
            tools: tool schemas sent along; they count.
            reserve: tokens to leave free this time, for messages that the caller adds. It shortens
                this view and moves no later cutoff; take a constant reserve off `max_tokens` instead.
            tail: ``"request"`` when the view is about to be sent, so it must end on a user or
                tool message; ``"history"`` when the caller appends the next message. When not
                given, a conversation that the assistant ended is a history, and so is one of
                system messages alone.
            session: handed to the managers.
            max_tokens: a budget for this call alone.
            format: how to read the messages; found from the messages when not given.
            query: the user's question, where it is not among the messages yet.
            key: the name of the conversation, such as the id of its thread, for managers that store
                something about it.
            idle: seconds since the last request, where the messages carry no times. When the
                provider's cache has gone cold by then, the view compacts: everything is written to
                the cache anew anyway.

        Raises:
            BudgetUnsatisfiableError: when the messages that must be sent do not fit.
            ConversionError: when a message cannot be read.
        """
        options = CallOptions(tools, reserve, tail, session, max_tokens, format, query, key, idle)
        return run_sync(self._curate(messages, options))

    async def acurate(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        reserve: int = 0,
        tail: Tail | None = None,
        session: Any = None,
        max_tokens: int | None = None,
        format: MessageFormat | None = None,
        query: str | None = None,
        key: Hashable = None,
        idle: float | None = None,
    ) -> Curation:
        """Like `curate`, for managers that call a model."""
        options = CallOptions(tools, reserve, tail, session, max_tokens, format, query, key, idle)
        return await run_async(self._curate(messages, options))

    def _curate(self, messages: Sequence[Any], options: CallOptions) -> Steps[Curation]:
        checked = ("tail", "max_tokens", "reserve", "idle", "key")
        check_options({name: getattr(options, name) for name in checked})
        format = options.format or find_format(messages, self.profile.name)
        given = group_response_items(messages if type(messages) is list else list(messages), format)
        record = self._memo.read(given, format)
        tail = options.tail or _guess_tail(record)
        budget, is_cold = self._budget(record, options), self._is_cold(options.idle)
        warnings: list[str] = []
        curated, steps, compactions = record, list[Step](), list[str]()
        if self.managers:
            entries = record.entries()
            context = self._context(entries, options, tail, budget, warnings, compactions)
            remaining, steps = yield from apply_managers(self.managers, entries, context)
            if remaining is not entries and list(map(id, remaining)) != list(map(id, entries)):
                curated = self._memo.read_entries(remaining, record)
        builder = ViewBuilder(
            curated,
            self._memo,
            self._window_options(budget, options),
            tail,
            edited=curated is not record,
            previous=None if budget is None else budget.last,
            cold_units=partial(self._cold_units, curated, is_cold=is_cold),
        )
        view = self._fit(builder, budget, warnings)
        report = partial(
            self._explain, record, view, steps, builder.pairing, budget, warnings, bool(compactions)
        )
        shown = given if self.mode == "shadow" else format.write(view.entries)
        curation = self._conclude(record, view, ungroup_items(shown), report, budget, is_cold)
        self._publish(curation, options.session)
        return curation

    def _budget(self, record: Record, options: CallOptions) -> Budget | None:
        """Return the tokens of this call; None without a budget."""
        limit = self.max_tokens if options.max_tokens is None else options.max_tokens
        if limit is None:
            return None
        usual = max(limit, self.max_tokens or limit)
        overhead = self._overhead(options)
        last = self._last_request(record, usual, overhead) if self.learns else None
        return self._budget_after(last, limit, usual, overhead, options.reserve)

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

    def _overhead(self, options: CallOptions) -> int:
        tools = self.counter.count_tools(options.tools) if options.tools else 0
        return self.counter.priming + tools

    def _last_request(self, record: Record, limit: int, overhead: int) -> Request | None:
        """Return the newest earlier request of these messages, with what was reported up to it.

        A report on a message is about the view of the messages before it; views that nobody
        remembers are built again, from the oldest of the newest answers on.
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
        for index, request in answers:
            usage, place = record.facts[index].usage, record.place_of(index)
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
        if self.managers or not len(record):
            return None
        builder = ViewBuilder(record, self._memo, self._window_options_for(limit), "request")
        budget = self._budget_after(last, limit, limit, overhead)
        try:
            view = fit_view(builder, budget.usual, budget.available, budget.likely)
        except BudgetUnsatisfiableError:
            return None
        return budget.request(view.tokens + overhead)

    def _context(
        self,
        entries: Sequence[ConversationEntry],
        options: CallOptions,
        tail: Tail,
        budget: Budget | None,
        warnings: list[str],
        compactions: list[str],
    ) -> CurationContext:
        available = None
        if budget is not None:
            step = max(1, int(max(budget.max_tokens, self.max_tokens or 0) * STEP))
            count = self._memo.count_entry
            system = sum(count(entry) for entry in entries if entry.role is MessageRole.SYSTEM)
            left = budget.available - system
            available = max(0, system + left // step * step)
        return CurationContext(
            counter=self.counter,
            max_tokens=available,
            session=options.session,
            preserve_last_n=self.preserve_last_n,
            tail=tail,
            record=tuple(entries),
            recall_tool=self.recall_tool,
            compact_to=self.compact_to,
            recap=self.recap,
            query=options.query,
            key=options.key,
            count_entry=self._memo.count_entry,
            memo=self._memo,
            warnings=warnings,
            compactions=compactions,
        )

    def _window_options(self, budget: Budget | None, options: CallOptions) -> WindowOptions:
        if budget is None:
            return self._window_options_for(None)
        return self._window_options_for(max(budget.max_tokens, self.max_tokens or 0))

    def _window_options_for(self, budget: int | None) -> WindowOptions:
        return WindowOptions(
            self.profile,
            budget,
            COMPACT_TO if self.compact_to is None else self.compact_to,
            self.recap,
            self.recall_tool,
            self.preserve_last_n or 0,
        )

    def _fit(self, builder: ViewBuilder, budget: Budget | None, warnings: list[str]) -> View:
        if budget is None:
            return builder.build_unlimited()
        try:
            return fit_view(builder, budget.usual, budget.available, budget.likely)
        except BudgetUnsatisfiableError as error:
            overhead = budget.overhead + budget.reserve
            needed, limit = error.needed + overhead, budget.max_tokens
            if budget.anchor is not None:
                needed = max(limit + 1, budget.anchor.upper_bound(error.needed + budget.overhead))
            refusal = BudgetUnsatisfiableError(needed, limit, error.irreducible, overhead)
        if self.mode != "shadow":
            raise refusal
        warnings.append(str(refusal))
        return builder.build_unlimited()

    def _is_cold(self, idle_seconds: float | None) -> bool:
        return idle_seconds is not None and idle_seconds >= self._cache_lifetime

    @property
    def _cache_lifetime(self) -> float:
        return _CACHE_LIFETIME.get(self.profile.name, _LONGEST_CACHE_LIFETIME)

    def _cold_units(self, record: Record, pairing: Pairing, *, is_cold: bool) -> set[int]:
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
            if known and answered is not None and max(known) - answered >= self._cache_lifetime:
                cold.add(position)
        return cold

    def _conclude(
        self,
        record: Record,
        view: View,
        messages: list[Any],
        report: Callable[[], CurationReport],
        budget: Budget | None,
        is_cold: bool,
    ) -> Curation:
        """Return the outcome, and remember the request where usage reports or pauses are known."""
        built: list[Any] = [report]
        entries: Sequence[ConversationEntry] = view.entries
        overhead = self.counter.priming if budget is None else budget.overhead
        counted = view.tokens + overhead
        if self.mode == "shadow":
            built[0] = report()
            entries, counted = record.entries(), built[0].tokens_before + overhead
        if budget is None or not self.learns:
            return Curation(messages, entries, counted, built)
        anchor = budget.anchor
        request = budget.request(counted)._replace(is_cold=is_cold)
        has_usage = any(facts.usage is not None for facts in record.facts[-2:])
        if record.names and (is_cold or anchor is not None or has_usage or view.is_smaller):
            self._observed.add(record.names[-1], request)

        def observe(reported: Any) -> None:
            usage = read_usage(reported)
            if usage is not None and record.names:
                self._observed.report(record.names[-1], request, usage.input)

        if anchor is None:
            return Curation(messages, entries, counted, built, None, observe)
        tokens = anchor.predict(counted)
        error = anchor.upper_bound(counted) - tokens
        return Curation(messages, entries, tokens, built, error, observe)

    def _explain(
        self,
        record: Record,
        view: View,
        steps: Sequence[Step],
        pairing: Pairing,
        budget: Budget | None,
        warnings: Sequence[str],
        managers_compacted: bool,
    ) -> CurationReport:
        ours = [Step("rules", view.entries, {})]
        if budget is not None:
            ours.insert(0, Step("budget", view.fitted, _ConstantReason()))
        overhead = self.counter.priming if budget is None else budget.overhead
        return CurationReport(
            record=record.entries(),
            view=view.entries,
            steps=[*steps, *ours],
            counter=self.counter,
            count_entry=self._memo.count_entry,
            tokens=view.tokens + overhead,
            max_tokens=None if budget is None else budget.max_tokens,
            overhead=overhead + (0 if budget is None else budget.reserve),
            provider=self.profile.name,
            strategy="+".join(type(each).__name__ for each in self.managers) or "budget",
            stable_entries=view.stable_entries,
            cut=view.cutoff,
            compacted=view.compacted or managers_compacted,
            orphans=pairing.unused_results,
            mode=self.mode,
            warnings=warnings,
        )

    def _publish(self, curation: Curation, session: Any) -> None:
        """Send `HistoryCurated` to the bus, and a line to the log."""
        if self.bus is not None:
            event = HistoryCurated.of(curation.report, session=session, prompt_name=self.name)
            self.bus.publish(event)
        if logger.isEnabledFor(logging.DEBUG):
            report = curation.report
            logger.debug(
                "%s: %d of %d entries, %d tokens",
                self.name,
                report.curated_count,
                report.original_count,
                report.tokens,
            )


class _ConstantReason(dict[int, str]):
    """Gives one reason for every entry that the budget leaves out."""

    def get(self, key: int, default: Any = None) -> Any:
        return "before the cutoff: the budget is reached"


def _guess_tail(record: Record) -> Tail:
    """Return what a caller who does not say so is about to do.

    A conversation in which the assistant had the last word is a history, not a request.
    """
    for facts in reversed(record.facts):
        entry = facts.entry
        if entry.role is not MessageRole.SYSTEM:
            answered = entry.role is MessageRole.ASSISTANT and not entry.tool_calls
            return "history" if answered else "request"
    return "history"


def _relevance_manager(managers: Sequence[Any], *, wanted: bool) -> Sequence[HistoryManager]:
    """Return the manager that brings back earlier messages, unless there is one already."""
    if not wanted:
        return ()
    from history_curator.managers import RelevanceManager

    found = any(isinstance(manager, RelevanceManager) for manager in managers)
    return () if found else (RelevanceManager(),)


def _check_managers(managers: Sequence[Any]) -> None:
    for position, manager in enumerate(managers):
        if isinstance(manager, type):
            name = manager.__name__
            raise ConfigurationError(f"managers[{position}] is the class {name}. Fix: {name}(...).")
        if not (hasattr(manager, "curate") or hasattr(manager, "acurate")):
            raise ConfigurationError(
                f"managers[{position}] is {a_type(manager)} without a curate method. "
                "Fix: pass objects with curate(entries, *, context)."
            )
