"""Notice that a provider read less from its prompt cache than the request before left there, and say why.

A view repeats the one before it up to `CurationReport.prefix_entries`, unless it is compacted. Every
answer reports how much of its prompt came from the cache. Where that is much less, something changed
the request, or the cache had gone cold. The doctor uses the same words for recorded sessions.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import accumulate
from time import monotonic
from typing import Any, NamedTuple
from uuid import UUID

from history_curator.caching import CacheRules, find_cache_rules
from history_curator.tokens import Usage, read_usage
from history_curator.tokens.models import model_of, read_field

__all__ = [
    "COMPACTION", "IDLE", "NOTICED", "PREFIX_CHANGED", "TOOLS_CHANGED", "TOO_SMALL", "CacheLost",
    "CacheWatch", "SentView", "read_own_reason",
]  # fmt: skip

IDLE, COMPACTION, TOO_SMALL = "idle", "compaction", "too small"
PREFIX_CHANGED, TOOLS_CHANGED = "prefix changed", "tools changed"

NOTICED = 0.02
"""A call lost the cache when more than this share of the held tokens, and the minimum, is gone."""
_LIFETIME, _LONG_LIFETIME = 300.0, 3600.0
"""Seconds after which a lost prefix was most likely forgotten, and those of Anthropic's longer writes."""
_MOST_CONVERSATIONS = 2_000
_HOLDERS = ("raw", "response_metadata", "additional_kwargs", "message")
"""Fields in which frameworks keep the provider's own answer."""
_OWN_WORDS = {
    "system_changed": PREFIX_CHANGED,
    "messages_changed": PREFIX_CHANGED,
    "input_changed": PREFIX_CHANGED,
    "context_compacted": COMPACTION,
}
"""Our words for reasons of providers; the others are said as they are."""


@dataclass(frozen=True, slots=True)
class CacheLost:
    """A provider read less of a request from its cache than the request before had left there.

    Attributes:
        prompt_name: the name of the curator.
        reason: ``prefix changed``, ``tools changed``, ``idle``, ``too small``, or a word of the
            provider's own, such as ``model changed``.
        expected_tokens, read_tokens: tokens that should have come from the cache, and that did.
        message: index in the view of the first message that differed.
        is_ours: whether the view itself changed there. Otherwise the view repeats everything that was
            promised: the request was changed after the curator, about there by the tokens that were
            read, or the provider dropped it.

    Examples:
        >>> print(CacheLost("agent", "tools changed", 9_000, 0))
        agent: the prompt cache was lost (tools changed): 0 of 9,000 tokens were read from it.
    """

    prompt_name: str
    reason: str
    expected_tokens: int
    read_tokens: int
    message: int | None = None
    is_ours: bool = False
    session_id: UUID | None = None
    created_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def __str__(self) -> str:
        numbers = f"{self.read_tokens:,} of {self.expected_tokens:,} tokens were read from it."
        text = f"{self.prompt_name}: the prompt cache was lost ({self.reason}): {numbers}"
        if self.is_ours:
            return f"{text} The view changed at message {self.message}."
        if self.message is None:
            return text
        text += f" It held what stands before about message {self.message}." * bool(self.message)
        cause = "the request was changed after the curator, or the provider did not keep it."
        return f"{text} The view repeats the one before: {cause}"


def read_own_reason(answer: Any, depth: int = 3) -> str | None:
    """Return why the provider itself says that its cache was missed; None where it does not say.

    Anthropic answers ``diagnostics`` and OpenAI's Responses ``prompt_cache_diagnostics``, where the
    request asked for them. Takes the answer as a mapping, as an object, or inside a framework's.

    Examples:
        >>> read_own_reason({"diagnostics": {"cache_miss_reason": {"type": "model_changed"}}})
        'model changed'
        >>> read_own_reason({"prompt_cache_diagnostics": {"type": "cache_hit"}}) is None
        True
    """
    if answer is None or isinstance(answer, (str, bytes, int, float, list)):
        return None
    missed = read_field(read_field(answer, "diagnostics"), "cache_miss_reason")
    own = read_field(missed, "type")
    compared = read_field(answer, "prompt_cache_diagnostics")
    if read_field(compared, "type") == "cache_miss":
        own = read_field(compared, "reason")
    if isinstance(own, str):
        is_known = own in _OWN_WORDS or own.endswith("_changed")
        return _OWN_WORDS.get(own, own.replace("_", " ")) if is_known else None
    inner = (read_field(answer, name) for name in _HOLDERS) if depth else ()
    return next((found for each in inner if (found := read_own_reason(each, depth - 1))), None)


class SentView(NamedTuple):
    """What is remembered of a sent view, as hashes and sizes, to compare it with the next one."""

    steps: Sequence[int]  # a hash of the conversation up to each message, without system messages
    names: Sequence[int]  # a number for the content of each entry of the view
    sizes: Sequence[int]
    prefix: int  # how many of these entries the next view repeats, unless it is compacted
    overhead: int
    tools: int  # a number for the tool schemas
    compacted: bool
    time: float
    idle_seconds: float | None = None


class _Answered(NamedTuple):
    sent: SentView
    usage: Usage
    time: float
    told: set[str]  # the reasons that were given in this conversation


class CacheWatch:
    """Compares the tokens an answer read from the cache with those the view before had left there."""

    def __init__(self, name: str, provider: str) -> None:
        self._name = name
        self._rules = find_cache_rules(provider) or CacheRules()
        self._answered: OrderedDict[int, _Answered] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, sent: SentView, answer: Any) -> CacheLost | None:
        """Return the loss that an answer shows, once for each reason in a conversation."""
        usage = read_usage(answer)
        if usage is None or not sent.steps:
            return None
        with self._lock:
            step = next((each for each in reversed(sent.steps) if each in self._answered), None)
            previous = None if step is None else self._answered.pop(step)
            loss = None if sent.compacted else self._find_loss(previous, sent, usage, answer)
            told = set[str]() if previous is None else previous.told
            if loss is not None:
                is_new = loss.reason not in told
                told.add(loss.reason)
                loss = loss if is_new else None
            self._answered[sent.steps[-1]] = _Answered(sent, usage, monotonic(), told)
            while len(self._answered) > _MOST_CONVERSATIONS:
                self._answered.popitem(last=False)
        return loss

    def _find_loss(
        self, previous: _Answered | None, sent: SentView, usage: Usage, answer: Any
    ) -> CacheLost | None:
        own = read_own_reason(answer)
        if previous is None:
            return None if own is None else CacheLost(self._name, own, 0, usage.cache_read)
        before = previous.sent
        pairs = enumerate(zip(before.names[: before.prefix], sent.names, strict=False))
        changed = next((at for at, (old, new) in pairs if old != new), None)
        held = previous.usage.cache_read + previous.usage.cache_write
        most_lost = max(NOTICED * held, self._rules.minimum)
        if self._rules.breakpoints == 0 and usage.tells_cache:  # it caches every request by itself
            held = previous.usage.input
        loose = sum(before.sizes[before.prefix :])  # a provider may count it as twice as much
        expected = max(0, min(held - 2 * loose, usage.input))
        if expected - usage.cache_read <= most_lost and own is None:
            return None
        is_ours = changed is not None
        reason = own or self._find_reason(previous, sent, usage, answer, is_ours=is_ours)
        message = changed if is_ours else _find_unread(sent, usage)
        return CacheLost(self._name, reason, expected, usage.cache_read, message, is_ours)

    def _find_reason(
        self, previous: _Answered, sent: SentView, usage: Usage, answer: Any, *, is_ours: bool
    ) -> str:
        if sent.tools != previous.sent.tools:
            return TOOLS_CHANGED
        if is_ours:
            return PREFIX_CHANGED
        idle = sent.idle_seconds
        idle = sent.time - previous.time if idle is None else idle
        if idle >= (_LONG_LIFETIME if previous.usage.cache_write_1h else _LIFETIME):
            return IDLE
        rules = find_cache_rules(model_of(answer)) or self._rules  # another model may answer
        return TOO_SMALL if usage.input < rules.minimum else PREFIX_CHANGED


def _find_unread(sent: SentView, usage: Usage) -> int | None:
    """Return the first message of a view that lies behind the tokens that were read."""
    totals = list(accumulate(sent.sizes, initial=sent.overhead))
    ratio = usage.input / max(1, totals[-1])
    behind = (at for at, total in enumerate(totals[1:]) if total * ratio > usage.cache_read)
    return next(behind, None)
