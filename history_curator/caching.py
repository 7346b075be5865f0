"""Where to mark cache breakpoints in a view, and how each provider wants them.

Messages are not changed: marked ones are copies. No provider is called.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError
from history_curator.formats import find_format

if TYPE_CHECKING:
    from history_curator.curator import Curation

__all__ = [
    "Breakpoint", "CachePlan", "CacheRules", "Mark", "apply_anthropic", "apply_bedrock",
    "apply_openai", "cache_control", "find_cache_rules", "place_marks", "plan_cache", "plan_of",
    "ttl_of",
]  # fmt: skip

Message = TypeVar("Message")
Place = Literal["front", "heads", "last request", "prefix", "end"]
# How much a place is worth, most first; the end of the view comes before all of them.
_RANK: dict[Place, int] = {"front": 0, "last request": 1, "heads": 2, "prefix": 3, "end": 4}
_HOUR = 3600.0
_UNMARKABLE = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class CacheRules:
    """The demands of a provider on cache breakpoints.

    Attributes:
        minimum: tokens of the shortest prefix it caches.
        breakpoints: how many marks a request may carry.
        lookback: content blocks before a mark that are searched for an earlier one; None for all.
        ttl: seconds a mark asks for when the caller names none.
    """

    minimum: int = 1024
    breakpoints: int = 4
    lookback: int | None = None
    ttl: float = 300.0


_ANTHROPIC = CacheRules(lookback=20)
# First match wins, at the start of a model's own name or of a provider's.
_RULES: tuple[tuple[str, CacheRules], ...] = (
    (r"claude-(?:fable|mythos|opus)-5", replace(_ANTHROPIC, minimum=512)),
    (r"claude-opus-4-7", replace(_ANTHROPIC, minimum=2048)),
    (r"claude-(?:opus-4-[56]|haiku-4-5)(?!\d)", replace(_ANTHROPIC, minimum=4096)),
    (r"claude|anthropic|bedrock", _ANTHROPIC),
    (r"gpt-5\.6|openai$", CacheRules(ttl=1800.0)),
    (r"gpt|o[134](?:-|$)", CacheRules(breakpoints=0)),
    (r"gemini", CacheRules(minimum=2048, breakpoints=0)),
)
_OWNERS = re.compile(r"(?:[\w-]+[/:])*(?:[a-z]{2,6}\.)?(?:(?:anthropic|openai|google)\.)?")


def find_cache_rules(model: str | None) -> CacheRules | None:
    """Return the rules for a model or a provider; None for a name that is not known.

    Examples:
        >>> find_cache_rules("us.anthropic.claude-opus-4-6-v1").minimum
        4096
        >>> find_cache_rules("my-own-model") is None
        True
    """
    name = _OWNERS.sub("", (model or "").lower()[:200], count=1)
    return next((rules for pattern, rules in _RULES if re.match(pattern, name)), None)


@dataclass(frozen=True, slots=True)
class Mark:
    """A breakpoint set by other code, for so many seconds, after so many entries; 0 is the tools."""

    after: int
    ttl: float


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A place to mark: after how many entries of the view, how many tokens, for how many seconds."""

    place: Place
    after: int
    tokens: int
    ttl: float


@dataclass(frozen=True, slots=True)
class CachePlan:
    """Breakpoints in the order of the request, and a key for routing.

    With the marks others had set there are no more than the provider takes, none below the least
    prefix it caches, and no shorter ttl in front of a longer one.

    Attributes:
        breakpoints: where to mark.
        key: the same for all requests of one conversation; for ``prompt_cache_key``.
        entries: how many entries the view has; `lead` of them are the system prompt in front.
        limit: how many breakpoints the provider takes in one request.

    Examples:
        >>> view = [ConversationEntry(MessageRole.USER, "hi")]
        >>> plan = plan_cache(view, [5_000], prefix_entries=1, model="anthropic")
        >>> [(each.place, each.after) for each in plan.breakpoints]
        [('prefix', 1)]
    """

    breakpoints: tuple[Breakpoint, ...]
    key: str
    entries: int
    lead: int = 0
    limit: int = 0

    def without_marked(self, others: Sequence[Mark]) -> CachePlan:
        """Return the plan for a request that carries marks: the best places that are left."""
        ranked = sorted(
            self.breakpoints, key=lambda each: (each.after != self.entries, _RANK[each.place])
        )
        return replace(self, breakpoints=_choose(ranked, self.limit, others))


def plan_cache(
    entries: Sequence[ConversationEntry],
    sizes: Sequence[int],
    *,
    prefix_entries: int,
    model: str | CacheRules | None = None,
    tools_tokens: int = 0,
    others: Sequence[Mark] = (),
    ttl: float | None = None,
) -> CachePlan:
    """Return where breakpoints pay in a view, most worth first where not all are taken.

    These are the end of the view, the front that every request shares, the end of the previous
    request where the provider does not look back that far, the kept question that survives one,
    and the end of the surely repeated entries.

    Args:
        entries: the view.
        sizes: tokens of each entry.
        prefix_entries: how many leading entries the next request repeats.
        model: a model, a provider, or rules of your own; for any other name Anthropic's rules hold.
        tools_tokens: tokens of the tool schemas, which stand before everything else.
        others: breakpoints the request carries already.
        ttl: seconds to ask for, unless a longer mark of other code stands behind.
    """
    rules = model if isinstance(model, CacheRules) else find_cache_rules(model) or _ANTHROPIC
    totals = list(accumulate(sizes, initial=tools_tokens))
    candidates = [
        Breakpoint(place, after, totals[after], rules.ttl if ttl is None else ttl)
        for place, after in _find_places(entries, prefix_entries, rules)
        if totals[after] >= max(rules.minimum, 1)
    ]
    chosen = _choose(candidates, rules.breakpoints, others)
    lead = _count_lead(entries)
    return CachePlan(chosen, _name_conversation(entries), len(entries), lead, rules.breakpoints)


def plan_of(curation: Curation, **options: Any) -> CachePlan:
    """Return the plan of a new view; takes the options of `plan_cache`."""
    report = curation.report
    sizes = list(map(report.count_entry, curation.entries))
    options["tools_tokens"] = max(curation.tokens - sum(sizes), 0)
    return plan_cache(curation.entries, sizes, prefix_entries=report.prefix_entries, **options)


def _name_conversation(entries: Sequence[ConversationEntry]) -> str:
    """Return a key from system entries and the first question, which are in every view."""
    digest = hashlib.sha256()
    for entry in entries:
        if entry.role is MessageRole.SYSTEM or entry.is_real_user:
            digest.update(f"{entry.role}\0{entry.root.content or ''}\0".encode(errors="replace"))
        if entry.is_real_user:
            break
    return digest.hexdigest()[:32]


def _choose(
    candidates: Sequence[Breakpoint], limit: int, others: Sequence[Mark]
) -> tuple[Breakpoint, ...]:
    """Return the first candidates that fit beside the other marks, in the order of the request."""
    chosen: dict[int, Breakpoint] = {}
    marked = {mark.after for mark in others}
    for each in candidates:
        if len(chosen) + len(others) >= limit:
            break
        # A longer ttl has to stand before a shorter one.
        least = max((mark.ttl for mark in others if mark.after >= each.after), default=0.0)
        most = min((mark.ttl for mark in others if mark.after < each.after), default=float("inf"))
        if least <= most and each.after not in chosen and each.after not in marked:
            chosen[each.after] = replace(each, ttl=min(max(each.ttl, least), most))
    return tuple(chosen[after] for after in sorted(chosen))


def _find_places(
    entries: Sequence[ConversationEntry], prefix: int, rules: CacheRules
) -> list[tuple[Place, int]]:
    """Return the places worth marking, most worth first."""
    front, end = _count_lead(entries), len(entries)
    prefix = max(min(prefix, end), 0)
    places: list[tuple[Place, int]] = []
    if end > front:
        places.append(("prefix" if prefix == end else "end", end))
    places.append(("front", front))
    is_answer = [entry.role is MessageRole.ASSISTANT for entry in entries]
    last_request = end - 1 - is_answer[::-1].index(True) if True in is_answer else 0
    blocks = sum(map(_count_blocks, entries[last_request:]))
    if last_request > front and rules.lookback is not None and blocks >= rules.lookback:
        places.append(("last request", last_request))
    if front + 1 < end and entries[front].is_real_user:
        places.append(("heads", front + 1))
    if front < prefix < end:
        places.append(("prefix", prefix))
    return places


def _count_lead(entries: Sequence[ConversationEntry]) -> int:
    is_system = [entry.role is MessageRole.SYSTEM for entry in entries]
    return is_system.index(False) if False in is_system else len(entries)


def _count_blocks(entry: ConversationEntry) -> int:
    """Return how many content blocks a provider sees in an entry."""
    blocks = len(entry.parts) if entry.parts else int(bool(entry.content))
    return max(1, blocks + len(entry.tool_calls or ()) + len(entry.reasoning or ()))


def cache_control(ttl: float) -> dict[str, str]:
    """Return Anthropic's mark for a ttl: the five minutes it takes when none is named, or an hour.

    Examples:
        >>> cache_control(300), cache_control(3600)
        ({'type': 'ephemeral'}, {'type': 'ephemeral', 'ttl': '1h'})
    """
    return {"type": "ephemeral", "ttl": "1h"} if ttl >= _HOUR else {"type": "ephemeral"}


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

    A block that cannot carry a mark (thinking, empty text) passes it on to the one before it in
    the same message. Marks that are there already stay, and count.

    Args:
        messages: the view as it was written. A leading system message takes the mark of the front
            when ``system`` is not given.
        plan: the plan of that view.
        system: the system prompt, where it is sent apart; text or blocks.
        tools: the tools sent along.
    """

    def mark(blocks: Any, ttl: float) -> list[Any] | None:
        return _mark_last(blocks, "cache_control", cache_control(ttl))

    return _apply("cache_control", mark, messages, plan, system=system, tools=tools)


def apply_bedrock(
    messages: Sequence[Mapping[str, Any]],
    plan: CachePlan,
    *,
    system: Sequence[Any] | None = None,
    tools: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Return the parts of a Bedrock Converse request with ``cachePoint`` blocks set.

    ``tools`` are those of the ``toolConfig``. Points that are there already stay, and count.
    """

    def mark(blocks: Any, ttl: float) -> list[Any] | None:
        if not isinstance(blocks, (list, tuple)) or not blocks:
            return None
        if "reasoningContent" in blocks[-1] or "cachePoint" in blocks[-1]:
            return None
        point = {"type": "default", **({"ttl": "1h"} if ttl >= _HOUR else {})}
        return [*blocks, {"cachePoint": point}]

    return _apply("cachePoint", mark, messages, plan, system=system, tools=tools)


def apply_openai(messages: Sequence[Mapping[str, Any]], plan: CachePlan) -> dict[str, Any]:
    """Return ``messages`` with explicit breakpoints, and the ``prompt_cache_key``.

    For models without breakpoints only the key is set. Answers of the model carry no mark, so a
    breakpoint behind one goes to the message before it.
    """

    def mark(blocks: Any, _ttl: float) -> list[Any] | None:
        return _mark_last(blocks, "prompt_cache_breakpoint", {"mode": "explicit"})

    marked = _apply("prompt_cache_breakpoint", mark, messages, plan, unmarked_role="assistant")
    return {"messages": marked["messages"], "prompt_cache_key": plan.key}


def _apply(
    name: str,
    mark_blocks: Callable[[Any, float], list[Any] | None],
    messages: Sequence[Mapping[str, Any]],
    plan: CachePlan,
    *,
    system: Any = None,
    tools: Any = None,
    unmarked_role: str | None = None,
) -> dict[str, Any]:
    lead = plan.lead if system is not None else 0
    others = [Mark(0, ttl_of(control)) for control in _find_controls(tools, name)]
    others += [Mark(lead, ttl_of(control)) for control in _find_controls(system, name)]
    ends = _find_ends(messages) or [0] * len(messages)
    for message, end in zip(messages, ends, strict=True):
        controls = _find_controls(message.get("content"), name)
        others += [Mark(lead + end, ttl_of(control)) for control in controls]
    plan = plan.without_marked(others)

    def mark(message: Mapping[str, Any], point: Breakpoint) -> Mapping[str, Any] | None:
        if message.get("role") == unmarked_role or _find_controls(message.get("content"), name):
            return None
        blocks = mark_blocks(message.get("content"), point.ttl)
        return None if blocks is None else {**message, "content": blocks}

    marked = place_marks(messages, plan, mark, lead=lead)
    front = next((point for point in plan.breakpoints if point.place == "front"), None)
    if front is not None and system:
        system = mark_blocks(system, front.ttl) or system
    elif front is not None and front.after == 0 and tools:
        tools = mark_blocks(tools, front.ttl) or tools
    return {"messages": marked, "system": system, "tools": tools}


def place_marks(
    messages: Sequence[Message],
    plan: CachePlan,
    mark: Callable[[Message, Breakpoint], Message | None],
    *,
    lead: int = 0,
) -> list[Message]:
    """Return the messages with each breakpoint on the message that ends at it, or the one before.

    No message is marked when the messages are not the ones the view was written as.

    Args:
        messages: the view as it was written, in any format.
        plan: the plan of that view.
        mark: returns a marked copy of a message, or None when it cannot carry a mark.
        lead: how many leading entries of the view are not among the messages.
    """
    marked_messages = list(messages)
    ends = _find_ends(messages, plan.entries - lead)
    if ends is None:
        return marked_messages
    first_unmarked = 0
    for point in plan.breakpoints:
        for index in range(len(ends) - 1, first_unmarked - 1, -1):
            marked = None
            if ends[index] <= point.after - lead:
                marked = mark(marked_messages[index], point)
            if marked is not None:
                marked_messages[index], first_unmarked = marked, index + 1
                break
    return marked_messages


def _find_ends(messages: Sequence[Any], entries: int | None = None) -> list[int] | None:
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
    return list(accumulate(counts)) if entries is None or sum(counts) == entries else None


def _find_controls(blocks: Any, name: str) -> list[Any]:
    if not isinstance(blocks, (list, tuple)):
        return []
    return [block[name] for block in blocks if isinstance(block, Mapping) and block.get(name)]


def _mark_last(blocks: Any, name: str, value: Any) -> list[Any] | None:
    """Return blocks with the last one that can carry a mark marked; None when none can."""
    if isinstance(blocks, str):
        blocks = [blocks]
    if not isinstance(blocks, (list, tuple)):
        return None
    for index in range(len(blocks) - 1, -1, -1):
        block = blocks[index]
        if isinstance(block, str):
            block = {"type": "text", "text": block}
        if not isinstance(block, Mapping):
            continue
        is_blank = block.get("type") == "text" and not str(block.get("text") or "").strip()
        if not is_blank and block.get("type") not in _UNMARKABLE:
            return [*blocks[:index], {**block, name: value}, *blocks[index + 1 :]]
    return None
