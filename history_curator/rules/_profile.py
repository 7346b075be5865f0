"""The rules of one provider at work: what they find, and what they make of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Literal, NamedTuple

from history_curator.formats.reread import says_the_same
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.rules import (
    Invariant,
    OneSystemEntryLeads,
    ReasoningBoundError,
    ReasoningMode,
    ReasoningStaysBound,
    RolesAlternate,
    Violation,
)
from history_curator.rules._features import EVERYTHING, features_in, features_of
from history_curator.rules._roles_alternate import bridge

Tail = Literal["request", "history"]

Entries = Sequence[ConversationEntry]

_ROUNDS = 4
"""One is enough for the profiles that ship; the bound is for rules of your own."""
_CLOSING = ConversationEntry(MessageRole.USER)
_reasoning = attrgetter("reasoning")


class _Looks(NamedTuple):
    """What the rules look at where entries have certain features, as functions of the rules.

    Attributes:
        at: those that judge an entry by itself.
        within: those that judge a unit.
        across: those that judge a view, whether it is a history or about to be sent.
    """

    at: tuple[Callable[..., object], ...]
    within: tuple[Callable[..., object], ...]
    across: Mapping[Tail, tuple[Callable[..., object], ...]]


class ProviderProfile:
    """The rules of one provider.

    `repair` returns entries in which `find` finds nothing, keeps every word the user said, is
    idempotent, and returns the very list it was given when nothing is wrong.

    Attributes:
        name: the provider.
        invariants: the rules, in the order they are repaired.
        merges: whether runs of one role are merged.
        hoists: whether later system entries move to the front.
        reasoning: what happens to reasoning after an edited prefix, see `ReasoningStaysBound`.

    Examples:
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
        "_bound",
        "_bridge",
        "_bridging",
        "_in_unit",
        "_known",
        "hoists",
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
        self._bound = next(
            (rule for rule in self.invariants if isinstance(rule, ReasoningStaysBound)), None
        )
        alternate = [rule for rule in self.invariants if isinstance(rule, RolesAlternate)]
        self.merges = bool(alternate)
        self._bridging = tuple(rule for rule in alternate if rule.bridges)
        self._bridge = bridge()
        self.hoists = any(
            isinstance(rule, OneSystemEntryLeads) and rule.later == "hoist"
            for rule in self.invariants
        )
        self.reasoning: ReasoningMode = self._bound.mode if self._bound else "keep"
        self._in_unit = tuple(rule for rule in self.invariants if rule.within_unit)
        self._known: dict[int, _Looks] = {}

    @property
    def strips(self) -> bool:
        """Whether reasoning goes, or is refused, where what stood before it has changed."""
        return self.reasoning != "keep"

    def bridge(self, last: ConversationEntry, entry: ConversationEntry) -> ConversationEntry | None:
        """Return the entry that is put between two that stand side by side, if one is."""
        needed = any(rule.bridges_between(last, entry) for rule in self._bridging)
        return self._bridge if needed else None

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

    def holds(self, entries: Entries, tail: Tail = "request") -> bool:
        """Whether `find` would find nothing. Verdicts on single entries are remembered."""
        if not all(map(self._judge, entries)):
            return False
        looks = self._looks(EVERYTHING)
        return not any(look(entries) for look in (*looks.within, *looks.across[tail]))

    def holds_across(
        self, entries: Entries, tail: Tail = "request", features: int = EVERYTHING
    ) -> bool:
        """Whether the rules hold that look further than one unit, in units that `repair_unit` made.

        Args:
            entries: the units.
            tail: whether they are about to be sent.
            features: what their entries have, see `features_in`.
        """
        return not any(look(entries) for look in self._looks(features).across[tail])

    def repair_unit(
        self, entries: tuple[ConversationEntry, ...]
    ) -> tuple[tuple[ConversationEntry, ...], int]:
        """Return a unit after the rules that can be judged in it by itself, and its features.

        The very entries where nothing is wrong. What is left to `repair` is between units.
        """
        for _ in range(_ROUNDS):
            features = features_in(entries)
            looks = self._looks(features)
            if not any(look(entries) for look in looks.within) and all(
                self._judge(entry, looks) for entry in entries
            ):
                return entries, features
            for rule in self.invariants:
                wrong = rule in self._in_unit and rule.look_across(entries)
                suspects = (entry for entry in entries if not self._judge(entry))
                if wrong or any(map(rule.look_at, suspects)):
                    entries = tuple(rule.repair(entries))
        return entries, features_in(entries)

    def without_reasoning(
        self, entries: tuple[ConversationEntry, ...]
    ) -> tuple[ConversationEntry, ...]:
        """Return a unit as it is shown once what stood before it has changed.

        Raises:
            ReasoningBoundError: in mode ``refuse``, when there is reasoning in it.
        """
        if self._bound is None or not any(map(_reasoning, entries)):
            return entries
        if self.reasoning == "refuse":
            raise ReasoningBoundError(next(entry for entry in entries if entry.reasoning).sequence)
        return tuple(self._bound.settle([*entries, _CLOSING]))[:-1]

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
            current = self.settle(current, since, edited=edited)
        return current

    def _judge(self, entry: ConversationEntry, looks: _Looks | None = None) -> bool:
        for look in (looks or self._looks(features_of(entry))).at:
            if look(entry):
                return False
        return True

    def _looks(self, features: int) -> _Looks:
        """Whose rules may find something where entries have these features."""
        looks = self._known.get(features)
        if looks is None:
            rules = [rule for rule in self.invariants if rule.watched & features]
            wide = [rule for rule in rules if rule.looks_across and rule not in self._in_unit]
            looks = self._known[features] = _Looks(
                tuple(rule.look_at for rule in rules if rule.looks_at),
                tuple(rule.look_across for rule in rules if rule in self._in_unit),
                {
                    "request": tuple(rule.look_across for rule in wide),
                    "history": tuple(rule.look_across for rule in wide if not rule.requests_only),
                },
            )
        return looks

    def settle(
        self, entries: list[ConversationEntry], since: int, *, edited: bool
    ) -> list[ConversationEntry]:
        """Answer an edit at or before a place: reasoning behind it goes, stays or is refused."""
        rule = self._bound
        if rule is None or not any(map(_reasoning, entries)):
            return entries
        # A repair is not refused: without it nothing could be sent at all.
        return rule.settle(entries, since) if edited or rule.mode == "strip" else entries


def _first_change(before: Sequence[ConversationEntry], after: Sequence[ConversationEntry]) -> int:
    """Where two views begin to differ; what no provider sees, such as an unknown key, does not."""
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is not new and not says_the_same(old, new):
            return index
    return min(len(before), len(after))
