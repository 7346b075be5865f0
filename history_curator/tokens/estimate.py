"""Read usage reports, predict the provider's count of the next prompt from them, read message times.

The next prompt is the last reported prompt plus a ratio times the tokens added since. A system
prompt that a service adds unseen is part of the report and cancels out. The ratio is learned from
growth alone, so it compares two tokenizers and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, NamedTuple

from history_curator.entries import ConversationEntry
from history_curator.tokens.models import read_field

# The provider's tokens over ours: real tokenizers lie within these bounds.
MIN_RATIO, MAX_RATIO = 0.4, 4.0
# Growth by this share of the request moves the ratio half way to the one it shows.
_MEMORY = 0.5
# One report may show a ratio that differs by this share from the known one.
_MAX_STEP = 0.3
# A report that differs from its prediction by this share is a surprise.
_SURPRISE = 0.25
# The bound allows for so much of the growth, and so much of the whole prompt, to be missing.
_GROWTH_ERROR, _PROMPT_ERROR = 0.4, 0.015
# The available tokens move in steps of the budget divided by this.
_STEPS = 32

# Where reports name a number. Gemini reports thinking beside the answer, everyone else within it.
_INPUT = ("input_tokens", "prompt_tokens", "inputTokens", "promptTokenCount", "prompt_token_count")
_OUTPUT = ("output_tokens", "completion_tokens", "outputTokens", "candidatesTokenCount",
           "candidates_token_count")  # fmt: skip
_THOUGHTS = ("thoughtsTokenCount", "thoughts_token_count")
_DETAILS = ("input_token_details", "input_tokens_details", "prompt_tokens_details")
_OUTPUT_DETAILS = ("output_token_details", "output_tokens_details", "completion_tokens_details")
_REASONING = ("reasoning_tokens", "reasoning")
_READ_DETAIL = ("cached_tokens", "cache_read", "priority_cache_read", "flex_cache_read")
_WRITE_DETAIL = ("cache_write_tokens", "cache_creation", "priority_cache_creation",
                 "flex_cache_creation")  # fmt: skip
# Anthropic and Bedrock report the cached parts beside the input, everyone else within it.
_READ_BESIDE = ("cache_read_input_tokens", "cacheReadInputTokens")
_WRITE_BESIDE = ("cache_creation_input_tokens", "cacheWriteInputTokens")
_READ_WITHIN = ("cachedContentTokenCount", "cached_content_token_count")
_READ_NAMES = (*_READ_DETAIL, *_READ_BESIDE, *_READ_WITHIN)
_FIVE_MINUTES, _ONE_HOUR = ("ephemeral_5m_input_tokens",), ("ephemeral_1h_input_tokens",)
# The fields in which a message, an answer or a line of a log keeps its usage.
_HOLDERS = ("usage_metadata", "usageMetadata", "usage", "token_usage", "response_metadata",
            "llm_output", "raw", "message", "additional_kwargs")  # fmt: skip
_DEPTH = 3
_IMPOSSIBLE = 10**15
"""No prompt has so many tokens: a number like this is passed over."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one request and its answer, as the provider counted them."""

    input: int  # the whole prompt, with what was read from the cache and written to it
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0  # the answer with its thinking
    cache_write_1h: int = 0  # of those written, for an hour
    reasoning: int = 0  # of the output, where the provider says so
    # Whether the report says anything about the cache.
    tells_cache: bool = field(default=False, compare=False, kw_only=True)

    @property
    def uncached(self) -> int:
        """Tokens of the prompt that were neither read from the cache nor written to it."""
        return max(0, self.input - self.cache_read - self.cache_write)


def read_usage(reported: Any) -> Usage | None:
    """Return the usage that an answer, a message or a usage object reports; None without one.

    Takes what OpenAI, Anthropic, Gemini, Bedrock, LangChain and LlamaIndex report, as mappings or
    objects, and a message, an answer or a line of a log that holds one of them. Anthropic and
    Bedrock report the cached parts beside the input; here `Usage.input` is the whole prompt.

    Examples:
        >>> read_usage({"input_tokens": 3, "cache_read_input_tokens": 90, "output_tokens": 5}).input
        93
        >>> read_usage({"role": "user", "content": "hi"}) is None
        True
    """
    return reported if isinstance(reported, Usage) else _find_usage(reported, 0)


def _find_usage(holder: Any, depth: int) -> Usage | None:
    if holder is None or isinstance(holder, (str, bytes, int, float, list)):
        return None
    prompt = _read_number(holder, _INPUT)
    if prompt is not None and (usage := _read_fields(holder, prompt)).input:
        details = (holder, *(read_field(holder, name) for name in _DETAILS))
        tells_cache = any(_read_number(each, _READ_NAMES) is not None for each in details)
        return replace(usage, tells_cache=tells_cache)  # a streaming answer reports zeros
    for name in _HOLDERS if depth < _DEPTH else ():
        inner = read_field(holder, name)
        if name == "additional_kwargs" and inner:
            # LlamaIndex leaves a part of Anthropic's report there, without the cached tokens.
            part = read_field(inner, "usage")
            if isinstance(part, Mapping) and part.keys() == {"input_tokens", "output_tokens"}:
                continue
        if (found := _find_usage(inner, depth + 1)) is not None:
            return found
    return None


def _read_fields(given: Any, prompt: int) -> Usage:
    details, output_details = (
        next(filter(None, (read_field(given, name) for name in names)), None)
        for names in (_DETAILS, _OUTPUT_DETAILS)
    )
    thoughts = _read_number(given, _THOUGHTS) or 0
    reasoning = thoughts or _read_number(output_details, _REASONING) or 0
    output = (_read_number(given, _OUTPUT) or 0) + thoughts
    long = _read_number(details, _ONE_HOUR) or 0
    read = _read_number(details, _READ_DETAIL) or 0
    write = (_read_number(details, _FIVE_MINUTES) or 0) + long
    write = write or _read_number(details, _WRITE_DETAIL) or 0
    if read or write:
        return Usage(prompt, read, write, output, long, reasoning)
    read = _read_number(given, _READ_BESIDE) or 0
    write = _read_number(given, _WRITE_BESIDE) or 0
    if not (read or write):
        return Usage(prompt, _read_number(given, _READ_WITHIN) or 0, 0, output, 0, reasoning)
    if _read_number(given, ("total_tokens",)) != prompt + output:  # some routers add them up
        prompt += read + write
    for each in read_field(given, "cacheDetails") or ():  # Bedrock
        long += _read_number(each, ("inputTokens",)) or 0 if read_field(each, "ttl") == "1h" else 0
    long = _read_number(read_field(given, "cache_creation"), _ONE_HOUR) or long
    return Usage(prompt, read, write, output, long, reasoning)


def _read_number(holder: Any, names: tuple[str, ...]) -> int | None:
    for name in names:
        value = read_field(holder, name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _IMPOSSIBLE:
            return value
    return None


@dataclass(frozen=True, slots=True)
class UsageAnchor:
    """The last request a provider reported on: our count, its count, and the ratio learned so far.

    Both counts are of the whole request, tools, priming and cached parts included. The ratio is the
    provider's tokens over ours, as far as growth has shown it.

    Examples:
        >>> anchor = UsageAnchor(1_000, 1_500).after(11_000, 14_000)
        >>> round(anchor.ratio, 2), anchor.predict(11_100)
        (1.24, 14124)
        >>> anchor.upper_bound(anchor.available_tokens(32_000)) <= 32_000
        True
    """

    counted: int
    reported: int
    ratio: float = 1.0

    def __post_init__(self) -> None:
        # The provider counted at least the messages: a ratio that says it counted less is too high.
        ratio = min(self.ratio, self.reported / self.counted) if self.counted > 0 else self.ratio
        object.__setattr__(self, "ratio", min(max(ratio, MIN_RATIO), MAX_RATIO))

    def predict(self, counted: int) -> int:
        """Return the provider's most likely count of a request that we count so."""
        return max(0, round(self.reported + self.ratio * (counted - self.counted)))

    def upper_bound(self, counted: int) -> int:
        """Return a count that the provider exceeds in fewer than one of a hundred requests."""
        growth = max(self.ratio * (counted - self.counted), -self.reported)
        predicted = (self.reported + growth) * (1 + _PROMPT_ERROR)
        return math.ceil(predicted + abs(growth) * _GROWTH_ERROR)

    def available_tokens(self, limit: int) -> int:
        """Return the largest count of ours whose upper bound is within the provider's limit."""
        if self.upper_bound(0) > limit:
            return 0
        missing = limit - self.reported * (1 + _PROMPT_ERROR)
        growth_error = _GROWTH_ERROR if missing >= 0 else -_GROWTH_ERROR
        counted = self.counted + missing / (self.ratio * (1 + _PROMPT_ERROR + growth_error))
        available = max(0, math.floor(counted))
        return available if self.upper_bound(available) <= limit else max(0, available - 1)

    def likely_tokens(self, limit: int) -> int:
        """Return a count of ours that the provider most likely counts as its limit, less 1.5 %."""
        missing = limit * (1 - _PROMPT_ERROR) - self.reported
        return max(0, math.floor(self.counted + missing / self.ratio))

    def after(self, counted: int, reported: int) -> UsageAnchor:
        """Return the anchor after the provider reported on the next request of the conversation."""
        if counted <= 0 or reported <= 0:
            return self
        ratio, growth = self.ratio, counted - self.counted
        if not self.explains(counted, reported):
            # Within a factor of two another version of the model answered; beyond it, a hidden
            # prompt was added.
            change = reported / max(1, self.predict(counted))
            ratio *= change if 0.5 <= change <= 2 else 1.0
        elif growth > 0:
            # A reminder slipped in or a cleared result says little about the tokenizer.
            shown = (reported - self.reported) / growth
            shown = min(max(shown, ratio * (1 - _MAX_STEP)), ratio * (1 + _MAX_STEP))
            ratio += (shown - ratio) * growth / (growth + _MEMORY * self.counted)
        return UsageAnchor(counted, reported, ratio)

    def explains(self, counted: int, reported: int) -> bool:
        """Return whether a report is near what was predicted for the request."""
        predicted = self.predict(counted)
        return abs(reported - predicted) <= _SURPRISE * max(reported, predicted)


class Request(NamedTuple):
    """A request that was built, with the usage report for it, if there is one."""

    counted: int  # its tokens as we count them
    usual: int  # the tokens of messages that its cutoff was chosen for
    available: int  # those that it was given
    anchor: UsageAnchor | None = None  # the last report before it, or for it once there is one
    doubted: UsageAnchor | None = None  # one that may be about another agent's request
    is_reported: bool = False
    is_cold: bool = False  # the provider's cache had gone cold


def available_tokens(
    budget: int,
    overhead: int,
    anchor: UsageAnchor | None = None,
    *,
    previous: int | None = None,
) -> int:
    """Return the tokens of a budget that are left for messages, as we count them.

    Without a usage report these are the budget less the overhead. With one, the previous number
    stays while the provider most likely counts it as nearly the budget. Otherwise it moves, to a
    multiple of a 32nd of the budget, so it seldom moves again. A view that grew much since the
    report may still be over the budget: `UsageAnchor.available_tokens` is certain for one view.

    Examples:
        >>> anchor = UsageAnchor(8_000, 9_600, 1.2)  # the provider counts a fifth more
        >>> available_tokens(10_000, 500), available_tokens(10_000, 500, anchor, previous=9_500)
        (9500, 7176)
    """
    if anchor is None:
        return max(0, budget - overhead)
    step = max(1, budget // _STEPS)
    likely = anchor.likely_tokens(budget) - overhead
    current = budget - overhead if previous is None else previous
    if likely - 4 * step < current <= likely:
        return max(0, current)
    return max(0, (likely - step) // step * step)


def parse_time(value: Any) -> float | None:
    """Return a `datetime`, ISO 8601 text or a number as seconds since 1970; None for anything else.

    A time without a zone counts as UTC; a number may be milliseconds or nanoseconds as well.

    Examples:
        >>> parse_time("1970-01-01T00:01:00Z"), parse_time(1_700_000_000_000), parse_time("soon")
        (60.0, 1700000000.0, None)
    """
    if isinstance(value, str):
        # Python 3.10 reads three or six digits after the point, no other number of them.
        text = re.sub(r"\.(\d+)", lambda found: f".{found[1][:6]:0<6}", value.strip()[:64])
        try:
            value = datetime.fromisoformat(f"{text[:-1]}+00:00" if text[-1:] in "Zz" else text)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e20:
        return None
    # As seconds, numbers above 1e11 would lie beyond the year 5000.
    return value / 1e9 if value > 1e17 else value / 1e3 if value > 1e11 else float(value)


def entry_time(entry: ConversationEntry) -> float | None:
    """Return the seconds since 1970 at which a message was written; None when it does not say.

    Looks at ``created_at`` of the entry, then for ``timestamp``, ``created_at`` or ``time`` in its
    metadata, in the dict it was read from, and in ``additional_kwargs`` of a framework's message.
    """
    if entry.created_at is not None:
        return parse_time(entry.created_at)
    source = entry.root.source
    for holder in (entry.metadata, source, getattr(source, "additional_kwargs", None)):
        if isinstance(holder, Mapping):
            moments = (parse_time(holder.get(key)) for key in ("timestamp", "created_at", "time"))
            if (moment := next((each for each in moments if each is not None), None)) is not None:
                return moment
    return None
