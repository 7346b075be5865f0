"""Mark where the stable prefix ends, in the words of the provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

if TYPE_CHECKING:
    from history_curator.curator import Curation

LIMIT = 4
"""Breakpoints Anthropic takes in one request: messages, system prompt and tools together."""

_MARK = {"type": "ephemeral"}


def mark_cache(
    messages: Sequence[BaseMessage],
    end: int | None = None,
    *,
    tools: Sequence[Any] | None = None,
    system: BaseMessage | None = None,
    limit: int = LIMIT,
) -> list[BaseMessage]:
    """Return the messages with an Anthropic cache breakpoint at the end of the prefix.

    The marked message is a copy; all others are the same objects. Nothing is marked when the
    request already carries as many breakpoints as the provider allows, or when the message at
    the end is marked already.

    Args:
        messages: the view.
        end: how many leading messages are stable; all of them when not given.
        tools: tools sent along, for their breakpoints.
        system: a system message sent apart from the messages.
        limit: how many breakpoints a request may carry.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> mark_cache([HumanMessage("hi")])[0].content[0]["cache_control"]
        {'type': 'ephemeral'}
    """
    out = list(messages)
    used = sum(map(count_marks, out)) + count_marks(system)
    used += sum(1 for tool in tools or () if _tool_marked(tool))
    if used >= limit:
        return out
    stop = len(out) if end is None else min(end, len(out))
    for position in range(stop - 1, -1, -1):
        message = out[position]
        if count_marks(message):
            return out
        marked = _marked(message)
        if marked is not None:
            out[position] = marked
            return out
    return out


def mark_curation(curation: Curation, **request: Any) -> list[BaseMessage]:
    """The messages of a curation, marked where its report says the stable prefix ends."""
    end = curation.report.prefix_entries
    messages: list[BaseMessage] = curation.messages
    if len(messages) != len(curation.entries):
        # Some message stands for several entries: count messages up to the last stable entry.
        stable = {id(entry.source) for entry in curation.entries[:end]}
        volatile = {id(entry.source) for entry in curation.entries[end:]}
        end = sum(1 for m in messages if id(m) in stable and id(m) not in volatile)
    return mark_cache(messages, end, **request)


def count_marks(message: BaseMessage | None) -> int:
    """How many breakpoints a message carries."""
    if message is None or not isinstance(message.content, list):
        return 0
    return sum(1 for block in message.content if isinstance(block, dict) and _has_mark(block))


def _has_mark(block: dict[str, Any]) -> bool:
    return bool(block.get("cache_control") or (block.get("extras") or {}).get("cache_control"))


def _tool_marked(tool: Any) -> bool:
    if isinstance(tool, dict):
        return bool(tool.get("cache_control"))
    return bool((getattr(tool, "extras", None) or {}).get("cache_control"))


def _marked(message: BaseMessage) -> BaseMessage | None:
    if not isinstance(message, (HumanMessage, ToolMessage, AIMessage)):
        return None
    content = message.content
    if isinstance(content, str):
        if not content.strip() or (isinstance(message, AIMessage) and message.tool_calls):
            return None
        block = {"type": "text", "text": content, "cache_control": _MARK}
        return message.model_copy(update={"content": [block]})
    last = content[-1] if content else None
    if isinstance(last, str) and last.strip():
        last = {"type": "text", "text": last}
    if not isinstance(last, dict) or last.get("type") not in ("text", "image", "tool_result"):
        return None
    if last.get("type") == "text" and not str(last.get("text") or "").strip():
        return None
    blocks = [*content[:-1], {**last, "cache_control": _MARK}]
    return message.model_copy(update={"content": blocks})
