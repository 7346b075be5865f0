"""The request fields with which a provider shortens the conversation by itself, for the same budget.

They are an alternative to a view: the whole record is sent, and the provider cuts where it wants. What
is left is neither proved to fit nor explained, and no recap says what was removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from history_curator.errors import ConfigurationError

_CLEARING_BETA = "context-management-2025-06-27"
_KEPT_TOOL_USES = 3
"""Newest tool results that Anthropic does not clear; its own default."""


def find_provider_edits(provider: str, max_tokens: int | None, compact_to: float) -> dict[str, Any]:
    """Return the fields that make a provider cut above a budget, each time down to a share of it.

    Examples:
        >>> find_provider_edits("openai-responses", 100_000, 0.7)
        {'context_management': [{'type': 'compaction', 'compact_threshold': 100000}]}
    """
    if max_tokens is None:
        raise ConfigurationError("provider_edits needs a budget. Fix: give the Curator max_tokens.")
    if provider not in _EDITS:
        raise ConfigurationError(
            f"provider {provider!r} shortens no conversation by itself. Fix: send the messages of the "
            f"view, or use a curator for one of {', '.join(_EDITS)}."
        )
    return _EDITS[provider](max_tokens, compact_to)


def _clear_tool_uses(max_tokens: int, compact_to: float) -> dict[str, Any]:
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": max_tokens},
        "keep": {"type": "tool_uses", "value": _KEPT_TOOL_USES},
        "clear_at_least": {"type": "input_tokens", "value": round(max_tokens * (1 - compact_to))},
    }
    return {"edits": [edit]}


def _edits_of_anthropic(max_tokens: int, compact_to: float) -> dict[str, Any]:
    """Return the arguments of ``client.beta.messages.create``."""
    edits = _clear_tool_uses(max_tokens, compact_to)
    return {"betas": [_CLEARING_BETA], "context_management": edits}


def _edits_of_bedrock(max_tokens: int, compact_to: float) -> dict[str, Any]:
    """Return fields of the body of InvokeModel for a Claude model; Converse does not take them."""
    edits = _clear_tool_uses(max_tokens, compact_to)
    return {"anthropic_beta": [_CLEARING_BETA], "context_management": edits}


def _edits_of_responses(max_tokens: int, _compact_to: float) -> dict[str, Any]:
    """Return the arguments of ``client.responses.create``."""
    return {"context_management": [{"type": "compaction", "compact_threshold": max_tokens}]}


_EDITS: dict[str, Callable[[int, float], dict[str, Any]]] = {
    "anthropic": _edits_of_anthropic,
    "bedrock": _edits_of_bedrock,
    "openai-responses": _edits_of_responses,
}
