"""The part of a view that only grows, with what was worked out about it so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from history_curator.dialect import Dialect
from history_curator.model import ConversationEntry
from history_curator.structure._shown import Shown


class Body:
    """The entries of a view that stay as they are while its lines do: all but the newest unit.

    Entries are only ever added, so where their messages stand and what they are written as is
    worked out once for each, however often the view is asked for.

    Attributes:
        key: names the lines; a body is of use while they have that name.
        counted: position of the first unit that is not in it yet.
        head: how many of its entries stand before the cut line.
        entries: what it shows.
        tokens: what they cost.
    """

    __slots__ = ("_followed", "_shown", "counted", "entries", "head", "key", "tokens")

    def __init__(self, key: object = None, counted: int = 0) -> None:
        self.key = key
        self.counted = counted
        self.head = 0
        self.entries: list[ConversationEntry] = []
        self.tokens = 0
        self._shown = Shown()
        self._followed = 0

    def add(self, *forms: tuple[int, Sequence[ConversationEntry]]) -> None:
        """Add units, each in one of its forms: what it costs, and its entries."""
        entries, tokens = self.entries, self.tokens
        for cost, form in forms:
            tokens += cost
            entries += form
        self.tokens = tokens

    def shown(self, dialect: Dialect, recorded: Sequence[Any]) -> Shown:
        """What it shows of the messages recorded. Only what was added is looked at."""
        if self._followed < len(self.entries):
            self._shown.add(self.entries[self._followed :], dialect, recorded)
            self._followed = len(self.entries)
        return self._shown
