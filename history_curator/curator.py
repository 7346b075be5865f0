"""`Curator`: read, managers, seal, write."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

from history_curator._curation import Curation
from history_curator._pipeline import Options, Request, Run, Tail, explain, left_out
from history_curator.dialect import Dialect
from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError
from history_curator.managers._protocol import CurationContext, HistoryManager
from history_curator.managers._running import arun_manager, run_manager
from history_curator.profiles import ProviderProfile, get_profile
from history_curator.read import detect
from history_curator.report import CurationReport, Step
from history_curator.seal import Ladder, Sealed, seal
from history_curator.structure import Timeline, TimelineCache
from history_curator.tokens import TokenCounter, get_counter

if TYPE_CHECKING:
    from history_curator.config import CuratorConfig
    from history_curator.record import EventBus

__all__ = ["Curation", "Curator"]

logger = logging.getLogger("history_curator")


class Curator:
    """Decides what of a conversation the model gets to see.

    Whatever the managers do, the view fits `max_tokens` or `BudgetUnsatisfiableError` is raised,
    no tool exchange is split, the provider's rules hold, the system message and the latest user
    message are there, and untouched messages are the very objects that were given. Nothing that
    was given is changed. The same input gives the same view, on any machine, after any restart;
    a curator is safe to share between threads and conversations.

    Args:
        managers: applied in order; none is a good default, the budget ladder alone.
        max_tokens: the budget. None means no budget: only the provider's rules are enforced.
        counter: an encoding, a model name, or a `TokenCounter`.
        provider: whose rules hold: core, portable, openai, anthropic, gemini, bedrock, mistral,
            or a `ProviderProfile`.
        low_water: how full the view is after a cut. None chooses by budget; 1.0 cuts just enough
            on every call, which throws the prompt cache away on every call.
        reasoning: strip, keep or refuse reasoning that an edit unbinds; None is the profile's way.
        recall: placeholders name the handle that the recall tool takes.
        mode: ``"shadow"`` works everything out and reports it, but returns the full history.
        bus: an `EventBus` that receives `HistoryCurated`.
        name: what events call this curator.

    Example:
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
        low_water: float | None = None,
        reasoning: Literal["strip", "keep", "refuse"] | None = None,
        recall: bool = False,
        mode: Literal["enforce", "shadow"] = "enforce",
        bus: EventBus | None = None,
        name: str = "history",
        preserve_last_n: int | None = None,
    ) -> None:
        _check(managers, low_water, mode)
        _check_number("max_tokens", max_tokens, least=1)
        _check_number("preserve_last_n", preserve_last_n, least=0)
        self.managers = managers
        self.max_tokens = max_tokens
        self.counter = get_counter(counter)
        self.profile = get_profile(provider, reasoning=reasoning)
        self.low_water = low_water
        self.recall = recall
        self.mode = mode
        self.bus = bus
        self.name = name
        self.preserve_last_n = preserve_last_n
        self._strategy = "+".join(type(each).__name__ for each in managers) or "ladder"
        self._lock = RLock()
        self._timelines = TimelineCache()
        self._ladders: dict[int, Ladder] = {}
        self._tools: tuple[Any, int] | None = None

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
            objects: what ``"@name"`` options stand for, such as a summarizer.
            overrides: arguments of `Curator` that win over the configuration.
        """
        from history_curator.config import CuratorConfig

        return CuratorConfig.load(config).build(objects=objects, **overrides)

    def curate(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        reserve: int = 0,
        tail: Tail = "request",
        session: Any = None,
        max_tokens: int | None = None,
        dialect: Dialect | None = None,
        query: str | None = None,
    ) -> Curation:
        """Return the view of a conversation.

        Args:
            messages: the whole conversation, oldest first.
            tools: tool schemas sent along; they count.
            reserve: tokens to leave free, for the answer or for what the caller adds.
            tail: ``"request"`` when the view is about to be sent, so it must end on a user or
                tool message; ``"history"`` when the caller appends the next message.
            session: handed to the managers.
            max_tokens: a budget for this call alone.
            dialect: how to read the messages; found from the first one when not given.
            query: what the user asks now, where it is not among the messages yet; managers that
                look for what matters to the question use it.

        Raises:
            BudgetUnsatisfiableError: when what must be sent does not fit.
            ConversionError: when a message cannot be read.
        """
        options = Options(tools, reserve, tail, session, max_tokens, dialect, query)
        if not self.managers:
            return self._ladder_only(messages, options)
        run = self._start(messages, options)
        for manager in self.managers:
            run.take(manager, run_manager(manager, run.entries, run.context))
        return self._finish(run)

    async def acurate(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        reserve: int = 0,
        tail: Tail = "request",
        session: Any = None,
        max_tokens: int | None = None,
        dialect: Dialect | None = None,
        query: str | None = None,
    ) -> Curation:
        """Like `curate`, for managers that call a model."""
        options = Options(tools, reserve, tail, session, max_tokens, dialect, query)
        if not self.managers:
            return self._ladder_only(messages, options)
        run = self._start(messages, options)
        for manager in self.managers:
            run.take(manager, await arun_manager(manager, run.entries, run.context))
        return self._finish(run)

    def _read(self, messages: Sequence[Any], options: Options) -> Request:
        tail, max_tokens = options.tail, options.max_tokens
        if tail not in ("request", "history"):
            raise ConfigurationError(f"tail is {tail!r}. Fix: use 'request' or 'history'.")
        if max_tokens is not None:
            _check_number("max_tokens", max_tokens, least=1)
        if options.reserve.__class__ is not int or options.reserve:
            _check_number("reserve", options.reserve, least=0)
        dialect = options.dialect or detect(messages)
        given = messages if type(messages) is list else list(messages)
        with self._lock:
            timeline = self._timelines.lookup(dialect, given)
            record = timeline.entries[:] if self.managers else timeline.entries
            count = len(record)
        limit = self.max_tokens if max_tokens is None else max_tokens
        priced = self.counter.priming + self._count_tools(options.tools)
        overhead = priced + options.reserve
        return Request(
            options, dialect, given, timeline, record, count, overhead, priced, limit, []
        )

    def _start(self, messages: Sequence[Any], options: Options) -> Run:
        """Managers see every entry, so every message is checked for edits in place."""
        request = self._read(messages, options)
        with self._lock:
            record, given = request.record, request.messages
            if not request.timeline.verify(given):
                request.timeline = self._timelines.rebuild(request.dialect, given)
                record = request.record = request.timeline.entries[:]
                request.count = len(record)
                request.timeline.verify(given)
        room = request.room
        context = CurationContext(
            counter=self.counter,
            max_tokens=None if room is None else max(0, room),
            session=options.session,
            preserve_last_n=self.preserve_last_n,
            tail=options.tail,
            record=tuple(record),
            recall=self.recall,
            low_water=self.low_water,
            query=options.query,
            warnings=request.warnings,
        )
        return Run(request, context)

    def _count_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> int:
        if not tools:
            return 0
        key = repr(tools)
        known = self._tools
        if known is None or known[0] != key:
            known = self._tools = (key, self.counter.count_tools(tools))
        return known[1]

    def _ladder(self, max_tokens: int) -> Ladder:
        ladder = self._ladders.get(max_tokens)
        if ladder is None:
            ladder = Ladder(self.counter, max_tokens, self.low_water, recall=self.recall)
            if len(self._ladders) > 64:
                self._ladders.clear()
            self._ladders[max_tokens] = ladder
        return ladder

    def _seal(self, request: Request, timeline: Timeline, *, edited: bool) -> Sealed:
        limit = request.max_tokens
        try:
            return seal(
                timeline,
                profile=self.profile,
                counter=self.counter,
                ladder=None if limit is None else self._ladder(limit),
                room=request.room,
                tail=request.options.tail,
                edited=edited,
                preserve_last_n=self.preserve_last_n,
            )
        except BudgetUnsatisfiableError as error:
            assert limit is not None
            refusal = BudgetUnsatisfiableError(
                error.needed + request.overhead, limit, error.irreducible, request.overhead
            )
        if self.mode != "shadow":
            raise refusal
        request.warnings.append(str(refusal))
        return seal(
            timeline,
            profile=self.profile,
            counter=self.counter,
            ladder=None,
            room=None,
            tail=request.options.tail,
            edited=edited,
        )

    def _ladder_only(self, messages: Sequence[Any], options: Options) -> Curation:
        """The default, without managers: works on the timeline itself, so it costs O(view)."""
        with self._lock:
            request = self._read(messages, options)
            timeline, given = request.timeline, request.messages
            try:
                sealed = self._seal(request, timeline, edited=False)
                view = _write(timeline, sealed, request)
            except BudgetUnsatisfiableError:
                if timeline.verify(given):
                    raise
                view = None
            if view is None:  # messages were edited since they were read
                timeline = self._timelines.rebuild(request.dialect, given)
                request.record, request.count = timeline.entries, len(timeline.entries)
                sealed = self._seal(request, timeline, edited=False)
                view = _write(timeline, sealed, request)
                if view is None:
                    view = request.dialect.write(sealed.entries)
            orphans = left_out(timeline)
        return self._conclude(request, sealed, [], orphans, view)

    def _finish(self, run: Run) -> Curation:
        request, record = run.request, run.request.record
        kept = run.result(self.preserve_last_n)
        timeline = Timeline.of(kept)
        edited = len(kept) != len(record) or any(
            mine is not given for mine, given in zip(kept, record, strict=True)
        )
        sealed = self._seal(request, timeline, edited=edited)
        view = request.dialect.write(sealed.entries)
        return self._conclude(request, sealed, run.steps, left_out(timeline), view)

    def _conclude(
        self,
        request: Request,
        sealed: Sealed,
        steps: list[Step],
        orphans: dict[int, str],
        view: list[Any],
    ) -> Curation:
        tokens = sealed.tokens + request.priced
        made: list[Any] = [
            partial(
                explain,
                request,
                sealed,
                steps,
                orphans,
                counter=self.counter,
                profile=self.profile,
                strategy=self._strategy,
                mode=self.mode,
            )
        ]
        curation = Curation(view, sealed.entries, tokens, made)
        if self.mode == "shadow":
            whole, record = list(request.messages), request.record[: request.count]
            before = curation.report.tokens_before + request.priced
            curation = Curation(whole, record, before, made)
        if self.bus is not None or logger.isEnabledFor(logging.DEBUG):
            self._announce(curation.report, request.options.session)
        return curation

    def _announce(self, report: CurationReport, session: Any) -> None:
        if self.bus is not None:
            from history_curator.record import HistoryCurated

            self.bus.publish(HistoryCurated.of(report, session=session, prompt_name=self.name))
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "%s: %d of %d entries, %d tokens",
                self.name,
                report.curated_count,
                report.original_count,
                report.tokens,
            )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for cache in ("_lock", "_timelines", "_ladders", "_tools"):
            del state[cache]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()
        self._timelines = TimelineCache()
        self._ladders = {}
        self._tools = None


def _write(timeline: Timeline, sealed: Sealed, request: Request) -> list[Any] | None:
    lead = 0 if sealed.fit is None else sealed.fit.lead
    return timeline.write(
        sealed.entries, request.messages, request.dialect, body=sealed.body, lead=lead
    )


def _check(managers: Sequence[Any], low_water: float | None, mode: str) -> None:
    for position, manager in enumerate(managers):
        if not (hasattr(manager, "curate") or hasattr(manager, "acurate")):
            raise ConfigurationError(
                f"managers[{position}] is a {type(manager).__name__} without a curate method. "
                "Fix: pass objects with curate(entries, *, context)."
            )
    if low_water is not None and not 0.0 < low_water <= 1.0:
        raise ConfigurationError(f"low_water is {low_water!r}. Fix: above 0, at most 1, or None.")
    if mode not in ("enforce", "shadow"):
        raise ConfigurationError(f"mode is {mode!r}. Fix: 'enforce' or 'shadow'.")


def _check_number(name: str, value: object, *, least: int) -> None:
    if value is None and name != "reserve":
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigurationError(f"{name} is {value!r}. Fix: a whole number, at least {least}.")
