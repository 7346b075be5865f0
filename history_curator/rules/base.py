"""A rule, the violations it finds, and the loop that repairs until no rule finds any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from history_curator.entries import ConversationEntry, MessageRole

SYSTEM, USER = MessageRole.SYSTEM, MessageRole.USER
ASSISTANT, TOOL = MessageRole.ASSISTANT, MessageRole.TOOL

Tail = Literal["request", "history"]
Entries = Sequence[ConversationEntry]
Finding = tuple[int | None, str]

MAX_ROUNDS = 4
"""One round repairs everything under the profiles that ship; more are for rules of your own."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a conversation breaks a rule, and the problem in words for a person.

    The index is that of the culprit, None when something is missing; ``docs/providers.md`` lists
    the codes of rules, such as ``P6``.
    """

    index: int | None
    rule: str
    message: str


class Rule:
    """One demand of a provider: a subclass has `check_entry` and `mend`, or `check_view` and `repair`.

    Attributes:
        code: such as ``P6``; rules about one subject share it. ``docs/providers.md`` lists them.
        requests_only: a history that the caller appends to need not follow the rule.
        within_units: `check_view` can judge one unit (an exchange or a single entry) alone.

    Examples:
        >>> from history_curator.testing import parse_entries
        >>> class NoSystem(Rule):
        ...     code = "X1"
        ...
        ...     def check_entry(self, entry):
        ...         return ["a system message"] if entry.role is SYSTEM else []
        ...
        ...     def mend(self, entry):
        ...         return None
        >>> [violation.index for violation in NoSystem().find(parse_entries("S U"))]
        [0]
    """

    code: ClassVar[str]
    requests_only: ClassVar[bool] = False
    within_units: ClassVar[bool] = False

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        """Judge one entry alone: a message for each violation."""
        return []

    def check_view(self, entries: Entries) -> list[Finding]:
        """Judge the sequence: an index and a message for each violation."""
        return []

    def mend(self, entry: ConversationEntry) -> ConversationEntry | None:
        """Return an entry that `check_entry` objected to as it is accepted; None leaves it out."""
        raise NotImplementedError

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Return entries in which the rule finds no violation."""
        mended = [self.mend(entry) if self.check_entry(entry) else entry for entry in entries]
        return [entry for entry in mended if entry is not None]

    def find(self, entries: Entries) -> list[Violation]:
        """Return every violation, first those of single entries."""
        found: list[Finding] = [
            (index, message)
            for index, entry in enumerate(entries)
            for message in self.check_entry(entry)
        ]
        found += self.check_view(entries)
        return [Violation(index, self.code, message) for index, message in found]


def repair_entries(
    rules: Sequence[Rule],
    entries: Entries,
    is_valid: Callable[[ConversationEntry], bool],
    *,
    in_unit: bool = False,
) -> Entries:
    """Return entries in which no rule finds a violation; the given object when there was none.

    With `in_unit` the entries are one unit, so only rules `within_units` check the sequence.
    """
    for _ in range(MAX_ROUNDS):
        before = entries
        suspects = [entry for entry in entries if not is_valid(entry)]
        for rule in rules:
            if any(map(rule.check_entry, suspects)) or (
                (rule.within_units or not in_unit) and rule.check_view(entries)
            ):
                entries = rule.repair(entries)
                suspects = [entry for entry in entries if not is_valid(entry)]
        if entries is before:
            break
    return entries


def copy_edited(entry: ConversationEntry, **changes: Any) -> ConversationEntry:
    """Return an edited copy; the copy of an invented entry has no original."""
    if entry.source is None and entry.origin is not None:
        return replace(entry, **changes)
    return entry.evolve(**changes)


def copy_repaired(entry: ConversationEntry, reason: str, **changes: Any) -> ConversationEntry:
    """Return an edited copy marked as repaired, unless an earlier edit marked it already."""
    return copy_edited(
        entry, action=entry.action or "repaired", reason=entry.reason or reason, **changes
    )


def is_blank(text: str | None) -> bool:
    """Return whether a text is missing, empty or white space."""
    return not text or text.isspace()
