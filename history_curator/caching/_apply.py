"""A plan in the words of each provider. Nothing given is changed; marked messages are copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from history_curator.caching._plan import Breakpoint, CachePlan, Mark
from history_curator.errors import ConversionError

__all__ = [
    "anthropic_marks",
    "apply_anthropic",
    "apply_bedrock",
    "apply_openai",
    "cache_control",
    "place_marks",
    "ttl_of",
]

Message = TypeVar("Message")
_HOUR = 3600.0
_UNMARKABLE = ("thinking", "redacted_thinking")


def cache_control(ttl: float) -> dict[str, str]:
    """Return Anthropic's mark for a ttl: the five minutes it takes when none is named, or an hour.

    Examples:
        >>> cache_control(300), cache_control(3600)
        ({'type': 'ephemeral'}, {'type': 'ephemeral', 'ttl': '1h'})
    """
    return {"type": "ephemeral", "ttl": "1h"} if ttl >= _HOUR else {"type": "ephemeral"}


def ttl_of(control: Any) -> float:
    """Return the seconds a mark of Anthropic's asks for."""
    named = control.get("ttl") if isinstance(control, Mapping) else None
    return _HOUR if named == "1h" else 300.0


def ends_of(messages: Sequence[Any], entries: int | None = None) -> list[int] | None:
    """Return, for each message, how many entries of a view stand before its end.

    Args:
        messages: what the view was written as, in any format.
        entries: how many entries it has; None is returned when the messages hold other than that.
    """
    from history_curator.formats import detect

    if entries == len(messages):
        return list(range(1, entries + 1))
    ends: list[int] = []
    if messages:
        format = detect(messages)
        for index, message in enumerate(messages):
            try:
                count = len(format.read(message, index))
            except ConversionError:
                return None
            ends.append((ends[-1] if ends else 0) + count)
    return ends if entries is None or (ends[-1] if ends else 0) == entries else None


def anthropic_marks(
    messages: Sequence[Mapping[str, Any]],
    *,
    system: Any = None,
    tools: Sequence[Any] | None = None,
    automatic: Any = None,
    lead: int = 0,
) -> list[Mark]:
    """Return the breakpoints an Anthropic request carries already.

    Args:
        messages: its messages.
        system: its system prompt, text or blocks, where it is sent apart.
        tools: its tools.
        automatic: its top-level ``cache_control``, which marks the last block by itself.
        lead: how many entries of the view the system prompt is that is sent apart.
    """
    found = _marks("cache_control", messages, system=system, tools=tools, lead=lead)
    if automatic:
        found.append(Mark(lead + (ends_of(messages) or [0])[-1], ttl_of(automatic)))
    return found


def _marks(
    name: str, messages: Sequence[Mapping[str, Any]], *, system: Any, tools: Any, lead: int
) -> list[Mark]:
    """The breakpoints of a request, by what a provider calls them in its blocks."""
    found = [Mark(0, ttl_of(each)) for each in _named(tools, name)]
    found += [Mark(lead, ttl_of(each)) for each in _named(system, name)]
    ends = ends_of(messages) or [0] * len(messages)
    for message, end in zip(messages, ends, strict=True):
        found += [Mark(lead + end, ttl_of(each)) for each in _named(message.get("content"), name)]
    return found


def _named(blocks: Any, name: str) -> list[Any]:
    if not isinstance(blocks, (list, tuple)):
        return []
    return [block[name] for block in blocks if isinstance(block, Mapping) and block.get(name)]


def apply_anthropic(
    messages: Sequence[Mapping[str, Any]],
    plan: CachePlan,
    *,
    system: Any = None,
    tools: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Return ``messages``, ``system`` and ``tools`` with the plan's breakpoints set.

    A block that cannot carry a mark (thinking, empty text) passes it on to the one before it in
    the same message; a message without any goes unmarked. Marks that are there already stay, and
    count: there are no more in all than the provider takes.

    Args:
        messages: what the view was written as, in the order of its entries. A leading system
            message takes the mark of the front when ``system`` is not given.
        plan: made for that view.
        system: the system prompt, where it is sent apart; text or blocks.
        tools: the tools sent along.
    """
    name, apart = "cache_control", plan.lead if system is not None else 0
    plan = plan.beside(_marks(name, messages, system=system, tools=tools, lead=apart))

    def mark(message: Mapping[str, Any], point: Breakpoint) -> Mapping[str, Any] | None:
        content = _marked(message.get("content"), name, cache_control(point.ttl))
        return None if content is None else {**message, "content": content}

    out = place_marks(messages, plan, mark, apart=apart)
    front = _front(plan)
    if front is not None and system:
        content = _marked(system, name, cache_control(front.ttl))
        system = system if content is None else content
    elif front is not None and front.after == 0 and tools:
        tools = [*tools[:-1], {**tools[-1], name: cache_control(front.ttl)}]
    return {"messages": out, "system": system, "tools": tools}


def apply_bedrock(
    messages: Sequence[Mapping[str, Any]],
    plan: CachePlan,
    *,
    system: Sequence[Any] | None = None,
    tools: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Return the parts of a Bedrock Converse request with a ``cachePoint`` after each breakpoint.

    Those that are there already stay, and count.

    Args:
        messages: Converse messages: a role and a list of content blocks.
        plan: made for that view.
        system: the ``system`` blocks of the request.
        tools: the ``toolConfig.tools`` of the request.
    """
    name, apart = "cachePoint", plan.lead if system is not None else 0
    plan = plan.beside(_marks(name, messages, system=system, tools=tools, lead=apart))

    def point(ttl: float) -> dict[str, Any]:
        named = {"type": "default", "ttl": "1h"} if ttl >= _HOUR else {"type": "default"}
        return {name: named}

    def mark(message: Mapping[str, Any], at: Breakpoint) -> Mapping[str, Any] | None:
        content = message.get("content")
        if not isinstance(content, list) or not content:
            return None
        if "reasoningContent" in content[-1] or name in content[-1]:
            return None
        return {**message, "content": [*content, point(at.ttl)]}

    out = place_marks(messages, plan, mark, apart=apart)
    front = _front(plan)
    if front is not None and system:
        system = [*system, point(front.ttl)]
    elif front is not None and front.after == 0 and tools:
        tools = [*tools, point(front.ttl)]
    return {"messages": out, "system": system, "tools": tools}


def apply_openai(messages: Sequence[Mapping[str, Any]], plan: CachePlan) -> dict[str, Any]:
    """Return ``messages`` with explicit breakpoints, and the ``prompt_cache_key``.

    For models whose sheet has no breakpoints only the key is set. Answers of the model carry no
    mark, so a breakpoint behind one goes to the message before it. Marks that are there already
    stay, and count.
    """
    name = "prompt_cache_breakpoint"
    plan = plan.beside(_marks(name, messages, system=None, tools=None, lead=0))

    def mark(message: Mapping[str, Any], at: Breakpoint) -> Mapping[str, Any] | None:
        if message.get("role") == "assistant":
            return None
        content = _marked(message.get("content"), name, {"mode": "explicit"})
        return None if content is None else {**message, "content": content}

    return {
        "messages": place_marks(messages, plan, mark),
        "prompt_cache_key": plan.key,
    }


def _front(plan: CachePlan) -> Breakpoint | None:
    return next((each for each in plan.breakpoints if each.place == "front"), None)


def place_marks(
    messages: Sequence[Message],
    plan: CachePlan,
    mark: Callable[[Message, Breakpoint], Message | None],
    *,
    apart: int = 0,
) -> list[Message]:
    """Return the messages with each breakpoint on the message that ends at it, or the one before.

    Nothing is marked when the messages are not the ones the view was written as.

    Args:
        messages: what the view was written as, in any format.
        plan: made for that view.
        mark: returns a marked copy of a message, or None when it cannot carry a mark.
        apart: how many leading entries of the view are not among the messages.
    """
    out = list(messages)
    ends = ends_of(messages, plan.entries - apart)
    floor = 0
    for point in plan.breakpoints:
        for at in range(len(ends or ()) - 1, floor - 1, -1):
            if ends is None or ends[at] > point.after - apart:
                continue
            marked = mark(out[at], point)
            if marked is not None:
                out[at], floor = marked, at + 1
                break
    return out


def _marked(content: Any, name: str, value: Any) -> list[Any] | None:
    """Return content blocks with the last one that can carry it marked; None when none can.

    None as well where one is marked already.
    """
    if _named(content, name):
        return None
    if isinstance(content, str):
        return [{"type": "text", "text": content, name: value}] if content.strip() else None
    if not isinstance(content, (list, tuple)):
        return None
    blocks = list(content)
    for at in range(len(blocks) - 1, -1, -1):
        block = blocks[at]
        if isinstance(block, str):
            block = {"type": "text", "text": block}
        if not isinstance(block, Mapping) or block.get("type") in _UNMARKABLE:
            continue
        if block.get("type") == "text" and not str(block.get("text") or "").strip():
            continue
        blocks[at] = {**block, name: value}
        return blocks
    return None
