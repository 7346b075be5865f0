"""Fail a test when a provider would refuse a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from history_curator.rules import ProviderProfile, Tail, check_conversation
from history_curator.testing._shorthand import show


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
