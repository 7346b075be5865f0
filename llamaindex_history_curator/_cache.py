"""Tell the provider where the stable prefix ends."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    ChatMessage,
    ThinkingBlock,
)

if TYPE_CHECKING:
    from llama_index.core.llms import LLM

__all__ = ["mark_cache", "marks_for"]

_MOST = 4
_TAKERS = ("anthropic", "bedrock_converse", "bedrockconverse")


def marks_for(llm: LLM | None, wanted: bool) -> bool:
    """Whether to mark views: wanted, and not for an LLM whose adapter knows no `CachePoint`.

    Warns:
        UserWarning: when it is wanted for an LLM that does not take it.
    """
    if not wanted or llm is None or any(taker in llm.class_name().lower() for taker in _TAKERS):
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

    Example:
        >>> marked = mark_cache([ChatMessage("hello"), ChatMessage("and?")], 1)
        >>> [block.block_type for block in marked[0].blocks]
        ['text', 'cache']
    """
    out = list(messages)
    points = sum(isinstance(block, CachePoint) for message in out for block in message.blocks)
    if points >= _MOST:
        return out
    for place in range(min(prefix, len(out)) - 1, -1, -1):
        blocks = out[place].blocks
        if blocks and isinstance(blocks[-1], CachePoint):
            break
        if blocks and _can_carry(blocks[-1]):
            point = CachePoint(cache_control=CacheControl(type="ephemeral"))
            out[place] = out[place].model_copy(update={"blocks": [*blocks, point]})
            break
    return out


def _can_carry(block: Any) -> bool:
    # A point marks the block before it, and thinking or an empty text cannot be marked.
    return not isinstance(block, ThinkingBlock) and getattr(block, "text", "x") != ""
