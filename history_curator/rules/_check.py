"""Check a conversation against a provider's rules, and repair it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from history_curator.formats import MessageFormat, detect, read_placed, scattered
from history_curator.entries import ConversationEntry
from history_curator.rules import ReasoningMode, Violation
from history_curator.rules._providers import ProviderProfile, Tail, get_profile

__all__ = ["Violation", "check_conversation", "repair_conversation"]


def check_conversation(
    messages: Sequence[Any],
    provider: str | ProviderProfile = "core",
    *,
    tail: Tail = "request",
    format: MessageFormat | None = None,
) -> list[Violation]:
    """Return every place where a provider would refuse the conversation.

    Args:
        messages: OpenAI- or Anthropic-style dicts, entries, LangChain or LlamaIndex messages.
        provider: whose rules; see `history_curator.rules._providers.PROVIDERS`.
        tail: ``request`` when the messages are about to be sent, ``history`` when the caller
            will append the next one.
        format: how to read the messages; found from the first one when left out.

    Returns:
        Violations in order of position; `Violation.index` is the position in `messages`.

    Examples:
        >>> asked = {"role": "user", "content": "hi"}
        >>> stray = {"role": "tool", "tool_call_id": "c9", "content": "42"}
        >>> (violation,) = check_conversation([asked, stray], provider="openai")
        >>> violation.index, violation.rule, violation.message
        (1, 'P6', "the result of 'c9' follows no call")
    """
    profile = get_profile(provider)
    entries, positions = _read(messages, format or detect(messages, profile.name))
    return [
        each if each.index is None else replace(each, index=positions[each.index])
        for each in profile.find(entries, tail)
    ]


def repair_conversation(
    messages: Sequence[Any],
    provider: str | ProviderProfile = "core",
    *,
    tail: Tail = "request",
    format: MessageFormat | None = None,
    reasoning: ReasoningMode | None = None,
) -> list[Any]:
    """Return a conversation the provider takes; the given one is not changed.

    No word of the user is lost, messages that need no repair come back as the same objects, and
    repairing twice changes nothing.

    Examples:
        >>> call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        >>> messages = [
        ...     {"role": "user", "content": "hi"},
        ...     {"role": "assistant", "content": None, "tool_calls": [call]},
        ... ]
        >>> repair_conversation(messages, provider="openai")[2]["content"]
        '[No result: the call was not answered, and it may have run.]'
    """
    profile = get_profile(provider, reasoning=reasoning)
    spoken = format or detect(messages, profile.name)
    entries, _ = _read(messages, spoken)
    repaired = profile.repair(entries, tail)
    return list(messages) if repaired is entries else scattered(spoken.write(repaired))


def _read(messages: Sequence[Any], format: MessageFormat) -> tuple[list[ConversationEntry], list[int]]:
    placed = read_placed(messages, format)
    return [entry for _, entry in placed], [place for place, _ in placed]
