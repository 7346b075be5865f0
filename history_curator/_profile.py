"""The rules of one provider at work: what they find, and what they make of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Literal

from history_curator.invariants import (
    Invariant,
    ReasoningMode,
    ReasoningStaysBound,
    RolesAlternate,
    Violation,
)
from history_curator.model import ConversationEntry, MessageRole

Tail = Literal["request", "history"]

_ROUNDS = 4
"""One is enough for the profiles that ship; the bound is for rules of your own."""
_NEAR = 24
"""How far from the head of a view its first user entry is looked for."""
_USER, _ASSISTANT = MessageRole.USER, MessageRole.ASSISTANT
_parts, _reasoning = attrgetter("parts"), attrgetter("reasoning")


class ProviderProfile:
    """The rules of one provider.

    `repair` returns entries in which `find` finds nothing, keeps every word the user said, is
    idempotent, and returns the very list it was given when nothing is wrong.

    Attributes:
        name: the provider.
        invariants: the rules, in the order they are repaired.
        merges: whether runs of one role are merged.
        reasoning: what happens to reasoning after an edited prefix, see `ReasoningStaysBound`.

    Example:
        >>> from history_curator import get_profile
        >>> from history_curator.testing import parse_entries, show
        >>> profile = get_profile("portable")
        >>> broken = parse_entries("S U A(c1) U T(c1) A U")
        >>> [violation.rule for violation in profile.find(broken)]
        ['P6', 'P6']
        >>> show(profile.repair(broken))
        'S U A(c1) T(c1) A* U A U'
    """

    __slots__ = (
        "_about",
        "_across",
        "_at",
        "_compares_steps",
        "_kinds",
        "_requests",
        "invariants",
        "merges",
        "name",
        "reasoning",
    )

    def __init__(self, name: str, invariants: Sequence[Invariant]) -> None:
        self.name = name
        self.invariants = tuple(invariants)
        for invariant in self.invariants:
            invariant.provider = name
        bound = [rule for rule in self.invariants if isinstance(rule, ReasoningStaysBound)]
        self.merges = any(isinstance(rule, RolesAlternate) for rule in self.invariants)
        self.reasoning: ReasoningMode = bound[0].mode if bound else "keep"
        self._compares_steps = any(rule.family == "gemini" for rule in bound)
        self._at = tuple(rule for rule in self.invariants if rule.looks_at)
        fields = {field for rule in self._at for field in rule.about}
        self._about = attrgetter("tool_calls", "tool_call_id", *sorted(fields))  # at least two
        self._kinds: dict[tuple[bool, ...], tuple[Callable[..., object], ...]] = {}
        across = [rule for rule in self.invariants if rule.looks_across]
        self._requests = tuple(rule.look_across for rule in across)
        self._across = tuple(rule.look_across for rule in across if not rule.requests_only)

    def __repr__(self) -> str:
        return f"ProviderProfile({self.name!r}, reasoning={self.reasoning!r})"

    def find(self, entries: Sequence[ConversationEntry], tail: Tail = "request") -> list[Violation]:
        """Return every violation, in order of position."""
        found = [
            violation
            for rule in self.invariants
            if tail == "request" or not rule.requests_only
            for violation in rule.find(entries)
        ]
        return sorted(found, key=lambda each: len(entries) if each.index is None else each.index)

    def holds(self, entries: Sequence[ConversationEntry], tail: Tail = "request") -> bool:
        """Whether `find` would find nothing. Verdicts on single entries are remembered."""
        for entry in entries:
            if entry.checked is not self and not self._judge(entry):
                return False
        for look in self._requests if tail == "request" else self._across:
            if look(entries):
                return False
        return True

    def still_holds(
        self,
        entries: Sequence[ConversationEntry],
        held: int,
        tail: Tail = "request",
        *,
        head: int = 0,
    ) -> bool:
        """Whether the rules hold, given that they held for the first `held` entries.

        Only the new entries are looked at, behind the head of the conversation: no rule looks
        across a whole exchange, but for two. The caller vouches that no call id is used twice;
        images are counted over everything and Gemini's signatures compared over the turn, so
        either sends this back to `holds`. False means "not known", never more.

        Args:
            entries: the view.
            held: how many of them are known.
            tail: as in `repair`.
            head: how many leading entries are new, or new where they stand. From there on to
                `held`, entries may have been shortened since, but they are the same ones.
        """
        if self._compares_steps:
            return False
        lead, start = head, held - 1
        while start > lead and entries[start].role is not _ASSISTANT:
            start -= 1
        nearest = min(start, head + _NEAR)
        while lead < nearest and entries[lead].role is not _USER:
            lead += 1
        if lead >= nearest:
            return False
        if head:
            for entry in entries[lead:start]:
                if entry.checked is not self and not self._judge(entry):
                    return False
        part = [*entries[: lead + 1], *entries[start:]]
        if any(map(_parts, part)) or any(map(_reasoning, part)):
            return False
        return self.holds(part, tail)

    def repair_end(
        self,
        entries: list[ConversationEntry],
        held: int,
        tail: Tail = "request",
        *,
        head: int = 0,
    ) -> list[ConversationEntry] | None:
        """Return what `repair` does for entries that held, but for a few, if that is easy.

        The very list where nothing is wrong; with another entry at its end where only that is
        missing from a request; None when it takes a look at everything. The arguments are those
        of `still_holds`.
        """
        if self.still_holds(entries, held, tail, head=head):
            return entries
        if tail != "request" or not self.still_holds(entries, held, "history", head=head):
            return None
        asked: list[ConversationEntry] = entries
        for rule in self.invariants:
            if rule.requests_only and rule.look_across(asked):
                asked = rule.repair(asked)
        return asked if self.still_holds(asked, held, tail, head=head) else None

    def repair(
        self,
        entries: Sequence[ConversationEntry],
        tail: Tail = "request",
        *,
        edited: bool = False,
    ) -> list[ConversationEntry]:
        """Return entries this provider takes.

        Args:
            entries: the view.
            tail: ``request`` when it is about to be sent, ``history`` when the caller appends.
            edited: something before or in the view was edited or left out already, so reasoning
                bound to it is stripped, kept or refused as `reasoning` says.

        Raises:
            ReasoningBoundError: with ``reasoning="refuse"``, when reasoning follows an edit.
        """
        current = entries if isinstance(entries, list) else list(entries)
        given = current
        for _ in range(_ROUNDS):
            if self.holds(current, tail):
                break
            suspects = [entry for entry in current if not self._judge(entry)]
            for rule in self.invariants:
                if rule.requests_only and tail != "request":
                    continue
                if any(rule.look_at(entry) for entry in suspects) or rule.look_across(current):
                    current = rule.repair(current)
                    suspects = [entry for entry in current if not self._judge(entry)]
        if edited or current is not given:
            since = 0 if edited else _first_change(given, current)
            current = self._settle(current, since, edited)
        return current

    def _judge(self, entry: ConversationEntry) -> bool:
        checked = entry.checked
        if checked is self or (checked.__class__ is dict and self in checked):
            return True
        kind = tuple([value is None for value in self._about(entry)])
        looks = self._kinds.get(kind)
        for look in self._looks(kind, entry) if looks is None else looks:
            if look(entry):
                return False
        if checked.__class__ is dict:
            checked[self] = True  # Beside what was derived from the entry.
        else:
            object.__setattr__(entry, "checked", self)
        return True

    def _looks(
        self, kind: tuple[bool, ...], entry: ConversationEntry
    ) -> tuple[Callable[..., object], ...]:
        """The rules that may find something in an entry with just these of their fields set."""
        looks = tuple(
            rule.look_at
            for rule in self._at
            if not rule.about or any(getattr(entry, field) is not None for field in rule.about)
        )
        self._kinds[kind] = looks
        return looks

    def _settle(
        self, entries: list[ConversationEntry], since: int, edited: bool
    ) -> list[ConversationEntry]:
        if not any(map(_reasoning, entries)):
            return entries
        for rule in self.invariants:
            # A repair is not refused: without it nothing could be sent at all.
            if isinstance(rule, ReasoningStaysBound) and (edited or rule.mode == "strip"):
                return rule.settle(entries, since)
        return entries


def _first_change(before: Sequence[ConversationEntry], after: Sequence[ConversationEntry]) -> int:
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new:
            return index
    return min(len(before), len(after))
