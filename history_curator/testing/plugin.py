"""Pytest fixture. Switch on with ``pytest_plugins = ["history_curator.testing.plugin"]``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from history_curator.testing import SEQUENCES, Trim, assert_conformant, parse, try_trimmer

__all__ = ["Conformance", "conformance"]


class Conformance:
    """The object that the `conformance` fixture hands to a test.

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
            conversations: the conversations to try; the shipped sequences when left out.
            provider: the provider whose rules hold.
            convert: turns OpenAI-style dicts into the messages the trimmer takes.
        """
        if conversations is None:
            conversations = [convert(parse(sequence)) for sequence, _ in SEQUENCES]
        trial = try_trimmer(trim, conversations, provider)
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
