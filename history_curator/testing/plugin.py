"""Pytest fixtures. Switch on with ``pytest_plugins = ["history_curator.testing.plugin"]``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from history_curator.testing._sequences import SEQUENCES
from history_curator.testing._shorthand import parse
from history_curator.testing._trial import Trim, assert_conformant, try_trimmer

__all__ = ["Conformance", "conformance"]


class Conformance:
    """What the `conformance` fixture hands to a test.

    Examples:
        >>> kit = Conformance()
        >>> kit.check(kit.parse("U A(c1) T(c1)"), provider="openai")
    """

    parse: Callable[[str], list[dict[str, Any]]] = staticmethod(parse)
    check: Callable[..., None] = staticmethod(assert_conformant)

    def check_trimmer(
        self,
        trim: Trim,
        conversations: Iterable[list[Any]] | None = None,
        *,
        provider: str = "openai",
        convert: Callable[[Sequence[Any]], list[Any]] = list,
    ) -> None:
        """Fail when a trimmer lets a provider refuse any conversation.

        Args:
            trim: takes a list of messages, returns a list of messages.
            conversations: what to try; the shipped sequences when left out.
            provider: whose rules.
            convert: turns OpenAI-style dicts into the messages the trimmer takes.
        """
        given = conversations
        if given is None:
            given = [convert(parse(sequence)) for sequence, _ in SEQUENCES]
        trial = try_trimmer(trim, given, provider)
        if trial.failures:
            lines = [
                f"  {each.given} -> {each.returned or each.error}: "
                + "; ".join(f"{item.rule} {item.message}" for item in each.violations)
                for each in trial.failures
            ]
            count = f"{len(trial.failures)} of {trial.cases}"
            pytest.fail("\n".join([f"{provider} refuses {count} conversations", *lines]))


@pytest.fixture
def conformance() -> Conformance:
    """The conformance kit: ``conformance.check(messages)``, ``conformance.check_trimmer(trim)``."""
    return Conformance()
