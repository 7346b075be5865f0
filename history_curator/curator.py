"""`Curator`: read, managers, window, rules, write."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NoReturn

from typing_extensions import Unpack

from history_curator.cache_loss import CacheLost, CacheWatch, SentView
from history_curator.config import CuratorConfig, CuratorOptions, check_names, check_options
from history_curator.curation import Call, CallBudgets, CallOptions, Curation
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import BudgetUnsatisfiableError
from history_curator.events import EventBus, HistoryCurated
from history_curator.formats import (
    MessageFormat,
    MessageGroup,
    find_format,
    group_response_items,
    ungroup_items,
)
from history_curator.managers import apply_managers, build_managers
from history_curator.managers.base import (
    CurationContext,
    HistoryManager,
    Step,
    check_managers,
    snake_case,
)
from history_curator.managers.relevance import build_retriever
from history_curator.memo import MEMO_BYTES, Memo, Record, key_of_entry
from history_curator.report import CurationReport
from history_curator.rules import ProviderProfile, Tail, get_profile
from history_curator.rules.content import is_left_out
from history_curator.run_steps import Steps, run_async, run_sync
from history_curator.tokens import TokenCounter, UsageAnchor, get_counter, read_usage
from history_curator.window import COMPACT_TO, STEP, View, ViewBuilder, WindowOptions

__all__ = ["Curation", "Curator"]

logger = logging.getLogger("history_curator")

_FIXES = {
    "reserve": "pass it to curate(messages, reserve=…), or take it off max_tokens.",
    "token_limit": "did you mean 'max_tokens'?",
    "model": "counter='gpt-4o' counts for a model, provider='openai' has its rules.",
}
"""What to write for arguments that other classes have."""
ConfigSource = CuratorConfig | Mapping[str, Any] | str | Path
"""A configuration, a mapping, or the path of a file."""


def load_settings(
    config: ConfigSource,
    objects: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the settings that a configuration names, with its managers built; overrides win."""
    loaded, given = CuratorConfig.load(config), dict(overrides or {})
    settings = {name: getattr(loaded, name) for name in loaded.model_fields_set}
    if "managers" in settings and "managers" not in given:
        settings["managers"] = build_managers(loaded.managers, objects)
    return settings | given


class Curator:
    """Decides how much of a conversation the model gets to see.

    Whatever the managers do, the view fits `max_tokens` or `BudgetUnsatisfiableError` is raised,
    no tool exchange is split, the provider's rules hold, the system message and the latest user
    message are there, and untouched messages are the very objects that were given. The input is not
    changed. The same messages and the same usage reports and pauses (`Curation.observe`, `idle`) give
    the same view, on any machine, after any restart, if the managers are deterministic: a summary that
    is not stored is written anew. A curator is safe to share between threads and conversations; a copy in
    another process starts as new.

    Args:
        managers: applied in order; none is a good default, the budget alone.
        max_tokens: the budget. None means no budget: only the provider's rules are enforced.
        counter: an encoding, a model name, or a `TokenCounter`.
        provider: whose rules hold: the name of a profile, or a `ProviderProfile`.
        compact_to: the share of the budget that a compaction leaves filled; None is 0.7. 1.0 keeps as
            much as fits on every call, which loses the prompt cache on every call.
        recap: whether a marked entry lists the messages that are no longer shown.
        retrieve: whether earlier messages that matter to the question are quoted right before it.
            ``"auto"`` does so where no tools are called, True always; a number is the share of the budget.
        reasoning: strip or keep reasoning that an edit unbinds; None is the profile's way.
        recall_tool: placeholders name the handle that the recall tool takes; a text is its name.
        mode: ``"shadow"`` works everything out and reports it, but returns the full history.
        bus: an `EventBus` that receives `HistoryCurated`.
        name: the curator's name in events.
        preserve_last_n: the last n entries are never left out.
        calibration: a saved `UsageAnchor` to start from; False ignores usage reports.
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
        retrieve: bool | float | Literal["auto"] = "auto",
        reasoning: Literal["strip", "keep"] | None = None,
        recall_tool: bool | str = False,
        mode: Literal["enforce", "shadow"] = "enforce",
        bus: EventBus | None = None,
        name: str = "history",
        preserve_last_n: int | None = None,
        calibration: UsageAnchor | bool | None = None,
        cache_bytes: int = MEMO_BYTES,
        **unknown: NoReturn,
    ) -> None:
        check_names("Curator", unknown, CuratorOptions.__annotations__, _FIXES)
        check_options(locals())
        check_managers(managers)
        self.managers = managers
        self.max_tokens = max_tokens
        self.counter = get_counter(counter)
        self.profile = get_profile(provider, reasoning=reasoning)
        self.compact_to = compact_to
        self.recap = recap
        self.retrieve = retrieve
        self._retriever = build_retriever(retrieve)
        self.recall_tool = recall_tool
        self.mode = mode
        self.bus = bus
        self.name = name
        self.preserve_last_n = preserve_last_n
        self._calibration = calibration
        self.cache_bytes = cache_bytes
        self._start_empty()

    def _start_empty(self) -> None:
        """Start with nothing remembered, usage reports included."""
        self._memo = Memo(self.counter, self.cache_bytes)
        self._budgets = CallBudgets(
            self._memo,
            self.profile.name,
            self._window_options,
            self._calibration,
            rebuilds=not self.managers,
        )
        self._cache_watch = CacheWatch(self.name, self.profile.name)

    def __getstate__(self) -> dict[str, Any]:
        memory = ("_memo", "_budgets", "_cache_watch")
        return {key: value for key, value in self.__dict__.items() if key not in memory}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start_empty()

    @property
    def calibration(self) -> UsageAnchor | None:
        """The newest usage report and the learned ratio, to be saved and given to another curator."""
        return self._budgets.newest_report

    @classmethod
    def from_config(
        cls,
        config: ConfigSource,
        *,
        objects: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> Curator:
        """Build a curator from a `CuratorConfig`, a mapping, or a YAML or TOML file.

        `objects` holds those behind ``"@name"`` options, such as a summarizer; overrides win.
        """
        settings = load_settings(config, objects, overrides)
        return cls(*settings.pop("managers", ()), **settings)

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
                given, a conversation that the assistant ended is a history.
            session: handed to the managers.
            max_tokens: a budget for this call alone.
            format: how to read the messages; found from the messages when not given.
            query: the user's question, where it is not among the messages yet.
            key: the name of the conversation, for managers that store something about it.
            idle: seconds since the last request, where the messages carry no times. When the
                provider's cache has gone cold by then, the view compacts.

        Raises:
            BudgetUnsatisfiableError: when the messages that must be sent do not fit.
            ConversionError: when a message cannot be read.
        """
        options = CallOptions(
            tools=tools, reserve=reserve, tail=tail, session=session, max_tokens=max_tokens,
            format=format, query=query, key=key, idle=idle,
        )  # fmt: skip
        call = self._start_call(messages, options)
        if self.managers:
            run_sync(self._run_managers(call))
        return self._finish_call(call)

    async def acurate(self, messages: Sequence[Any], **options: Unpack[CallOptions]) -> Curation:
        """Like `curate`, with the same arguments, for managers that call a model."""
        check_names("acurate", options, CallOptions.__annotations__)
        call = self._start_call(messages, options)
        if self.managers:
            await run_async(self._run_managers(call))
        return self._finish_call(call)

    def _start_call(self, messages: Sequence[Any], options: CallOptions) -> Call:
        """Read the messages and work out the budget."""
        check_options(options)
        format = options.get("format") or find_format(messages, self.profile.name)
        given = group_response_items(messages if type(messages) is list else list(messages), format)
        record = self._memo.read(given, format)
        tools, budget = options.get("tools"), None
        overhead = self.counter.priming + (self.counter.count_tools(tools) if tools else 0)
        usual = self._usual_limit(options)
        if usual is not None:
            limit = options.get("max_tokens") or self.max_tokens or usual
            budget = self._budgets.plan(record, limit, usual, overhead, options.get("reserve", 0))
        tail = options.get("tail") or _guess_tail(record)
        return Call(options, format, given, record, record, tail, budget, overhead)

    def _run_managers(self, call: Call) -> Steps[None]:
        entries = call.record.entries()
        context = self._context(call, entries)
        remaining, call.steps = yield from apply_managers(self.managers, entries, context)
        if remaining is not entries and list(map(id, remaining)) != list(map(id, entries)):
            call.curated = self._memo.read_entries(remaining, call.record)

    def _finish_call(self, call: Call) -> Curation:
        """Build the view, write it in the format it was given in, and report it."""
        builder = ViewBuilder(
            call.curated,
            self._memo,
            self._window_options(self._usual_limit(call.options)),
            call.tail,
            edited=call.curated is not call.record,
            previous=None if call.budget is None else call.budget.last,
            cold_units=self._budgets.find_cold_units(call),
            query=call.options.get("query") or "",
        )
        view = self._fit(builder, call)
        report: list[Any] = [partial(self._explain, call, view)]
        entries, counted, budget = view.entries, view.tokens + call.overhead, call.budget
        if self.mode == "shadow":
            report = [self._explain(call, view)]
            entries, counted = call.record.entries(), report[0].tokens_before
        shown = call.given if self.mode == "shadow" else call.format.write(entries)
        tokens, error, observe = counted, None, None
        if budget is not None:
            observe = self._budgets.remember(call, budget, counted)
            if budget.anchor is not None:
                tokens = budget.anchor.predict(counted)
                error = budget.anchor.upper_bound(counted) - tokens
        check = partial(self._check_cache, call)
        curation = Curation(ungroup_items(shown), entries, tokens, report, error, observe, check)
        self._publish(curation, call.options.get("session"))
        return curation

    def _usual_limit(self, options: CallOptions) -> int | None:
        """Return the limit that the cutoff is chosen for; a smaller one for one call does not move it."""
        return max(self.max_tokens or 0, options.get("max_tokens") or 0) or None

    def _context(self, call: Call, entries: Sequence[ConversationEntry]) -> CurationContext:
        available, options = None, call.options
        if call.budget is not None:
            step = max(1, int((self._usual_limit(options) or 0) * STEP))
            count = self._memo.count_entry
            system = sum(count(entry) for entry in entries if entry.role is MessageRole.SYSTEM)
            left = call.budget.available - system
            available = max(0, system + left // step * step)
        return CurationContext(
            counter=self.counter,
            max_tokens=available,
            session=options.get("session"),
            preserve_last_n=self.preserve_last_n,
            tail=call.tail,
            opens_with_user=self.profile.opens_with_user,
            recall_tool=self.recall_tool,
            compact_to=self.compact_to,
            query=options.get("query"),
            key=options.get("key"),
            count_entry=self._memo.count_entry,
            memo=self._memo,
            warnings=call.warnings,
            compactions=call.compactions,
        )

    def _window_options(self, budget: int | None) -> WindowOptions:
        tool, last, retriever = self.recall_tool, self.preserve_last_n or 0, self._retriever
        return WindowOptions(
            self.profile, budget, self.compact_to, self.recap, tool, last, retriever
        )

    def _fit(self, builder: ViewBuilder, call: Call) -> View:
        budget = call.budget
        if budget is None:
            return builder.build_unlimited()
        try:
            return builder.fit_with_block(budget.usual, budget.available, budget.likely)
        except BudgetUnsatisfiableError as error:
            overhead = budget.overhead + budget.reserve
            needed, limit = error.needed + overhead, budget.max_tokens
            if budget.anchor is not None:
                needed = max(limit + 1, budget.anchor.upper_bound(error.needed + budget.overhead))
                needed += budget.reserve
            tools = budget.overhead - self.counter.priming
            refusal = BudgetUnsatisfiableError(
                needed, limit, error.irreducible, overhead, tools=tools, reserve=budget.reserve
            )
        if self.mode != "shadow":
            raise refusal
        call.warnings.append(str(refusal))
        return builder.build_unlimited()

    def _explain(self, call: Call, view: View) -> CurationReport:
        steps = [*call.steps, Step("rules", view.entries, {})]
        curated, unused = call.curated.entries(), call.curated.pairing.unused_results
        orphans = {id(entry.root): "it says nothing" for entry in curated if is_left_out(entry)}
        orphans |= {id(curated[at].root): reason for at, reason in unused.items()}
        if call.budget is not None:
            roots = [id(entry.root) for entry in curated]
            reasons = dict.fromkeys(roots, "before the cutoff: the budget is reached")
            steps.insert(-1, Step("budget", view.fitted, reasons))
        sizes = (len(each) if isinstance(each, MessageGroup) else 1 for each in call.given)
        starts = list(accumulate(sizes, initial=0))  # items of Responses are read as groups
        return CurationReport(
            record=call.record.entries(),
            view=view.entries,
            steps=steps,
            token_counter=self.counter,
            count_entry=self._memo.count_entry,
            tokens=view.tokens + call.overhead,
            max_tokens=None if call.budget is None else call.budget.max_tokens,
            overhead=call.overhead + (0 if call.budget is None else call.budget.reserve),
            provider=self.profile.name,
            strategy="+".join(snake_case(type(each).__name__) for each in self.managers)
            or "budget",
            stable_entries=view.stable_entries,
            cut=view.cutoff_index,
            compacted=view.compacted or bool(call.compactions),
            orphans=orphans,
            mode=self.mode,
            warnings=call.warnings,
            places=[starts[place] for place in call.record.places],
            compact_to=COMPACT_TO if self.compact_to is None else self.compact_to,
        )

    def _check_cache(self, call: Call, curation: Curation, answer: Any) -> CacheLost | None:
        """Compare the cached tokens of an answer with the promise of the view before, and say so."""
        if call.is_checked or read_usage(answer) is None:
            return None
        call.is_checked = True
        loss = self._cache_watch.check(self._describe_sent(call, curation), answer)
        if loss is not None:
            loss = replace(
                loss, session_id=getattr(call.options.get("session"), "session_id", None)
            )
            call.warnings.append(str(loss))
            logger.warning("%s", loss)
            if self.bus is not None:
                self.bus.publish(loss)
        return loss

    def _describe_sent(self, call: Call, curation: Curation) -> SentView:
        entries, report, is_shadow = curation.entries, curation.report, self.mode == "shadow"
        facts = [each for each in call.record.facts if each.entry.role is not MessageRole.SYSTEM]
        steps = accumulate((each.key for each in facts), lambda *pair: hash(pair), initial=0)
        return SentView(
            list(steps)[1:],
            names=[hash(key_of_entry(entry)) for entry in entries],
            sizes=list(map(self._memo.count_entry, entries)),
            prefix=len(entries) if is_shadow else report.prefix_entries,
            overhead=call.overhead,
            tools=hash(repr(call.options.get("tools"))),
            compacted=report.compacted and not is_shadow,
            time=call.started,
            idle_seconds=call.options.get("idle"),
        )

    def _publish(self, curation: Curation, session: Any) -> None:
        """Send `HistoryCurated` to the bus, and a line to the log."""
        if self.bus is not None:
            event = HistoryCurated.of(curation.report, session=session, prompt_name=self.name)
            self.bus.publish(event)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s: %r", self.name, curation.report)


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
