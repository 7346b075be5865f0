"""Rules of providers: find the places where one would refuse a conversation, and repair them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from history_curator.formats import MessageFormat, find_format, read_placed, ungroup_items
from history_curator.rules.base import Rule, Tail, Violation
from history_curator.rules.profiles import PROVIDERS, ProviderProfile, get_profile
from history_curator.rules.reasoning import ReasoningMode

__all__ = [
    "PROVIDERS", "ProviderProfile", "ReasoningMode", "Rule", "Tail", "Violation",
    "check_conversation", "get_profile", "repair_conversation",
]  # fmt: skip


def check_conversation(
    messages: Sequence[Any],
    provider: str | ProviderProfile = "core",
    *,
    tail: Tail = "request",
    format: MessageFormat | None = None,
) -> list[Violation]:
    """Return every place where a provider would refuse the conversation, in order of position.

    Messages are dicts of any provider, entries, LangChain or LlamaIndex messages. `tail` is
    ``request`` before sending, ``history`` when the caller appends the next one.

    Examples:
        >>> asked = {"role": "user", "content": "hi"}
        >>> stray = {"role": "tool", "tool_call_id": "c9", "content": "42"}
        >>> (violation,) = check_conversation([asked, stray], provider="openai")
        >>> violation.index, violation.rule, violation.message
        (1, 'P6', "the result of 'c9' follows no call")
    """
    profile = get_profile(provider)
    placed = read_placed(messages, format or find_format(messages, profile.name))
    return [
        each if each.index is None else replace(each, index=placed[each.index][0])
        for each in profile.find([entry for _, entry in placed], tail)
    ]


def repair_conversation(
    messages: Sequence[Any],
    provider: str | ProviderProfile = "core",
    *,
    tail: Tail = "request",
    format: MessageFormat | None = None,
) -> list[Any]:
    """Return a conversation the provider takes; the given one is not changed.

    No word of the user is lost, messages that need no repair come back as the same objects, and
    repairing twice changes nothing.

    Examples:
        >>> asked = {"role": "user", "content": "hi"}
        >>> stray = {"role": "tool", "tool_call_id": "c9", "content": "42"}
        >>> repair_conversation([asked, stray], provider="openai")
        [{'role': 'user', 'content': 'hi'}]
    """
    profile = get_profile(provider)
    found = format or find_format(messages, profile.name)
    entries = [entry for _, entry in read_placed(messages, found)]
    repaired = profile.repair(entries, tail)
    return list(messages) if repaired is entries else ungroup_items(found.write(repaired))
