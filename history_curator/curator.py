"""`Curator`: read, managers, seal, write."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from history_curator._curation import Curation
from history_curator._drive import Body, adrive, drive
from history_curator._request import Options, Request, explain, left_out
from history_curator.formats import MessageFormat, copied, detect, differ, gathered, scattered
from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError, a_type
from history_curator.managers import (
    CurationContext,
    HistoryManager,
    apply_managers,
    build_managers,
)
from history_curator.report import CurationReport, Step
from history_curator.rules import ProviderProfile, get_profile
from history_curator.window import Seal, Sealed, Tail
from history_curator.config import CuratorConfig, CuratorOptions, check_options
from history_curator.timeline import CACHE_BYTES, Conversation, Conversations, Timeline
from history_curator.tokens import Calibration, Reports, TokenCounter, get_counter

if TYPE_CHECKING:
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
        managers: applied in order; none is a good default, the budget alone.
        max_tokens: the budget. None means no budget: only the provider's rules are enforced.
        counter: an encoding, a model name, or a `TokenCounter`.
        provider: whose rules hold: core, portable, openai, anthropic, gemini, bedrock, mistral,
            or a `ProviderProfile`.
        compact_to: how full a jump of the cut leaves the view; None is 0.7. 1.0 keeps as much as
            fits on every call, which throws the prompt cache away on every call.
        recap: whether a marked entry tells what was said and done before the cut.
        retrieve: whether what matters to the question is brought back from before the cut, with
            a `RelevanceManager`; for long chats.
        reasoning: strip, keep or refuse reasoning that an edit unbinds; None is the profile's way.
        recall_tool: placeholders name the handle that the recall tool takes; a text is its name.
        mode: ``"shadow"`` works everything out and reports it, but returns the full history.
        bus: an `EventBus` that receives `HistoryCurated`.
        name: what events call this curator.
        preserve_last_n: the last n entries are never left out.
        calibration: what was learned about how the provider counts, from the usage it reports;
            None starts with nothing learned, False takes the counter's word for it.
        cache_bytes: how much is held of conversations seen before, so that only what is new is
            read and counted. It never changes a view.

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
        calibration: Calibration | bool | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        check_options(locals())  # all of them: those that are declared are looked at
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
        self.calibration = _calibration(calibration, self.counter)
        self._reports = self.calibration.reports if self.calibration else Reports()
        self.cache_bytes = cache_bytes
        self._forget()

    def _forget(self) -> None:
        """Start with nothing remembered; nothing below changes a view."""
        self._conversations = Conversations(self.cache_bytes)
        self._seals: dict[tuple[int | None, str], Seal] = {}
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
            reserve: tokens to leave free this time, for what the caller adds. It shortens this view
                and moves no later one; what is left free every time is better taken off the
                `max_tokens` of the curator, so that the cut is laid for it.
            tail: ``"request"`` when the view is about to be sent, so it must end on a user or
                tool message; ``"history"`` when the caller appends the next message. When not
                given, a conversation that the assistant ended is a history, and so is one of
                system messages alone.
            session: handed to the managers.
            max_tokens: a budget for this call alone.
            format: how to read the messages; found from the messages when not given.
            query: what the user asks now, where it is not among the messages yet; managers that
                look for what matters to the question use it.
            key: names the conversation, such as the id of its thread, so that it is found again
                whatever was edited in it. Without one it is found by what it says.
            idle: seconds since the last request, where the messages carry no times. When the
                provider's cache has gone cold by then, the cut compactions: everything is written anew
                anyway.

        Raises:
            BudgetUnsatisfiableError: when what must be sent does not fit.
            ConversionError: when a message cannot be read.
        """
        options = Options(tools, reserve, tail, session, max_tokens, format, query, key, idle)
        return drive(self._curate(messages, options))

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
        options = Options(tools, reserve, tail, session, max_tokens, format, query, key, idle)
        return await adrive(self._curate(messages, options))

    def _curate(self, messages: Sequence[Any], options: Options) -> Body[Curation]:
        """Read, managers, seal, write: the one way from messages to a view."""
        checked = ("tail", "max_tokens", "reserve", "idle", "key")
        check_options({name: getattr(options, name) for name in checked})
        format = options.format or detect(messages, self.profile.name)
        given = gathered(messages if type(messages) is list else list(messages), format)
        with self._conversations.lend(format, given, options.key) as conversation:
            timeline, steps = conversation.record, list[Step]()
            request = Request(self, conversation, options, self._count_tools(options.tools))
            if self.managers:
                record = timeline.entries[:]
                context = self._context(request, conversation, options)
                left, taken = yield from apply_managers(self.managers, record, context)
                steps = [Step(*step) for step in taken]
                if len(left) != len(record) or not all(map(is_, left, record)):
                    timeline = conversation.curate(left)
            edited = timeline is not conversation.record
            sealed = self._sealed(request, timeline, format, edited=edited)
            view = conversation.write(sealed.entries, given)
            orphans = left_out(timeline)
        report = partial(
            explain, request, sealed, steps, orphans,
            counter=self.counter, profile=self.profile, managers=self.managers, mode=self.mode,
        )  # fmt: skip
        return self._concluded(request, sealed, report, (view, given))

    def _context(
        self, request: Request, conversation: Conversation, options: Options
    ) -> CurationContext:
        room = None
        if request.limit is not None and request.usual is not None:
            left = request.limit - request.priced - request.reserve
            seal = self._seal(request.usual, conversation.format)
            room = max(0, seal.usable(conversation.record, left))
        return CurationContext(
            counter=self.counter,
            max_tokens=room,
            session=options.session,
            preserve_last_n=self.preserve_last_n,
            tail=request.tail,
            record=tuple(request.record),
            recall_tool=self.recall_tool,
            compact_to=self.compact_to,
            recap=self.recap,
            query=options.query,
            key=options.key,
            warnings=request.warnings,
            compactions=request.compactions,
        )

    def _count_tools(self, tools: Sequence[Mapping[str, Any]] | None) -> int:
        if not tools:
            return 0
        known = self._tools
        if known is None or differ(known[0], tools):
            known = self._tools = (copied(tools), self.counter.count_tools(tools))
        return known[1]

    def _seal(self, max_tokens: int | None, format: MessageFormat) -> Seal:
        key = (max_tokens, format.name)
        seal = self._seals.get(key)
        if seal is None:
            if len(self._seals) >= 64:
                self._seals = {}
            seal = self._seals[key] = Seal(
                self.counter,
                self.profile,
                max_tokens,
                compact_to=self.compact_to,
                recap=self.recap,
                recall_tool=self.recall_tool,
                preserve_last_n=self.preserve_last_n,
                format=format,
            )
        return seal

    def _sealed(
        self, request: Request, timeline: Timeline, format: MessageFormat, *, edited: bool
    ) -> Sealed:
        limit, usual = request.limit, request.usual
        if limit is None or usual is None:
            return self._seal(None, format).whole(timeline, request.tail, edited=edited)
        overhead = request.priced + request.reserve
        try:
            return self._seal(usual, format).fit(
                timeline,
                request.tail,
                usual=usual - request.priced,
                room=limit - overhead,
                edited=edited,
                along=request.along(limit),
            )
        except BudgetUnsatisfiableError as error:
            refusal = BudgetUnsatisfiableError(
                error.needed + overhead, limit, error.irreducible, overhead
            )
        if self.mode != "shadow":
            raise refusal
        request.warnings.append(str(refusal))
        return self._seal(None, format).whole(timeline, request.tail, edited=edited)

    def _concluded(
        self,
        request: Request,
        sealed: Sealed,
        report: Callable[[], CurationReport],
        messages: tuple[Sequence[Any], Sequence[Any]],
    ) -> Curation:
        """The outcome; ``messages`` are the view, and what was given for the shadow."""
        made: list[Any] = [report]  # it is made when somebody asks
        entries, counted = sealed.entries, sealed.tokens + request.priced
        if self.mode == "shadow":
            made[0] = made[0]()
            entries = request.record[: request.count]
            counted = made[0].tokens_before + request.priced
        tokens, error = request.predicted(sealed.state, counted, sealed.kept)
        shorter = sealed.shorter and self.mode != "shadow"
        taken = counted if shorter else counted + sealed.kept
        request.note(taken, shorter=shorter)
        observe = request.observing(taken)
        shown = scattered(messages[self.mode == "shadow"])
        curation = Curation(shown, entries, tokens, made, error, observe)
        if self.bus is not None or logger.isEnabledFor(logging.DEBUG):
            self._announce(curation.report, request.session)
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
        for cache in ("_conversations", "_seals", "_tools"):
            del state[cache]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()


def _calibration(given: Calibration | bool | None, counter: TokenCounter) -> Calibration | None:
    if isinstance(given, Calibration):
        if given.counter != counter.name:
            raise ConfigurationError(
                f"calibration was learned with {given.counter!r}, and {counter.name!r} counts. "
                "Fix: Calibration(counter) with the counter of the curator."
            )
        return given
    return None if given is False else Calibration(counter)


def _relevance_manager(managers: Sequence[Any], *, wanted: bool) -> Sequence[HistoryManager]:
    """The manager that brings back what matters to the question, unless there is one already."""
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
