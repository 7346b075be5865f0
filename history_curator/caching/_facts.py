"""What a unit of a history says beside its text: what was reported for it, and when it was said."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

from history_curator.caching._clock import time_of
from history_curator.formats import model_of
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.tokens import Report, read_usage

__all__ = ["NOTHING", "Facts", "Step", "facts_of", "mark_of", "reported_on"]


class Facts(NamedTuple):
    """What one unit says beside its text.

    Attributes:
        report: what was reported for the request that its head answers.
        answered: when the model answered, in seconds since 1970.
        said: when the last of the others spoke: the user, or a tool.
    """

    report: Report | None = None
    answered: float | None = None
    said: float | None = None


NOTHING = Facts()

Step = tuple[int, int, Facts]
"""A unit: its position in the record, its counted tokens, and what it says beside its text."""


def reported_on(entry: ConversationEntry) -> Report | None:
    """Return the usage that an answer carries: of LangChain, LlamaIndex, or a dict with ``usage``.

    Examples:
        >>> source = {"role": "assistant", "content": "hi", "usage": {"prompt_tokens": 9}}
        >>> answer = ConversationEntry(MessageRole.ASSISTANT, "hi", source=source)
        >>> reported_on(answer).usage.input
        9
    """
    if entry.role is not MessageRole.ASSISTANT:
        return None
    source = entry.root.source
    if source is None or isinstance(source, ConversationEntry):
        return None
    usage = read_usage(source)
    return None if usage is None else Report(usage, None, model_of(source))


def facts_of(entries: Sequence[ConversationEntry]) -> Facts:
    """Return what a unit says beside its text: a message, or a call with its results."""
    report = answered = said = None
    for entry in entries:
        moment = time_of(entry)
        if entry.role is MessageRole.ASSISTANT:
            report = report or reported_on(entry)
            answered = moment if moment is not None else answered
        elif moment is not None:
            said = moment if said is None else max(said, moment)
    found = Facts(report, answered, said)
    return NOTHING if found == NOTHING else found


def mark_of(entry: ConversationEntry) -> int:
    """Return a number that tells a record apart from others of its length, by its last entry."""
    text = entry.content or ""
    calls = "".join(call.arguments[:64] for call in entry.tool_calls or ())
    return zlib.crc32(
        f"{entry.role}{len(text)}{text[:64]}{text[-64:]}{calls}".encode("utf-8", "replace")
    )
