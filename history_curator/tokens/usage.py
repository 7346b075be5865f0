"""Read the token counts that a provider returned with an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_INPUT = (
    "input_tokens", "prompt_tokens", "inputTokens", "promptTokenCount", "prompt_token_count"
)  # fmt: skip
_OUTPUT = ("output_tokens", "completion_tokens", "outputTokens", "candidatesTokenCount",
           "candidates_token_count")  # fmt: skip
# Gemini reports thinking beside the answer; everyone else within it.
_THOUGHTS = ("thoughtsTokenCount", "thoughts_token_count")
_DETAILS = ("input_token_details", "input_tokens_details", "prompt_tokens_details")
# Anthropic and Bedrock report the cached parts beside the input, everyone else within it.
_READ_BESIDE = ("cache_read_input_tokens", "cacheReadInputTokens")
_WRITE_BESIDE = ("cache_creation_input_tokens", "cacheWriteInputTokens")
_READ_WITHIN = ("cachedContentTokenCount", "cached_content_token_count")
_READ_DETAIL = ("cached_tokens", "cache_read", "priority_cache_read", "flex_cache_read")
_WRITE_DETAIL = ("cache_write_tokens", "cache_creation", "priority_cache_creation",
                 "flex_cache_creation")  # fmt: skip
_SHORT, _LONG = ("ephemeral_5m_input_tokens",), ("ephemeral_1h_input_tokens",)
# The fields in which a message, an answer or a line of a log keeps its usage.
_HOLDERS = ("usage_metadata", "usageMetadata", "usage", "token_usage", "response_metadata",
            "llm_output", "raw", "message", "additional_kwargs")  # fmt: skip
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one request and its answer, as the provider counted them.

    Attributes:
        input: the whole prompt, cached parts included.
        cache_read: how much of it was read from the cache.
        cache_write: how much of it was written to the cache.
        output: the answer, thinking included.
        cache_write_1h: how much of `cache_write` was written for an hour.

    Examples:
        >>> read_usage({"prompt_tokens": 9, "completion_tokens": 2})
        Usage(input=9, cache_read=0, cache_write=0, output=2, cache_write_1h=0)
    """

    input: int
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    cache_write_1h: int = 0

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
    if reported is None or isinstance(reported, (Usage, str, bytes, int, float)):
        return reported if isinstance(reported, Usage) else None
    return _read(reported, 0)


def _read(given: Any, depth: int) -> Usage | None:
    whole = _number(given, _INPUT)
    if whole is not None:
        usage = _usage(given, whole)
        if usage.input:  # An answer that is still streaming reports nothing but zeros.
            return usage
    if depth < _DEPTH:
        for name in _HOLDERS:
            inner = _field(given, name)
            if name == "additional_kwargs":  # LlamaIndex leaves a part of Anthropic's report there
                partial = _field(inner, "usage")
                if isinstance(partial, Mapping) and set(partial) == {
                    "input_tokens",
                    "output_tokens",
                }:
                    continue
            if not isinstance(inner, (str, bytes, int, float, list, type(None))):
                usage_inside = _read(inner, depth + 1)
                if usage_inside is not None:
                    return usage_inside
    return None


def _usage(given: Any, whole: int) -> Usage:
    output = (_number(given, _OUTPUT) or 0) + (_number(given, _THOUGHTS) or 0)
    details = next((each for name in _DETAILS if (each := _field(given, name)) is not None), None)
    long = _number(details, _LONG) or 0
    if details is not None:
        read = _number(details, _READ_DETAIL) or 0
        write = (_number(details, _SHORT) or 0) + long or _number(details, _WRITE_DETAIL) or 0
        if read or write:
            return Usage(whole, read, write, output, long)
    read, write = _number(given, _READ_BESIDE) or 0, _number(given, _WRITE_BESIDE) or 0
    if read or write:
        total = _number(given, ("total_tokens",))
        if total is None or total != whole + output:  # Some routers add them up themselves.
            whole += read + write
        # Bedrock lists its writes by how long they last.
        listed = _field(given, "cacheDetails") or ()
        lasting = [each for each in listed if _field(each, "ttl") == "1h"]
        write_1h = sum(_number(each, ("inputTokens",)) or 0 for each in lasting)
        write_1h = _number(_field(given, "cache_creation"), _LONG) or write_1h
        return Usage(whole, read, write, output, write_1h)
    return Usage(whole, _number(given, _READ_WITHIN) or 0, 0, output)


def _field(holder: Any, name: str) -> Any:
    if holder.__class__ is dict or isinstance(holder, Mapping):
        return holder.get(name)
    return None if holder is None else getattr(holder, name, None)


def _number(holder: Any, names: tuple[str, ...]) -> int | None:
    for name in names:
        value = _field(holder, name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
