"""`SummarizingManager`: what no longer fits is summarised by a model, once."""

from __future__ import annotations

import logging
from collections.abc import Generator, MutableMapping, Sequence
from typing import Any

from history_curator._drive import Ask, Body
from history_curator.errors import BudgetUnsatisfiableError, ConfigurationError
from history_curator.managers._cut import fits, place_of, stopped_fitting, window_of
from history_curator.managers._protocol import CurationContext
from history_curator.managers._running import Driven
from history_curator.managers.relevance._compose import marked_entry, quote
from history_curator.managers.summaries import (
    DEFAULT_PROMPT,
    Live,
    Ride,
    RollingSummary,
    Summarizer,
    resolve_summarizer,
    riding_now,
)
from history_curator.managers.summaries._prompt import check_prompt, ride_prompt
from history_curator.entries import ConversationEntry, neutralise

logger = logging.getLogger("history_curator")

SUMMARY_HEAD = "[Summary of earlier parts of this conversation, which are no longer shown]"

_Steps = Generator[str | Ride, str, Sequence[ConversationEntry]]


class SummarizingManager(Driven):
    """Replaces what is cut by a summary, written by a model of your choice.

    Guaranteed: the model is called only when the history does not fit; everything that is cut
    reaches it, in chunks where needed; each part is summarised once, so the summary and
    everything after it stay byte for byte the same until the cut compactions; the record is untouched.
    When the model fails, the entries are handed on as they are, the budget cuts them, and the
    report carries a warning: the conversation never stops on a summary.

    Where the model is the one that a curated agent asks anyway, the summary is asked for behind the
    request that was sent last: the same system prompt, tools and messages, and one instruction. All
    but the instruction is read from the provider's cache. A prompt of one's own is sent alone.

    Args:
        summarizer: a function from text to text, sync or async, a LangChain chat model or
            runnable, or a LlamaIndex LLM. In ``Curator.curate`` an
            async-only function runs in a thread with an event loop of its own.
        max_tokens: the most the summary may cost; never more than a quarter of the budget.
        chunk_tokens: the most text one prompt carries.
        prompt: a template with ``{messages}`` and ``{earlier}``, and optionally ``{max_words}``.
        cache: a mapping that keeps summaries, for instance over a restart.
        compact_to: how full a jump leaves the view, as for `Curator`.

    Examples:
        >>> from history_curator.entries import MessageRole
        >>> from history_curator.tokens import get_counter
        >>> said = [
        ...     ConversationEntry(MessageRole.USER, f"fact {n}: " + "x " * 50) for n in range(9)
        ... ]
        >>> manager = SummarizingManager(lambda prompt: "Facts: many.")
        >>> context = CurationContext(get_counter("heuristic"), max_tokens=500)
        >>> view = manager.curate(said, context=context)
        >>> [entry.content.splitlines()[-1] for entry in view if entry.origin == "summary"]
        ['Facts: many.']
    """

    def __init__(
        self,
        summarizer: Any,
        *,
        max_tokens: int = 1_000,
        chunk_tokens: int = 8_000,
        prompt: str = DEFAULT_PROMPT,
        cache: MutableMapping[str, str] | None = None,
        compact_to: float | None = 0.75,
    ) -> None:
        if max_tokens < 50 or chunk_tokens < 100:
            raise ConfigurationError(
                f"max_tokens={max_tokens}, chunk_tokens={chunk_tokens}. Fix: at least 50 and 100."
            )
        self.summarizer = resolve_summarizer(summarizer)
        self._given = summarizer
        self._rides = prompt == DEFAULT_PROMPT
        self.max_tokens = max_tokens
        self.compact_to = compact_to
        self._rolling = RollingSummary(check_prompt(prompt), chunk_tokens=chunk_tokens, cache=cache)

    def _steps(
        self, entries: Sequence[ConversationEntry], context: CurationContext
    ) -> Body[Sequence[ConversationEntry]]:
        """Ask the model what the steps want to know, whoever waits for it."""
        live = riding_now(self._given) if self._rides else None
        steps = self._prompts(entries, context, live)
        answer: str | None = None
        while True:
            try:
                wanted = steps.send(answer)  # type: ignore[arg-type]
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            try:
                answer = yield self._ask(wanted, live)
            except Exception as error:  # noqa: BLE001 - whatever a model raises
                if isinstance(wanted, str):
                    return self._give_up(entries, context, error)
                name, kind = self.summarizer.name, type(error).__name__
                logger.info("%s: asked behind the last request, %s", name, kind)
                answer = ""

    def _ask(self, wanted: str | Ride, live: Live | None) -> Ask:
        if isinstance(wanted, str):
            return Ask(self.summarizer.ask, self.summarizer.aask, (wanted,))
        assert live is not None
        behind = Summarizer(live.ask, live.aask, self.summarizer.name)
        return Ask(behind.ask, behind.aask, (wanted.instruction,))

    def _prompts(
        self, entries: Sequence[ConversationEntry], context: CurationContext, live: Live | None
    ) -> _Steps:
        """Yield prompts, take answers, return the view."""
        room = context.max_tokens
        if room is None or not entries:
            return entries
        timeline = context.timeline_of(entries)
        if fits(timeline, context.counter, room):
            return entries
        most = min(self.max_tokens, room // 4)
        head = context.counter.count(SUMMARY_HEAD) + 8
        try:
            window = window_of(timeline, context, room - most - head, self.compact_to)
        except BudgetUnsatisfiableError:
            context.warn("No room for a summary: the budget is taken by what must stay.")
            return entries
        if window.compacted or stopped_fitting(timeline, context.counter, room):
            context.jump(self)
        view, units = list(window.entries), timeline.pairing.units
        gone, first, kept = units[: window.unit], units[window.unit].head, set(window.heads)
        cut = [unit for position, unit in enumerate(gone) if position not in kept]
        if not cut:
            return view
        # The summary stands before the cut, or before the question that is answered right there.
        asked = window.unit - 1 in kept and gone[-1].kind == "user"
        behind = gone[-1].head if asked else first
        place = place_of(view, behind)
        # With the heads that stay: what is summarised goes on from what was, whichever they are.
        before = [unit.entries for unit in gone]

        def ride(done: int, earlier: str, words: int) -> str | None:
            left = [entry for entries in before[done:] for entry in entries]
            if live is None or not live.covers(left, context.record, earlier):
                return None
            return ride_prompt(first, words)

        summary = yield from self._rolling.steps(
            list(map(_written, before)), max_tokens=most, counter=context.counter, ride=ride
        )
        for unit in cut:
            for entry in unit.entries:
                context.explain(entry, "summarised")
        view.insert(place, _marked(summary, len(cut), behind))
        return view

    def _give_up(
        self, entries: Sequence[ConversationEntry], context: CurationContext, error: Exception
    ) -> Sequence[ConversationEntry]:
        if isinstance(error, ConfigurationError):
            raise error
        warning = f"The summary failed ({type(error).__name__}); older entries are cut without one."
        logger.warning("%s: %s", self.summarizer.name, warning)
        context.warn(warning)
        return entries


def _written(entries: Sequence[ConversationEntry]) -> str:
    return "\n".join(map(quote, entries))


def _marked(summary: str, count: int, before: ConversationEntry) -> ConversationEntry:
    return marked_entry(
        f"{SUMMARY_HEAD}\n{neutralise(summary)}",
        before=before,
        origin="summary",
        reason=f"summary of {count} units before the cut",
    )
