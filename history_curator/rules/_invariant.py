"""What an invariant is: one claim about a conversation, with its check and its repair."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from history_curator.model import ConversationEntry, MessageRole

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
        within: the claim holds for a conversation where it holds in each of its units. Only for
            the `look_across` of the very class that says so; by default it is shown the whole
            view, every time.
        about: fields of an entry; where all of them are None, `look_at` finds nothing. Empty when
            it has to look at every entry.
        errors: by kind of violation, what each provider answers.
    """

    code: ClassVar[str]
    requests_only: ClassVar[bool] = False
    within: ClassVar[bool] = False
    about: ClassVar[tuple[str, ...]] = ()
    errors: ClassVar[Errors] = {}

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

    def concerns(self, entry: ConversationEntry) -> bool:
        """Whether an entry can be why `look_across` finds something.

        Where it is False for every entry, the sequence is not looked at. Like `within`, only for
        the `look_across` of the very class that says so.
        """
        return True

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
        return self.within and self._said_with_look_across("within")

    @property
    def looks_always(self) -> bool:
        """Whether the sequence has to be judged whatever stands in it."""
        return not self._said_with_look_across("concerns")

    def _said_with_look_across(self, name: str) -> bool:
        owner = next(cls for cls in type(self).__mro__ if "look_across" in vars(cls))
        return name in vars(owner)

    @property
    def looks_at(self) -> bool:
        """Whether the claim is about single entries at all."""
        return type(self).look_at is not Invariant.look_at


def remembered(entry: ConversationEntry, key: Hashable, make: Callable[[], T]) -> T:
    """Return what was derived from an entry before, so that its token count is kept too."""
    cache: Any = entry.checked
    if not isinstance(cache, dict):
        cache = {} if cache is None else {cache: True}  # the profile that found it clean
        object.__setattr__(entry, "checked", cache)
    if key not in cache:
        cache[key] = make()
    value: T = cache[key]
    return value


def edit(entry: ConversationEntry, **changes: Any) -> ConversationEntry:
    """Return an edited copy; one of an invented entry is invented itself, nothing was recorded."""
    if entry.source is None and entry.origin is not None:
        return replace(entry, **changes)
    return entry.evolve(**changes)


def is_blank(text: str | None) -> bool:
    """Whether a text says nothing."""
    return not text or text.isspace()
