"""What a request tells a provider beside the view: cache breakpoints, or to cut by itself.

Messages are not changed: marked ones are copies. No provider is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeVar

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConfigurationError, ConversionError
from history_curator.formats import find_format

Message = TypeVar("Message")
Place = Literal["end", "front", "heads", "prefix"]
_HOUR = 3600.0
_UNMARKABLE = ("thinking", "redacted_thinking")
_CLEARING_BETAS = {"anthropic": "betas", "bedrock": "anthropic_beta"}
"""The field that allows Anthropic's cuts: of ``client.beta.messages.create``, of InvokeModel's body."""


class CacheRules(NamedTuple):
    """The tokens of the shortest prefix a provider caches, and the marks a request may carry."""

    minimum: int = 1024
    breakpoints: int = 4


# First match wins, at the start of a model's own name or of a provider's.
_RULES: tuple[tuple[str, CacheRules], ...] = (
    (r"claude-(?:fable|mythos|opus)-5", CacheRules(512)),
    (r"claude-opus-4-7", CacheRules(2048)),
    (r"claude-(?:opus-4-[56]|haiku-4-5)(?!\d)", CacheRules(4096)),
    (r"claude|anthropic|bedrock", CacheRules()),
    (r"openai$|gpt|o[134](?:-|$)", CacheRules(breakpoints=0)),  # they cache by themselves
    (r"gemini", CacheRules(2048, 0)),
)
_OWNERS = re.compile(r"(?:[\w-]+[/:])*(?:[a-z]{2,6}\.)?(?:(?:anthropic|openai|google)\.)?")


def find_cache_rules(model: str | None) -> CacheRules | None:
    """Return the rules for a model or a provider; None for a name that is not known."""
    name = _OWNERS.sub("", (model or "").lower()[:200], count=1)
    return next((rules for pattern, rules in _RULES if re.match(pattern, name)), None)


class Mark(NamedTuple):
    """A breakpoint set by other code, for so many seconds, after so many entries; 0 is the tools."""

    after: int
    ttl: float


class Breakpoint(NamedTuple):
    """A place to mark: after how many entries of the view, how many tokens, for how many seconds."""

    place: Place
    after: int
    tokens: int
    ttl: float = 300.0


@dataclass(frozen=True, slots=True)
class CachePlan:
    """Where to mark a view: above the least prefix that the provider caches."""

    places: tuple[Breakpoint, ...]  # those worth most first
    entries: int  # of the view
    lead: int = 0  # those of the system prompt
    limit: int = 0  # the marks that the provider takes in one request

    @property
    def breakpoints(self) -> list[Breakpoint]:
        """The breakpoints of a request that carries no mark yet, in its order."""
        return self.choose()

    def choose(self, others: Sequence[Mark] = ()) -> list[Breakpoint]:
        """Return the breakpoints of a request that carries marks already, in its order.

        With those there are no more than the provider takes, and ours last as long as those behind.
        """
        chosen: list[Breakpoint] = []
        marked = {mark.after for mark in others}
        for each in self.places:
            if len(chosen) + len(others) < self.limit and each.after not in marked:
                behind = (mark.ttl for mark in others if mark.after > each.after)
                chosen.append(each._replace(ttl=max(each.ttl, *behind, 0.0)))
        return sorted(chosen, key=lambda each: each.after)


def plan_cache(
    entries: Sequence[ConversationEntry],
    sizes: Sequence[int],
    *,
    prefix_entries: int,
    model: str | None = None,
    tools_tokens: int = 0,
) -> CachePlan:
    """Return where breakpoints pay in a view whose entries have these sizes in tokens.

    These are the end of the view, the front that every request shares, the kept question that
    survives a compaction, and the end of the `prefix_entries` that the next request repeats. The
    rules are those of the model or provider, Anthropic's for any other name.
    """
    rules = find_cache_rules(model) or CacheRules()
    totals, end = list(accumulate(sizes, initial=tools_tokens)), len(entries)
    is_system = [entry.role is MessageRole.SYSTEM for entry in entries]
    lead = [*is_system, False].index(False)
    prefix = max(min(prefix_entries, end), 0)
    worth_most_first: list[tuple[Place, int, bool]] = [
        ("prefix" if prefix == end else "end", end, end > lead),
        ("front", lead, True),
        ("heads", lead + 1, lead + 1 < end and entries[lead].is_real_user),
        ("prefix", prefix, lead < prefix < end),
    ]
    places: dict[int, Breakpoint] = {}
    for place, after, is_there in worth_most_first:
        if is_there and totals[after] >= rules.minimum:
            places.setdefault(after, Breakpoint(place, after, totals[after]))
    return CachePlan(tuple(places.values()), end, lead, rules.breakpoints)


def ttl_of(control: Any) -> float:
    """Return the seconds a mark of Anthropic's asks for."""
    ttl = control.get("ttl") if isinstance(control, Mapping) else None
    return _HOUR if ttl == "1h" else 300.0


def apply_anthropic(
    messages: Sequence[Mapping[str, Any]],
    plan: CachePlan,
    *,
    system: Any = None,
    tools: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Return ``messages``, ``system`` and ``tools`` with the plan's breakpoints set.

    A block that cannot carry a mark (thinking, empty text) passes it on to the one before it.
    Marks that are there already stay, and count. The messages of another view are left alone.
    """
    lead = plan.lead if system is not None else 0
    items: list[Mapping[str, Any]] = [{"content": tools}, {"content": system}, *messages]
    ends = _find_ends(messages, plan.entries - lead)
    if ends is None:
        return {"messages": list(messages), "system": system, "tools": tools}
    places = [0, lead, *(lead + end for end in ends)]
    others = [
        Mark(after, ttl_of(control))
        for item, after in zip(items, places, strict=True)
        for control in _find_controls(item.get("content"))
    ]

    def mark(item: Mapping[str, Any], point: Breakpoint) -> Mapping[str, Any] | None:
        content = item.get("content")
        blocks = None if _find_controls(content) else _mark_last(content, point.ttl)
        return None if blocks is None else {**item, "content": blocks}

    marked = place_marks(items, plan, others, mark, places)
    return {"messages": marked[2:], "system": marked[1]["content"], "tools": marked[0]["content"]}


def place_marks(
    messages: Sequence[Message],
    plan: CachePlan,
    others: Sequence[Mark],
    mark: Callable[[Message, Breakpoint], Message | None],
    ends: Sequence[int] | None = None,
) -> list[Message]:
    """Return the messages with each breakpoint on the message that ends at it, or the one before.

    `others` are the marks that the request carries already; `mark` returns a marked copy of a
    message, or None when it cannot carry one; `ends` are the entries up to the end of each message.
    No message is marked when the messages are not the ones the view was written as.
    """
    ends = (_find_ends(messages, plan.entries) or []) if ends is None else ends
    out, first_unmarked = list(messages), 0
    for point in plan.choose(others):
        for index in range(len(ends) - 1, first_unmarked - 1, -1):
            marked = mark(out[index], point) if ends[index] <= point.after else None
            if marked is not None:
                out[index], first_unmarked = marked, index + 1
                break
    return out


def _find_ends(messages: Sequence[Any], entries: int) -> list[int] | None:
    """Return, for each message, how many entries of a view stand before its end.

    None when the messages hold another number of entries than the view.
    """
    if entries == len(messages):
        return list(range(1, entries + 1))
    try:
        read = find_format(messages).read if messages else None
        counts = [len(read(each, at)) for at, each in enumerate(messages)] if read else []
    except ConversionError:
        return None
    return list(accumulate(counts)) if sum(counts) == entries else None


def _find_controls(blocks: Any) -> list[Any]:
    blocks = blocks if isinstance(blocks, (list, tuple)) else ()
    controls = (block.get("cache_control") for block in blocks if isinstance(block, Mapping))
    return list(filter(None, controls))


def _mark_last(given: Any, ttl: float) -> list[Any] | None:
    """Return blocks with the last one that can carry a mark marked; None without one."""
    is_text = isinstance(given, str)
    blocks: list[Any] = [{"type": "text", "text": given}] if is_text else list(given or ())
    control = {"type": "ephemeral"} | ({"ttl": "1h"} if ttl >= _HOUR else {})
    for index, block in reversed(list(enumerate(blocks))):
        kind = block.get("type") if isinstance(block, Mapping) else "thinking"
        is_blank = kind == "text" and not str(block.get("text") or "").strip()
        if kind not in _UNMARKABLE and not is_blank:
            blocks[index] = {**block, "cache_control": control}
            return blocks
    return None


def find_provider_edits(provider: str, max_tokens: int | None, compact_to: float) -> dict[str, Any]:
    """Return the fields that make a provider cut above a budget, each time down to a share of it."""
    if max_tokens is None:
        raise ConfigurationError("provider_edits needs a budget. Fix: give the Curator max_tokens.")
    if provider == "openai-responses":
        compaction = {"type": "compaction", "compact_threshold": max_tokens}
        return {"context_management": [compaction]}
    if provider not in _CLEARING_BETAS:
        raise ConfigurationError(
            f"provider {provider!r} shortens no conversation by itself. Fix: send the messages of the "
            f"view, or use a curator for one of {', '.join(_CLEARING_BETAS)}, openai-responses."
        )
    clearing = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": max_tokens},
        "keep": {"type": "tool_uses", "value": 3},  # the newest; its own default
        "clear_at_least": {"type": "input_tokens", "value": round(max_tokens * (1 - compact_to))},
    }
    beta = {_CLEARING_BETAS[provider]: ["context-management-2025-06-27"]}
    return {**beta, "context_management": {"edits": [clearing]}}
