"""Mark where a view is worth caching, in the words of the provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from history_curator.caching import Mark, cache_control, ttl_of
from history_curator.curator import Curation
from history_curator.integrations import MOST_MARKS, mark_prefix, mark_view

if TYPE_CHECKING:
    from langchain.agents.middleware.types import ModelRequest


def mark_cache(
    messages: Sequence[BaseMessage],
    end: int | None = None,
    *,
    tools: Sequence[Any] | None = None,
    system: BaseMessage | None = None,
    limit: int = MOST_MARKS,
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

    Examples:
        >>> from langchain_core.messages import HumanMessage
        >>> mark_cache([HumanMessage("hi")])[0].content[0]["cache_control"]
        {'type': 'ephemeral'}
    """
    others = list(_others(messages, tools=tools, system=system))
    stop = len(messages) if end is None else end
    return mark_prefix(messages, stop, others, _marked, most=limit)


def mark_curation(
    curation: Curation,
    *,
    tools: Sequence[Any] | None = None,
    automatic: Mapping[str, Any] | None = None,
    model: str | None = None,
) -> list[BaseMessage]:
    """Return the messages of a curation with the breakpoints of its cache plan.

    Args:
        curation: the view and its report.
        tools: tools sent along; their breakpoints count.
        automatic: ``cache_control`` among the settings of the call, which marks the last block by
            itself.
        model: who is asked, for the least prefix; without it Anthropic's usual one.
    """
    others = list(_others(curation.messages, tools=tools, automatic=automatic))
    return mark_view(curation.messages, curation, others, _marked, model)


def with_view(request: ModelRequest[Any], curation: Curation, *, marks: bool) -> ModelRequest[Any]:
    """Return the request with the view in place of the conversation, marked for the cache or not."""
    messages = curation.messages
    if marks:
        request, messages = _marked_request(request, curation)
    first = messages[0] if messages else None
    if request.system_message is None or not isinstance(first, SystemMessage):
        return request.override(messages=messages)
    return request.override(system_message=first, messages=messages[1:])


def _marked_request(
    request: ModelRequest[Any], curation: Curation
) -> tuple[ModelRequest[Any], list[BaseMessage]]:
    """Return an agent's request and the view for it, with the breakpoints of the cache plan.

    With langchain-anthropic's models a view that the next request repeats whole is marked through
    the ``cache_control`` setting of the call, as that package's own caching middleware does it:
    whichever of the two comes first, the other one's setting replaces it, and a mark for five
    minutes never stands in front of one for an hour.
    """
    settings = request.model_settings or {}
    automatic, model = settings.get("cache_control"), request.model
    name = getattr(model, "model", None) or getattr(model, "model_name", None)
    known = type(model).__module__.startswith("langchain_anthropic")
    if automatic or not known or curation.report.prefix_entries < len(curation.entries):
        marked = mark_curation(curation, tools=request.tools, automatic=automatic, model=name)
        return request, marked
    automatic = cache_control(300.0)
    first = mark_curation(curation, tools=request.tools, automatic=automatic, model=name)[0]
    if not isinstance(first, SystemMessage):
        first = curation.messages[0]
    request = request.override(model_settings={**settings, "cache_control": automatic})
    return request, [first, *curation.messages[1:]]


def _others(
    messages: Sequence[BaseMessage],
    *,
    tools: Sequence[Any] | None,
    system: BaseMessage | None = None,
    automatic: Mapping[str, Any] | None = None,
) -> Iterator[Mark]:
    """Yield the breakpoints a request carries already."""
    for tool in tools or ():
        held: Any = tool if isinstance(tool, Mapping) else getattr(tool, "extras", None)
        if held and held.get("cache_control"):
            yield Mark(0, ttl_of(held["cache_control"]))
    for control in _controls(system):
        yield Mark(0, ttl_of(control))
    for position, message in enumerate(messages, 1):
        for control in _controls(message):
            yield Mark(position, ttl_of(control))
    if automatic:
        yield Mark(len(messages), ttl_of(automatic))


def count_marks(message: BaseMessage | None) -> int:
    """How many breakpoints a message carries."""
    return len(_controls(message))


def _controls(message: BaseMessage | None) -> list[Any]:
    if message is None or not isinstance(message.content, list):
        return []
    found = (
        block.get("cache_control") or (block.get("extras") or {}).get("cache_control")
        for block in message.content
        if isinstance(block, dict)
    )
    return [control for control in found if control]


def _marked(message: BaseMessage, ttl: float) -> BaseMessage | None:
    markable = isinstance(message, (HumanMessage, ToolMessage, AIMessage, SystemMessage))
    if not markable or count_marks(message):
        return None
    content, control = message.content, cache_control(ttl)
    if isinstance(content, str):
        if not content.strip() or (isinstance(message, AIMessage) and message.tool_calls):
            return None
        block = {"type": "text", "text": content, "cache_control": control}
        return message.model_copy(update={"content": [block]})
    last = content[-1] if content else None
    if isinstance(last, str) and last.strip():
        last = {"type": "text", "text": last}
    if not isinstance(last, dict) or last.get("type") not in ("text", "image", "tool_result"):
        return None
    if last.get("type") == "text" and not str(last.get("text") or "").strip():
        return None
    blocks = [*content[:-1], {**last, "cache_control": control}]
    return message.model_copy(update={"content": blocks})
