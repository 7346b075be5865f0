"""A rule, the violations it finds, and the loop that repairs until no rule finds any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from history_curator.entries import ContentPart, ConversationEntry, MessageRole

SYSTEM, USER = MessageRole.SYSTEM, MessageRole.USER
ASSISTANT, TOOL = MessageRole.ASSISTANT, MessageRole.TOOL

Entries = Sequence[ConversationEntry]
Finding = tuple[int | None, str, str]

MAX_ROUNDS = 4
"""One round repairs everything under the profiles that ship; more are for rules of your own."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a conversation breaks a rule.

    Attributes:
        index: position of the culprit in the conversation; None when something is missing.
        rule: code of the rule, such as ``P6``; ``docs/providers.md`` lists them.
        message: the problem, in words for a person.
        error: the answer of a provider, where known.
    """

    index: int | None
    rule: str
    message: str
    error: str | None = None


class Rule:
    """One demand of a provider: a subclass overrides `check_entry` or `check_view`, and `repair`.

    Attributes:
        code: such as ``P6``; rules about one subject share it. ``docs/providers.md`` lists them.
        requests_only: a history that the caller appends to need not follow the rule.
        within_units: `check_view` can judge one unit (an exchange or a single entry) alone.
        errors: the answer of a provider to each kind of violation.

    Examples:
        >>> from history_curator.testing import parse_entries
        >>> class NoSystem(Rule):
        ...     code = "X1"
        ...
        ...     def check_entry(self, entry):
        ...         return [("system", "a system message")] if entry.role is SYSTEM else []
        ...
        ...     def repair(self, entries):
        ...         return [entry for entry in entries if not self.check_entry(entry)]
        >>> [violation.index for violation in NoSystem().find(parse_entries("S U"))]
        [0]
    """

    code: ClassVar[str]
    requests_only: ClassVar[bool] = False
    within_units: ClassVar[bool] = False
    errors: ClassVar[Mapping[str, str]] = {}

    def check_entry(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        """Judge one entry alone: a kind and a message for each violation."""
        return []

    def check_view(self, entries: Entries) -> list[Finding]:
        """Judge the sequence: an index, a kind and a message for each violation."""
        return []

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Return entries in which the rule finds no violation."""
        raise NotImplementedError

    def find(self, entries: Entries) -> list[Violation]:
        """Return every violation in order of position."""
        found: list[Finding] = [
            (index, kind, message)
            for index, entry in enumerate(entries)
            for kind, message in self.check_entry(entry)
        ]
        return sort_by_index(
            [
                Violation(index, self.code, message, self.errors.get(kind))
                for index, kind, message in (*found, *self.check_view(entries))
            ]
        )


def sort_by_index(found: list[Violation]) -> list[Violation]:
    """Return violations in order of position; those without a position come last."""
    return sorted(found, key=lambda each: (each.index is None, each.index))


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


def join_part_texts(parts: Sequence[ContentPart]) -> str | None:
    """Return the text of parts, joined as the readers join it."""
    return "\n".join(part.text for part in parts if part.kind == "text" and part.text) or None
