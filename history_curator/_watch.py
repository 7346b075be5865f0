"""What the provider says about the views of one conversation: reports, its counts, its cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from history_curator.caching import Along, State, cache_key, mark_of
from history_curator.dialects import model_of
from history_curator.tokens import Report, Usage, read_usage

if TYPE_CHECKING:
    from history_curator._pipeline import Options
    from history_curator.curator import Curator
    from history_curator.timeline import Conversation

_TTL = {"anthropic": 300.0, "bedrock": 300.0}
"""Seconds a provider keeps a prefix, where nothing reported says better."""


class Watch:
    """What is known of one conversation beside its messages, for one call of `curate`.

    Args:
        curator: who makes the view.
        conversation: whose view is made.
        options: what `curate` was called with.
    """

    def __init__(self, curator: Curator, conversation: Conversation, options: Options) -> None:
        self._calibration = curator.calibration
        self._asked: str | None = getattr(curator.counter, "model", None)
        self._ttl = _TTL.get(curator.profile.name)
        self._conversation = conversation
        self._options = options
        # Held, because the conversation may be somebody else's when its name is asked for.
        self._entries = conversation.record.entries
        self._place = len(conversation.seen)
        self._name: Hashable = options.key
        self._reports = curator._reports
        self._last = self._mark(self._place)

    def along(self, limit: int, priced: int) -> Along:
        """Return what goes along with the fold.

        Args:
            limit: the provider's limit, less what is to be left free.
            priced: tokens of tools and priming.
        """
        along = Along(
            None if self._calibration is None else self._calibration.known, limit, priced,
            self._ttl, idle=self._options.idle, note=self._note_cold, asked=self._asked,
        )  # fmt: skip
        if not len(self._reports):
            return along
        observed, cold, shorter = self._reports.of(self.name, self._mark)
        return along._replace(observed=observed, cold=cold, shorter=shorter)

    @property
    def name(self) -> Hashable:
        """The conversation: its key, or how it begins."""
        if self._name is None:
            self._name = cache_key(self._entries)
        return self._name

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
            place = (self._place, self._last)
            self._reports.add_shorter(self.name, place, counted if shorter else None)

    def observing(self, counted: int) -> Callable[[Any, str | None], None] | None:
        """Return what takes the report for a view that we count so."""
        calibration = self._calibration
        if calibration is None or self._last is None:
            return None
        place, reports = (self._place, self._last), self._reports
        key, entries = self._name, self._entries

        def observe(given: Any, model: str | None) -> None:
            usage = given if isinstance(given, Usage) else read_usage(given)
            if usage is None:
                return
            who, name = model or model_of(given), cache_key(entries) if key is None else key
            calibration.observe(who or calibration.counter, counted, usage, key=name)
            reports.add(name, place, Report(usage, counted, who))

        return observe

    def _mark(self, place: int) -> int | None:
        """Return the mark of the record at a place; None where it has none.

        It tells apart what begins alike and says the same last: by how much was said between.
        """
        conversation = self._conversation
        if not 0 < place <= len(conversation.seen):
            return None
        entries = conversation.entries_at(place - 1)
        return mark_of(entries[-1]) ^ conversation.size_before(place - 1) if entries else None

    def _note_cold(self, place: int) -> None:
        mark = self._mark(place)
        if mark is not None:
            self._reports.add_cold(self.name, (place, mark))
