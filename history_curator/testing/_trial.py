"""What a provider would say to a conversation, and to what a trimmer makes of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from history_curator.rules import ProviderProfile, Tail, Violation, check_conversation
from history_curator.testing._shorthand import show

Trim = Callable[[list[Any]], Sequence[Any]]


def assert_conformant(
    messages: Sequence[Any],
    provider: str | ProviderProfile = "core",
    *,
    tail: Tail = "request",
) -> None:
    """Raise `AssertionError` naming every rule the conversation breaks.

    Args:
        messages: dicts, entries, LangChain or LlamaIndex messages.
        provider: whose rules.
        tail: ``history`` when the caller will append the next message.

    Examples:
        >>> from history_curator.testing import parse
        >>> assert_conformant(parse("S U A(c1) T(c1)"), provider="portable")
        >>> assert_conformant(parse("S U A(c1) U"), provider="openai")
        Traceback (most recent call last):
        AssertionError: openai refuses S U A(c1) U
          messages[2] P6: the call 'c1' has no result right after it
    """
    violations = check_conversation(messages, provider, tail=tail)
    if violations:
        name = provider if isinstance(provider, str) else provider.name
        lines = [
            f"  {'messages' if each.index is None else f'messages[{each.index}]'} "
            f"{each.rule}: {each.message}"
            for each in violations
        ]
        raise AssertionError("\n".join([f"{name} refuses {show(messages)}", *lines]))


@dataclass(frozen=True, slots=True)
class Failure:
    """One conversation a trimmer left in a state the provider refuses.

    Attributes:
        given: the conversation, in shorthand.
        returned: what the trimmer made of it, in shorthand; None when it raised.
        violations: the rules it breaks.
        error: what the trimmer raised.
    """

    given: str
    returned: str | None
    violations: tuple[Violation, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a set of conversations.

    Attributes:
        cases: how many were tried.
        failures: those that came out refused, or made the trimmer raise.
    """

    cases: int
    failures: tuple[Failure, ...]

    @property
    def rules(self) -> dict[str, int]:
        """For each broken rule, in how many conversations it is broken."""
        broken = Counter(
            rule for each in self.failures for rule in {item.rule for item in each.violations}
        )
        return dict(sorted(broken.items(), key=lambda item: int(item[0][1:])))

    @property
    def raised(self) -> int:
        """How many conversations made the trimmer raise."""
        return sum(each.error is not None for each in self.failures)


def try_trimmer(
    trim: Trim,
    conversations: Iterable[list[Any]],
    provider: str | ProviderProfile = "openai",
    *,
    tail: Tail = "request",
) -> Trial:
    """Hand every conversation to a trimmer and check what comes back.

    Examples:
        >>> from history_curator.testing import parse
        >>> trial = try_trimmer(lambda messages: messages[-2:], [parse("U A(c1) T(c1) U")])
        >>> trial.rules, trial.failures[0].returned
        ({'P6': 1}, 'T(c1) U')
    """
    cases = 0
    failures: list[Failure] = []
    for conversation in conversations:
        cases += 1
        given = show(conversation)
        try:
            returned = list(trim(conversation))
        except Exception as error:  # noqa: BLE001 - whatever a trimmer raises is a finding
            failures.append(Failure(given, None, error=f"{type(error).__name__}: {error}"))
            continue
        violations = check_conversation(returned, provider, tail=tail)
        if violations:
            failures.append(Failure(given, show(returned), tuple(violations)))
    return Trial(cases, tuple(failures))
