"""Contents and costs of logged calls: prompts, prices, lost caches, and other policies."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any, Literal

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError
from history_curator.lab import LabConversation, Policy, replay
from history_curator.lab.conversations import LoggedCall
from history_curator.lab.policies import View, named_policy
from history_curator.lab.prices import PriceSheet, cached_tokens, find_list_prices
from history_curator.tokens import TokenCounter

_MIN_RATIO, _MAX_RATIO = 0.7, 2.5
"""The provider's tokens over ours lie within these, whatever a log says."""


@dataclass(slots=True)
class Contents:
    """The contents of the prompts of one session, in the provider's tokens.

    Attributes:
        kinds, tools: tokens sent over all calls, by kind of content and by tool.
        idle_tools: of those, tokens of results that no later call used any more.
        ratio: the provider's tokens over ours.
        hidden: tokens in every prompt that the log does not show.
    """

    kinds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    idle_tools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    ratio: float = 1.0
    hidden: int = 0
    problem: str = ""


def find_prompt_start(session: LabConversation, position: int) -> tuple[int, str]:
    """Return the first entry that the host sent before a message, and the summary in front of it."""
    before = [(0, ""), *(each for each in session.summaries if each[0] <= position)]
    start, summary = before[-1]
    return bisect_left(session.homes, start), summary


def measure_contents(session: LabConversation, counter: TokenCounter) -> Contents:
    """Return the contents of a session's prompts: every entry counts for each call that sent it."""
    found, inputs = Contents(), [call.usage.input for call in session.requests]
    try:
        sizes = [counter.count_entry(entry) for entry in session.entries]
    except ConversionError as error:
        sizes, found.problem = [], str(error)
    if not sizes:
        found.kinds["not in the log"] = sum(inputs)
        return found
    prompts: list[range] = []  # the entries that each call sent
    counted: list[int] = []
    for call in session.requests:
        start, summary = find_prompt_start(session, call.position)
        prompts.append(range(start, bisect_left(session.homes, call.position)))
        found.kinds["summaries"] += counter.count(summary)
        counted.append(sum(sizes[index] for index in prompts[-1]) + counter.count(summary))
    _find_ratio(inputs, counted, found)
    _attribute_tokens(session, sizes, prompts, found)
    shown = sum(found.kinds.values()) * found.ratio
    # We may count more than they do.
    scale = found.ratio * min(1.0, sum(inputs) / shown if shown else 1.0)
    for tokens in (found.kinds, found.tools, found.idle_tools):
        tokens.update({key: n * scale for key, n in tokens.items()})
    found.kinds["not in the log"] = max(0.0, sum(inputs) - shown)
    return found


def _find_ratio(inputs: Sequence[int], counted: Sequence[int], found: Contents) -> None:
    """Find the ratio of the provider's tokens to ours, and the tokens the log does not show."""
    grown = reported = 0
    for before, after in pairwise(zip(counted, inputs, strict=True)):
        growth, real = after[0] - before[0], after[1] - before[1]
        if growth > 0 and _MIN_RATIO / 2 < real / growth < 2 * _MAX_RATIO:
            grown, reported = grown + growth, reported + real
    found.ratio = min(max(reported / grown, _MIN_RATIO), _MAX_RATIO) if grown else 1.0
    rest = [real - found.ratio * count for real, count in zip(inputs, counted, strict=True)]
    found.hidden = max(0, round(median(rest))) if rest else 0


def _attribute_tokens(
    session: LabConversation, sizes: Sequence[int], prompts: Sequence[range], found: Contents
) -> None:
    """Add up what each kind of content and each tool took of the prompts."""
    uses = (
        (each.sources[-1], call) for call, some in session.dependencies.items() for each in some
    )
    last_use = dict(uses)  # calls are in order
    names = {call.id: call.name for entry in session.entries for call in entry.tool_calls or ()}
    for index, (entry, size) in enumerate(zip(session.entries, sizes, strict=True)):
        sent, calls = [prompt for prompt in prompts if index in prompt], entry.tool_calls or ()
        if not sent:
            continue
        kind = "tool calls" if calls else f"{entry.role.value} text"
        for call in calls:
            found.tools[call.name] += size * len(sent) / len(calls)
        if entry.role is MessageRole.TOOL:
            kind, tool = (
                "tool results",
                entry.tool_name or names.get(entry.tool_call_id or "", "tool"),
            )
            found.tools[tool] += size * len(sent)
            # The call right after a result reads it, whatever it uses.
            idle = sum(prompt.stop > last_use.get(index, -1) for prompt in sent[1:])
            found.idle_tools[tool] += size * idle
        found.kinds[kind] += size * len(sent)


Reason = Literal["idle", "compaction", "prefix changed", "tools changed", "too small"]

_HOUR, _HOUR_FACTOR = 3600.0, 2.0
"""The longer lifetime of a prefix, and the factor on the price of what is written for it."""
_GRACE_SECONDS = 15.0
"""In real logs a prefix was still found for so long after its lifetime."""
_NOTICED = 0.02
"""A call lost the cache when more than this share of the held tokens, and the minimum, is gone."""


def cost_of(calls: Sequence[LoggedCall]) -> dict[str, Any]:
    """Return the cost of calls, kind by kind, with their ``total`` and ``unit``."""
    is_money = all(find_list_prices(call.model).is_listed for call in calls)
    total = dict.fromkeys(("input", "cache_read", "cache_write", "output"), 0.0)
    for call in calls:
        usage, sheet = call.usage, find_list_prices(call.model)
        price = sheet.input_per_million / 1e6 if is_money else 1e-6
        long = usage.cache_write_1h
        written = (usage.cache_write - long) * sheet.write + long * _HOUR_FACTOR
        total["input"] += usage.uncached * price
        total["cache_read"] += usage.cache_read * sheet.read * price
        total["cache_write"] += written * price
        total["output"] += usage.output * sheet.output * price * is_money
    unit = "USD" if is_money else "million tokens at the plain input price, without answers"
    return {**total, "total": sum(total.values()), "unit": unit}


@dataclass(frozen=True, slots=True)
class Bust:
    """A call (numbered from 0) that paid ``cost`` again for tokens the cache had held."""

    session: str
    call: int
    reason: Reason
    tokens: int
    cost: float


def simulate_cache(session: LabConversation) -> tuple[int, list[Bust]]:
    """Return the tokens a session should have read from the cache, and the calls that lost it.

    See `cached_tokens`. A prompt that shrank reads the part in front, tools and system prompt: as
    much as was read the last time something was lost.
    """
    if not session.requests:
        return 0, []
    front = read = session.requests[0].usage.cache_read
    busts: list[Bust] = []
    lifetime = 0.0
    for number, (before, call) in enumerate(pairwise(session.requests), 1):
        if before.usage.cache_write_1h:
            lifetime = _HOUR
        elif before.usage.cache_write or not lifetime:
            lifetime = find_list_prices(before.model).ttl or float("inf")
        usage, end = call.usage, call.start if before.end is None else before.end
        idle = max(0.0, (call.start or 0.0) - (end or 0.0))
        is_cold = idle >= lifetime + _GRACE_SECONDS
        if before.model == call.model and not is_cold:
            warm = cached_tokens(before.held, usage.input, None, None)
            read += warm or min(front, usage.input)
        if bust := _find_bust(session, number, is_cold=idle >= lifetime, front=front):
            busts.append(bust)
            front = usage.cache_read if usage.cache_read and not is_cold else front
    return read, busts


def _find_bust(session: LabConversation, number: int, *, is_cold: bool, front: int) -> Bust | None:
    before, call = session.requests[number - 1], session.requests[number]
    usage, sheet = call.usage, find_list_prices(call.model)
    price = sheet.input_per_million / 1e6
    if not (before.held or call.held):
        if not usage.input or usage.input >= sheet.minimum:
            return None
        cost = usage.input * (1 - sheet.read) * price
        return Bust(session.id, number, "too small", usage.input, cost)
    lost = min(before.held, usage.input) - usage.cache_read
    if lost <= max(_NOTICED * before.held, sheet.minimum):
        return None
    positions = (position for position, _ in session.summaries)
    summarised = any(before.position < each <= call.position for each in positions)
    reason: Reason = "prefix changed"
    if call.frame != before.frame:
        reason = "tools changed"
    elif summarised or usage.input < 0.8 * before.held:
        reason = "compaction"
    elif is_cold:
        reason = "idle"
    elif call.model == before.model and not call.frame and usage.cache_read < 0.98 * front:
        reason = "tools changed"
    write = _HOUR_FACTOR if usage.cache_write_1h else sheet.write
    return Bust(session.id, number, reason, lost, lost * (write - sheet.read) * price)


AS_IT_WAS = "as it was"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One policy on all sessions: its cost, and the share and number of what later calls missed.

    One that needs a package which is absent is `skipped`.
    """

    policy: str
    budget: int | None
    cost: float
    missed: float
    lost: int
    note: str = ""
    skipped: bool = False


def _send_as_it_was(conversation: LabConversation, _counter: TokenCounter) -> View:
    """The host's own views: its last summary, and everything since."""

    def view(upto: int) -> list[ConversationEntry]:
        position = [*conversation.homes, len(conversation.messages)][upto]
        first, text = find_prompt_start(conversation, position)
        note = ConversationEntry(MessageRole.USER, text, origin="summary")
        return [*([note] if text else []), *conversation.entries[first:upto]]

    return view


def what_if(
    sessions: Sequence[LabConversation],
    contents: Sequence[Contents],
    *,
    budgets: Sequence[int],
    peers: Sequence[str],
    **options: Any,
) -> list[WhatIf]:
    """Return one row for each policy: as it was, the default at several budgets, and peers.

    The host's own views are replayed as well. What a session paid for its prompts is multiplied by
    the cost of a policy's replay over theirs: errors that the replay makes for both cancel out.
    """
    talks = [
        replace(session, hidden=round(inside.hidden / inside.ratio), prices=_prices_of(session))
        for session, inside in zip(sessions, contents, strict=True)
        if not inside.problem and session.calls
    ]
    if not talks:
        return []
    chosen: list[tuple[str, int | None]] = [("curator", budget) for budget in budgets]
    chosen += [(peer, min(budgets)) for peer in peers]
    policies = {AS_IT_WAS: Policy(_send_as_it_was)}
    policies |= {f"{name} {budget}": named_policy(name, budget) for name, budget in chosen}
    results = replay(talks, policies, provider=None, **options)
    total = sum(cost_of(session.requests)["total"] for session in sessions)
    costs = [cost_of(talk.requests) for talk in talks]
    prompts = [cost["total"] - cost["output"] for cost in costs]
    found = []
    for (name, budget), result in zip(
        [(AS_IT_WAS, None), *chosen], results.policies.values(), strict=True
    ):
        replays = zip(
            prompts, results.tallies[result.name], results.tallies[AS_IT_WAS], strict=True
        )
        saved = sum(paid * (1 - now.cost / was.cost) for paid, now, was in replays if was.cost)
        numbers = total - saved, result.missed, result.lost
        found.append(WhatIf(name, budget, *numbers, result.note, not result.measured))
    return found


def _prices_of(session: LabConversation) -> PriceSheet:
    """Return the prices of a session, with the longer lifetime where it wrote most tokens for it."""
    sheet = find_list_prices(session.requests[0].model)
    usage = [call.usage for call in session.requests]
    is_long = 2 * sum(u.cache_write_1h for u in usage) > sum(u.cache_write for u in usage)
    return replace(sheet, write=_HOUR_FACTOR, ttl=_HOUR) if is_long else sheet
