"""What was reported for views whose messages do not carry it, by conversation."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from history_curator.tokens.usage import Usage

__all__ = ["Report", "Reports"]

_CONVERSATIONS, _EACH, _SHORTER = 4_096, 2_048, 64

Mark = int
"""Tells records apart that have equally many entries; see `Reports`."""


class Report(NamedTuple):
    """What a provider reported for one request.

    Attributes:
        usage: what it reported.
        counted: the view that was sent, as we count it with tools and all; None where that is
            not known and the view of the fold is taken for it.
        model: who answered, where it is known.
    """

    usage: Usage
    counted: int | None = None
    model: str | None = None


class _Conversation(NamedTuple):
    reports: OrderedDict[tuple[int, Mark], Report]
    cold: OrderedDict[tuple[int, Mark], None]
    shorter: OrderedDict[tuple[int, Mark], int]


class Told(NamedTuple):
    """What is known of one conversation beside its messages.

    Attributes:
        reports: what was reported, by how many entries the record had.
        cold: where its cache was cold.
        shorter: what a view took as we count it, where it was shorter than the cut leaves it.
    """

    reports: dict[int, Report]
    cold: list[int]
    shorter: dict[int, int]


class Reports:
    """Reports by conversation and by place in its record. Bounded; safe to share.

    A place is how many entries the record had, and a mark of the last of them: two conversations
    under one name, such as two that nobody named and that begin alike, keep their reports apart.

    Examples:
        >>> reports = Reports()
        >>> reports.add("chat-1", (4, 77), Report(Usage(1_000), 900))
        >>> reports.of("chat-1", lambda entries: 77).reports[4].usage.input
        1000
        >>> reports.of("chat-1", lambda entries: 78).reports
        {}
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, _Conversation] = OrderedDict()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {key: value for key, value in self.__dict__.items() if key != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, key: Hashable, place: tuple[int, Mark], report: Report) -> None:
        """Remember what was reported for the view of a record."""
        with self._lock:
            _put(self._find(key).reports, place, report)

    def add_cold(self, key: Hashable, place: tuple[int, Mark]) -> None:
        """Remember that the cache was cold when the unit came that begins at a place."""
        with self._lock:
            _put(self._find(key).cold, place, None)

    def add_shorter(self, key: Hashable, place: tuple[int, Mark], counted: int | None) -> None:
        """Remember what the view of a record took that was shorter than usual; None: it was not."""
        with self._lock:
            if counted is not None:
                _put(self._find(key).shorter, place, counted, _SHORTER)
            elif key in self._known:
                self._known[key].shorter.pop(place, None)

    def of(self, key: Hashable, mark: Callable[[int], Mark | None]) -> Told:
        """Return what is known of a conversation.

        Args:
            key: names the conversation.
            mark: returns the mark of the record at a place; None where it has no such place.
        """
        with self._lock:
            known = self._known.get(key)
            if known is None:
                return Told({}, [], {})
            reports, cold = list(known.reports.items()), list(known.cold)
            shorter = list(known.shorter.items())
        return Told(
            {at: report for (at, given), report in reports if mark(at) == given},
            [at for at, given in cold if mark(at) == given],
            {at: counted for (at, given), counted in shorter if mark(at) == given},
        )

    def _find(self, key: Hashable) -> _Conversation:
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Conversation(*(OrderedDict() for _ in range(3)))
            while len(self._known) > _CONVERSATIONS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known

    def to_list(self) -> list[dict[str, Any]]:
        """Return the conversations that have text for a name, as plain data."""
        with self._lock:
            return [
                {
                    "key": key,
                    "reports": [
                        [*place, report.counted, report.model, *_numbers(report.usage)]
                        for place, report in known.reports.items()
                    ],
                    "cold": [list(place) for place in known.cold],
                    "shorter": [[*place, counted] for place, counted in known.shorter.items()],
                }
                for key, known in self._known.items()
                if isinstance(key, str)
            ]

    @classmethod
    def from_list(cls, rows: list[Mapping[str, Any]]) -> Reports:
        """Return the reports that `to_list` made this data from."""
        made = cls()
        for row in rows:
            key = str(row["key"])
            for at, mark, counted, model, *numbers in row["reports"]:
                usage = Usage(*map(int, numbers))
                named = None if model is None else str(model)
                known = None if counted is None else int(counted)
                made.add(key, (int(at), int(mark)), Report(usage, known, named))
            for at, mark in row["cold"]:
                made.add_cold(key, (int(at), int(mark)))
            for at, mark, counted in row.get("shorter", ()):
                made.add_shorter(key, (int(at), int(mark)), int(counted))
        return made


def _numbers(usage: Usage) -> tuple[int, ...]:
    return (usage.input, usage.cache_read, usage.cache_write, usage.output, usage.cache_write_1h)


def _put(
    into: OrderedDict[Any, Any], place: tuple[int, Mark], value: Any, most: int = _EACH
) -> None:
    into[place] = value
    while len(into) > most:
        into.popitem(last=False)
