"""`Timeline`: entries and the units they make up."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from operator import is_
from typing import Any

from history_curator.entries import ConversationEntry
from history_curator.units import Pairing


class Timeline:
    """A conversation as entries and units. It only grows; another history is another timeline.

    Attributes:
        entries: everything, in order.
        pairing: the units.
        folds: where the cut lies, by what it was asked for; kept by the seal to save work.
    """

    __slots__ = ("entries", "folds", "pairing")

    def __init__(self, entries: Iterable[ConversationEntry] = ()) -> None:
        self.entries: list[ConversationEntry] = []
        self.pairing = Pairing()
        self.folds: dict[Hashable, Any] = {}
        self.extend(entries)

    def extend(self, entries: Iterable[ConversationEntry]) -> None:
        """Record more entries."""
        start = len(self.entries)
        self.entries += entries
        self.pairing.extend(self.entries[start:], start)

    def followed_by(self, entries: Sequence[ConversationEntry]) -> Timeline:
        """Return the timeline of these entries: this one, grown, or another."""
        known = self.entries
        if len(known) <= len(entries) and all(map(is_, known, entries)):
            self.extend(entries[len(known) :])
            return self
        return self.other(entries)

    def other(self, entries: Iterable[ConversationEntry]) -> Timeline:
        """Return another timeline; what is known of units that are the same is known there too."""
        other = Timeline(entries)
        units = {id(unit.head): unit for unit in self.pairing.units}
        for unit in other.pairing.units:
            before = units.get(id(unit.head))
            if before is None or len(before.entries) != len(unit.entries):
                continue
            if all(map(is_, before.entries, unit.entries)):
                unit.form, unit.told, unit.facts = before.form, before.told, before.facts
        return other

    def with_system(self, position: int, entry: ConversationEntry) -> None:
        """Put another system entry in the place of one; whoever holds the list keeps what it had."""
        self.entries = [*self.entries[:position], entry, *self.entries[position + 1 :]]
        self.pairing.system = [
            (at, entry if at == position else known) for at, known in self.pairing.system
        ]
        if self.pairing.units and position > self.pairing.units[0].start:
            self.folds.clear()  # what it costs where it stands is part of them
