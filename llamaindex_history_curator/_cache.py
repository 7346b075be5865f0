"""Mark where a view is worth caching, in the words of LlamaIndex."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    ChatMessage,
    MessageRole,
    ThinkingBlock,
)
from llama_index.core.llms import LLM

from history_curator.caching import Mark, ttl_of
from history_curator.curator import Curation
from history_curator.integrations import mark_prefix, mark_view

RESULTS = frozenset((MessageRole.TOOL, MessageRole.FUNCTION))
"""Roles that carry no point: adapters write it inside the result, where providers refuse it."""


def takes_points(llm: LLM) -> bool:
    """Whether the adapter of an LLM knows a `CachePoint`, and its model a cache."""
    kind = llm.class_name().lower()
    if "anthropic" in kind:
        return True
    name = llm.metadata.model_name.lower()
    return "bedrock" in kind and "converse" in kind and ("claude" in name or "nova" in name)


def marks_for(llm: LLM | None, wanted: bool) -> bool:
    """Whether to mark views: wanted, and not for an LLM that takes no `CachePoint`.

    Warns:
        UserWarning: when it is wanted for an LLM that does not take it.
    """
    if not wanted or llm is None or takes_points(llm):
        return wanted
    warnings.warn(
        f"{llm.class_name()} takes no cache points, so none is placed. "
        "Fix: leave mark_cache off; providers that cache by themselves need no mark.",
        UserWarning,
        stacklevel=4,
    )
    return False


def mark_cache(messages: Sequence[ChatMessage], prefix: int) -> list[ChatMessage]:
    """Return the messages with a `CachePoint` at the end of the first ``prefix`` of them.

    The marked message is a copy; all others are the same objects. Nothing is marked where the
    prefix holds no block that can carry a mark, or where four points, the most a provider takes,
    are there already.

    Examples:
        >>> marked = mark_cache([ChatMessage("hello"), ChatMessage("and?")], 1)
        >>> [block.block_type for block in marked[0].blocks]
        ['text', 'cache']
    """
    return mark_prefix(messages, prefix, _others(messages), _marked)


def mark_curation(
    messages: Sequence[ChatMessage], curation: Curation, model: str | None = None
) -> list[ChatMessage]:
    """Return the messages of a view with the breakpoints of its cache plan.

    Args:
        messages: the view, as it is sent.
        curation: where it comes from.
        model: who is asked, for the least prefix; without it Anthropic's usual one.
    """
    return mark_view(messages, curation, _others(messages), _marked, model)


def _others(messages: Sequence[ChatMessage]) -> list[Mark]:
    """Return the points the messages carry already."""
    return [
        Mark(position, ttl_of({"ttl": getattr(block.cache_control, "ttl", None)}))
        for position, message in enumerate(messages, 1)
        for block in message.blocks
        if isinstance(block, CachePoint)
    ]


def _marked(message: ChatMessage, ttl: float) -> ChatMessage | None:
    blocks = message.blocks
    if message.role in RESULTS or not blocks or not _can_carry(blocks[-1]):
        return None
    control = CacheControl(type="ephemeral", ttl="1h" if ttl >= 3600 else "5m")
    point = CachePoint(cache_control=control)
    return message.model_copy(update={"blocks": [*blocks, point]})


def _can_carry(block: Any) -> bool:
    # A point marks the block before it, and thinking or an empty text cannot be marked.
    if isinstance(block, (CachePoint, ThinkingBlock)):
        return False
    return getattr(block, "text", "x") != ""
