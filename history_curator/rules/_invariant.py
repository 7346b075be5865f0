"""What an invariant is: one claim about a conversation, with its check and its repair."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.rules import _features as has

SYSTEM, USER = MessageRole.SYSTEM, MessageRole.USER
ASSISTANT, TOOL = MessageRole.ASSISTANT, MessageRole.TOOL

Entries = Sequence[ConversationEntry]
Errors = Mapping[str, Mapping[str, str]]
Finding = tuple[int | None, str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a conversation breaks a rule.

    Attributes:
        index: position of the culprit in what was given; None when something is missing.
        rule: code of the invariant, ``P1`` to ``P13``.
        message: what is wrong, in words for a person.
        error: what the provider answers, where known.

    Examples:
        >>> Violation(3, "P6", "the result answers no call")
        Violation(index=3, rule='P6', message='the result answers no call', error=None)
    """

    index: int | None
    rule: str
    message: str
    error: str | None = None


class Invariant:
    """One claim about a conversation.

    A subclass fills in one or both looks: `look_at` judges an entry by itself (a profile
    remembers the verdict on the entry), `look_across` judges the sequence. `find` is made of
    exactly these two, and `repair` leaves nothing for them to see, so the check and the repair
    cannot drift apart.

    Attributes:
        code: ``P1`` to ``P13``.
        requests_only: the claim holds for a view that is about to be sent, not for a history
            the caller will append to.
        about: what an entry has that the claim is about, see `_features`; where no entry has any
            of it, neither look finds anything. By default it is about everything, and both looks
            are shown every entry and the whole view, every time.
        within: the claim holds for a conversation where it holds in each of its units.
        errors: by kind of violation, what each provider answers.
    """

    code: ClassVar[str]
    requests_only: ClassVar[bool] = False
    within: ClassVar[bool] = False
    errors: ClassVar[Errors] = {}

    about: int = has.EVERYTHING
    provider: str = "core"

    @property
    def name(self) -> str:
        """The claim."""
        return type(self).__name__

    def look_at(self, entry: ConversationEntry) -> Iterable[tuple[str, str]]:
        """Judge one entry by itself: ``(kind, message)`` for each violation."""
        return ()

    def look_across(self, entries: Entries) -> list[Finding]:
        """Judge the sequence: ``(index, kind, message)`` for each violation."""
        return []

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Return entries for which the claim holds."""
        raise NotImplementedError

    def find(self, entries: Entries) -> list[Violation]:
        """Return every violation, in order of position."""
        found: list[Finding] = [
            (index, kind, message)
            for index, entry in enumerate(entries)
            for kind, message in self.look_at(entry)
        ]
        found += self.look_across(entries)
        found.sort(key=lambda item: len(entries) if item[0] is None else item[0])
        return [
            Violation(index, self.code, message, self.error_text(kind))
            for index, kind, message in found
        ]

    def error_text(self, kind: str) -> str | None:
        """What the provider answers to this kind of violation, else what another one does."""
        texts = self.errors.get(kind, {})
        return texts.get(self.provider) or next(iter(texts.values()), None)

    @property
    def looks_across(self) -> bool:
        """Whether the claim is about the sequence at all."""
        return type(self).look_across is not Invariant.look_across

    @property
    def within_unit(self) -> bool:
        """Whether the sequence can be judged unit by unit."""
        return self.within and self._says("within", {"look_across"})

    @property
    def watched(self) -> int:
        """What an entry has to have for the claim to be looked into."""
        return self.about if self._says("about", {"look_at", "look_across"}) else has.EVERYTHING

    def _says(self, name: str, looks: set[str]) -> bool:
        """Whether a class says this of its own looks, and not only of those it inherits."""
        owner = next(
            cls for cls in type(self).__mro__ if name in vars(cls) or looks & vars(cls).keys()
        )
        return name in vars(owner)

    @property
    def looks_at(self) -> bool:
        """Whether the claim is about single entries at all."""
        return type(self).look_at is not Invariant.look_at


def remembered(entry: ConversationEntry, key: Hashable, make: Callable[[], T]) -> T:
    """Return what is derived from an entry."""
    return make()


def edit(entry: ConversationEntry, **changes: Any) -> ConversationEntry:
    """Return an edited copy; one of an invented entry is invented itself, nothing was recorded."""
    if entry.source is None and entry.origin is not None:
        return replace(entry, **changes)
    return entry.evolve(**changes)


def is_blank(text: str | None) -> bool:
    """Whether a text says nothing."""
    return not text or text.isspace()
