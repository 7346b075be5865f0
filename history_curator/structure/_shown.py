"""What a view shows of the messages given: stretches of them, and copies in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from history_curator.dialect import Dialect
from history_curator.model import ConversationEntry

Run = tuple[int, int]
"""A stretch of messages: the place of the first, and the place behind the last."""


class Shown:
    """What some entries show of the messages given. Entries are only ever added.

    The messages of a view mostly stand side by side in the history too, so they are kept as
    stretches of it: looking at them, and writing them, is a matter of slices.

    Attributes:
        one_to_one: whether each entry is written as one message, whatever stands beside it, and
            was read from the message at its place. If not, nothing else here is of use.
        runs: the stretches. An entry that was invented has the slot of the first message, for
            something to be overwritten: there is one wherever there is a view to invent for.
        edited: the entries that are not written as the message they came from.
        edited_at: where they stand among all entries.
        count: how many entries there are.
    """

    __slots__ = ("count", "edited", "edited_at", "one_to_one", "runs")

    def __init__(self) -> None:
        self.one_to_one = True
        self.runs: list[Run] = []
        self.edited: list[ConversationEntry] = []
        self.edited_at: list[int] = []
        self.count = 0

    def add(
        self, entries: Sequence[ConversationEntry], dialect: Dialect, recorded: Sequence[Any]
    ) -> None:
        """Follow further entries to their messages.

        Args:
            entries: the entries.
            dialect: writes them.
            recorded: the messages they were read from.
        """
        if not entries:
            return
        if not self.one_to_one or not dialect.alone(entries):
            self.one_to_one = False
            return
        runs = self.runs
        start, end = runs.pop() if runs else (0, 0)
        for at, entry in enumerate(entries, self.count):
            place, source = entry.sequence, entry.source
            if source is None or entry.original is not None:
                self.edited.append(entry)
                self.edited_at.append(at)
            if source is None:
                place = 0
            elif not 0 <= place < len(recorded) or recorded[place] is not source:
                self.one_to_one = False
                return
            if place != end or start == end:
                if start < end:
                    runs.append((start, end))
                start = place
            end = place + 1
        runs.append((start, end))
        self.count += len(entries)


def gather(items: Sequence[Any], runs: Sequence[Run]) -> list[Any]:
    """Of items, one for each message, those of some stretches."""
    found: list[Any] = []
    for start, end in runs:
        found += items[start:end]
    return found
