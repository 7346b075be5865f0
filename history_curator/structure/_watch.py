"""Notice messages that were edited in place after they were read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any, Protocol

from history_curator.dialect import Dialect, differ
from history_curator.structure._shown import Run, gather

RECENT = 16
"""How many of the newest messages are compared in everything they are made of."""


class Reread(Protocol):
    """Tells whether a message still reads as it did, and so do the copies made of it.

    What was made of it is of no interest where it is not known to be edited.
    """

    def __call__(self, message: Any, place: int, *, edited: bool) -> bool: ...


class Watch:
    """What recorded messages were like when they were read.

    Replaced content is noticed by a glance, which is cheap enough for a whole view. The newest
    messages, and those that can be edited inside their content, are compared with snapshots.

    Args:
        dialect: of the messages.
        recorded: the messages; the list grows and shrinks before the watch is told.
    """

    __slots__ = ("_dialect", "_glances", "_inside", "_last", "_newest", "_older", "_recorded")

    def __init__(self, dialect: Dialect, recorded: list[Any]) -> None:
        self._dialect = dialect
        self._recorded = recorded
        self._glances: list[Any] = []  # one for each message
        self._newest: list[Any] = []  # snapshots of the last messages, mostly RECENT of them
        self._inside: set[int] = set()  # places of messages that can be edited inside
        self._older: dict[int, Any] = {}  # snapshots of those that are not among the newest
        self._last: tuple[object, Sequence[Run]] = (None, ())  # the last view

    def extend(self, messages: Sequence[Any], inside: Iterable[int]) -> None:
        """Watch further messages, of which those at some places can be edited inside."""
        before = len(self._recorded) - len(messages)
        if len(messages) > RECENT:
            self._retire(len(self._newest), before)
        self._inside.update(inside)
        self._glances += self._dialect.glance(messages)
        self._newest += map(self._dialect.snapshot, messages[-RECENT:])

    def swap_first(self, message: Any, *, inside: bool) -> None:
        """Watch another message in the place of the first one."""
        self._older.pop(0, None)
        self._inside.discard(0)
        if inside:
            self._inside.add(0)
        self._glances[0] = self._dialect.glance([message])[0]
        if len(self._newest) == len(self._recorded):
            self._newest[0] = self._dialect.snapshot(message)

    def truncate(self, length: int, reread: Reread) -> bool:
        """Forget the messages from position `length` on.

        Those that are among the newest again are read again. False when one was edited.
        """
        start = len(self._glances) - len(self._newest)
        del self._glances[length:], self._newest[max(0, length - start) :]
        self._inside = {place for place in self._inside if place < length}
        self._older = {place: seen for place, seen in self._older.items() if place < length}
        first = max(0, length - RECENT)
        again = self._recorded[first:start]
        self._newest[:0] = map(self._dialect.snapshot, again)
        return all(reread(message, at, edited=False) for at, message in enumerate(again, first))

    def unedited(
        self, messages: Sequence[Any], runs: Sequence[Run], view: object, reread: Reread
    ) -> list[Any] | None:
        """Return the messages of a view; None when some are others than those recorded.

        Args:
            messages: what was given.
            runs: where the messages of the view stand.
            view: names the view. While it has that name, messages are only added to it.
            reread: tells of an edit whether it changes nothing.
        """
        dialect, glances = self._dialect, self._glances
        shown = gather(messages, runs)
        if not all(map(is_, shown, gather(self._recorded, runs))):
            return None
        if dialect.glance(shown) != gather(glances, runs):
            return None
        last, self._last = self._last, (view, runs)
        if last[1] != runs and (view is None or last[0] is not view):
            # Edited, then cut: the lines would lie where they did for what nobody has any more.
            before = dialect.glance(gather(messages, last[1]))
            if before != gather(glances, last[1]):
                return None
        others = self._inside and [
            place for place in self._inside if any(start <= place < end for start, end in runs)
        ]
        return shown if self._as_snapshots(messages, others, reread) else None

    def all_unedited(self, messages: Sequence[Any], reread: Reread) -> bool:
        """Whether all messages are those recorded, compared in everything they are made of."""
        return (
            all(map(is_, messages, self._recorded))
            and self._dialect.glance(messages) == self._glances
            and self._as_snapshots(messages, range(len(messages)), reread)
        )

    def _as_snapshots(self, messages: Sequence[Any], others: Iterable[int], reread: Reread) -> bool:
        """Whether the newest messages, and others at some places, are as they were."""
        newest, snapshot, count = self._newest, self._dialect.snapshot, len(self._recorded)
        start = count - len(newest)
        now = self._dialect.peek(messages[start:count])
        if differ(now, newest):
            for at, (new, old) in enumerate(zip(now, newest, strict=True)):
                if differ(new, old):
                    if not reread(messages[start + at], start + at, edited=True):
                        return False
                    newest[at] = snapshot(messages[start + at])
        if len(newest) > RECENT:
            self._retire(len(newest) - RECENT, count)
        return not others or self._as_older(messages, [at for at in others if at < start], reread)

    def _as_older(self, messages: Sequence[Any], places: Sequence[int], reread: Reread) -> bool:
        known, snapshot = self._older, self._dialect.snapshot
        if len(known) > RECENT + 2 * len(places):
            known = self._older = {at: known[at] for at in places if at in known}
        seen = self._dialect.peek([messages[place] for place in places])
        for place, new in zip(places, seen, strict=True):
            message, looked_at = messages[place], place in known
            if looked_at and not differ(new, known[place]):
                continue
            doubtful = looked_at or place in self._inside
            if doubtful and not reread(message, place, edited=looked_at):
                return False
            known[place] = snapshot(message)
        return True

    def _retire(self, count: int, end: int) -> None:
        """Let the first of the newest messages go, but for those that can be edited inside.

        Args:
            count: how many.
            end: the place behind the last one.
        """
        if self._inside:
            for place, seen in enumerate(self._newest[:count], end - len(self._newest)):
                if place in self._inside:
                    self._older[place] = seen
        del self._newest[:count]
