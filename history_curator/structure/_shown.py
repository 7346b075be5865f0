"""What a view shows of the messages given: stretches of them, and copies in between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from history_curator.dialect import Dialect
from history_curator.model import ConversationEntry


class Shown:
    """What some entries show of the messages given. Entries are only ever added.

    The messages of a view mostly stand side by side in the history too, so they are kept as
    stretches of it: looking at them, and writing them, is a matter of slices.

    Args:
        runs: stretches to begin with: the places of their first message and behind their last.

    Attributes:
        alone: whether each entry is written as one message, whatever stands beside it, and was
            read from the message at its place.
        blocks: places of messages made of blocks, which can be edited inside.
        edited: the entries that are not written as the message they came from.
        edited_at: where they stand among all entries.
    """

    __slots__ = ("_count", "_runs", "alone", "blocks", "edited", "edited_at")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self.alone = True
        self.blocks: list[int] = []
        self.edited: list[ConversationEntry] = []
        self.edited_at: list[int] = []
        self._runs = list(runs)
        self._count = 0

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
        if not self.alone or not dialect.alone(entries):
            self.alone = False
            return
        runs = self._runs
        start, end = runs.pop() if runs else (0, 0)
        for at, entry in enumerate(entries, self._count):
            place, source = entry.sequence, entry.source
            if source is None or entry.original is not None:
                self.edited.append(entry)
                self.edited_at.append(at)
            if source is None:
                place = 0  # What was invented takes the slot of whichever message.
            elif not 0 <= place < len(recorded) or recorded[place] is not source:
                self.alone = False
                return
            elif entry.parts is not None:
                self.blocks.append(place)
            if place != end or start == end:
                if start < end:
                    runs.append((start, end))
                start = place
            end = place + 1
        runs.append((start, end))
        self._count += len(entries)

    def gather(self, items: Sequence[Any]) -> list[Any]:
        """The items, one for each message given, that stand where the entries' messages do."""
        found: list[Any] = []
        for start, end in self._runs:
            found += items[start:end]
        return found
