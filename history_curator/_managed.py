"""The managers at work on one request."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from history_curator.managers._protocol import CurationContext
from history_curator.entries import ConversationEntry
from history_curator.report import Step
from history_curator.timeline import Conversation, Timeline


class Managed:
    """The managers at work on one request, whoever waits for them."""

    def __init__(self, conversation: Conversation, context: CurationContext) -> None:
        self.context = context
        self.entries: Sequence[ConversationEntry] = conversation.record.entries[:]
        self.steps: list[Step] = []
        self._conversation = conversation
        self._record = conversation.record
        self._pins: dict[int, ConversationEntry] = {}
        self._ranks: dict[int, int] | None = None

    def take(self, manager: Any, returned: Sequence[ConversationEntry]) -> None:
        """Go on with what a manager returned: once each, in the order of the record."""
        if not _same(returned, self.entries):
            known = self._conversation.known_edit
            entries = self._in_order([self._bound(entry) for entry in returned])
            unique = {id(entry.root): entry for entry in entries}.values()
            self.entries = [known(each) if each.original else each for each in unique]
            self._pins.update((id(entry.root), entry) for entry in self.entries if entry.pinned)
        self.steps.append(Step(type(manager).__name__, self.entries, dict(self.context.reasons)))

    def timeline(self, preserve_last_n: int | None) -> Timeline:
        """Return the timeline of what is left, and of what no manager may leave out.

        That is the system entries, what the user said last, pinned entries with their exchange,
        and the last n entries.
        """
        if _same(self.entries, self._record.entries):
            return self._record
        return self._conversation.curate(self._completed(preserve_last_n))

    def _rank(self, entry: ConversationEntry) -> int | None:
        if self._ranks is None:
            self._ranks = {id(each.root): at for at, each in enumerate(self._record.entries)}
        return self._ranks.get(id(entry.root))

    def _bound(self, entry: ConversationEntry) -> ConversationEntry:
        """An entry copied by other means than `evolve` is an edit all the same."""
        if entry.original is not None or entry.source is None or self._rank(entry) is not None:
            return entry
        for recorded in self._record.entries:
            if recorded.source is entry.source and recorded.span == entry.span:
                return entry.evolve(original=recorded, action=entry.action or "repaired")
        return entry

    def _in_order(self, entries: list[ConversationEntry]) -> list[ConversationEntry]:
        latest = -1
        keyed = []
        for entry in entries:
            rank = self._rank(entry)
            latest = latest if rank is None else rank
            keyed.append((latest, entry))
        return [entry for _, entry in sorted(keyed, key=lambda pair: pair[0])]

    def _completed(self, preserve_last_n: int | None) -> list[ConversationEntry]:
        record = self._record
        present = {id(entry.root) for entry in self.entries}
        required = [entry for _, entry in record.pairing.system]
        required += self._pinned()
        users = record.pairing.users
        if users:
            required.append(record.pairing.units[users[-1]].head)
        if preserve_last_n:
            required.extend(record.entries[-preserve_last_n:])
        missing = {id(entry.root): entry for entry in required if id(entry.root) not in present}
        return self._put_back(list(self.entries), list(missing.values()))

    def _put_back(
        self, entries: list[ConversationEntry], missing: list[ConversationEntry]
    ) -> list[ConversationEntry]:
        """Put entries back where the record has them; invented ones stay with what they follow."""
        waiting = sorted(missing, key=lambda entry: self._rank(entry) or 0, reverse=True)
        out: list[ConversationEntry] = []
        for entry in entries:
            rank = self._rank(entry)
            while waiting and rank is not None and (self._rank(waiting[-1]) or 0) < rank:
                out.append(waiting.pop())
            out.append(entry)
        return out + waiting[::-1]

    def _pinned(self) -> list[ConversationEntry]:
        pairing = self._record.pairing
        if not self._pins and not pairing.pinned:
            return []
        found = []
        for unit in pairing.units:
            members = [unit.head, *(result for result in unit.results if result is not None)]
            if any(entry.pinned or id(entry.root) in self._pins for entry in members):
                found += [self._pins.get(id(entry.root), entry) for entry in members]
        return found


def _same(one: Sequence[ConversationEntry], other: Sequence[ConversationEntry]) -> bool:
    return one is other or (len(one) == len(other) and all(map(is_, one, other)))
