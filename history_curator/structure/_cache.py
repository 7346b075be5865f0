"""Recognise a conversation that was seen before, so that only its new messages are read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from history_curator.dialect import Dialect
from history_curator.structure._timeline import Timeline


class TimelineCache:
    """The latest timelines, by the identity of an early message. Bounded; never changes results.

    A conversation is found again by its second message (the first is often a system message made
    anew for every call).
    """

    def __init__(self, size: int = 32) -> None:
        self._size = size
        self._timelines: OrderedDict[tuple[str, int], Timeline] = OrderedDict()

    def lookup(self, dialect: Dialect, messages: list[Any]) -> Timeline:
        """Return the timeline of these messages, reading only what is new."""
        key = self._key(dialect, messages)
        timeline = self._timelines.pop(key, None)  # gone, if it turns out to be of no use
        if timeline is not None:
            known = timeline.shared_prefix(messages)
            if known == 0 and len(timeline.messages) > 1 and timeline.swap_first(messages[0]):
                known = timeline.shared_prefix(messages)
            usable = known == len(timeline.messages) or (known > 0 and timeline.truncate(known))
            if usable:
                self._timelines[key] = timeline
                timeline.extend(messages[known:])
                return timeline
        return self.rebuild(dialect, messages)

    def rebuild(self, dialect: Dialect, messages: list[Any]) -> Timeline:
        """Read everything again and remember it."""
        timeline = Timeline(dialect)
        timeline.extend(messages)
        key = self._key(dialect, messages)
        self._timelines[key] = timeline
        self._timelines.move_to_end(key)
        while len(self._timelines) > self._size:
            self._timelines.popitem(last=False)
        return timeline

    def _key(self, dialect: Dialect, messages: Sequence[Any]) -> tuple[str, int]:
        witness: Any = messages[1:2] or messages[:1]
        return dialect.name, id(witness[0]) if witness else 0
