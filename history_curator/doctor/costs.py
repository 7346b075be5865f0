"""One session as the doctor sees it: prompts, costs, lost caches, other policies, and their sums."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from statistics import median
from typing import Any

from history_curator.cache_loss import (
    COMPACTION,
    IDLE,
    NOTICED,
    PREFIX_CHANGED,
    TOO_SMALL,
    TOOLS_CHANGED,
)
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError
from history_curator.lab import LabConversation, PolicyResult
from history_curator.lab.conversations import LoggedCall
from history_curator.lab.policies import View
from history_curator.lab.prices import PriceSheet, cached_tokens, find_list_prices
from history_curator.lab.run_replay import Measurement, ReplayedCall, add_up
from history_curator.tokens import TokenCounter

AS_IT_WAS = "as it was"
USD, TOKENS = "USD", "million tokens at the plain input price, without answers"
_MIN_RATIO, _MAX_RATIO = 0.7, 2.5
"""The provider's tokens over ours lie within these, whatever a log says."""


@dataclass(frozen=True, slots=True)
class Bust:
    """A call (numbered from 0) that paid ``cost`` again for tokens the cache had held."""

    session: str
    call: int
    reason: str
    tokens: int
    cost: float


@dataclass(frozen=True, slots=True)
class CostlyCall:
    """A call (numbered from 0) among the most expensive ones for its reason, such as a tool's result.

    Under the reason ``missed`` the amount is the number of things the call missed, not a cost.
    """

    session: str
    call: int
    reason: str
    amount: float
    detail: str


MISSED = "missed"
MOST_BUSTS, _MOST_OF_A_REASON = 1_000, 3


@dataclass(slots=True)
class Tally:
    """The findings in one session, or in several that were added up.

    Attributes:
        unlisted: calls of models without a list price.
        busts, costly_calls: the most expensive only, so that memory does not grow with the logs.
        lost_calls, lost_tokens, lost_cost: those of all lost caches, by reason.
        spent: the cost of all calls, by unit and reason.
        rows: a row for each session; whoever adds sessions up writes them elsewhere.
        costs: by unit and kind of usage.
        kinds, tools: tokens sent over all calls, by kind of content and by tool.
        idle_tools: of those, tokens of results that no later call used any more.
        replays, saved: for each policy its replay, and what it would have saved in each unit.
    """

    sessions: int = 0
    side_sessions: int = 0
    calls: int = 0
    unlisted: int = 0
    simulated_read: int = 0
    busts: list[Bust] = field(default_factory=list)
    costly_calls: list[CostlyCall] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    models: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    kinds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    idle_tools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    costs: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    saved: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    spent: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    lost_calls: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    lost_tokens: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    lost_cost: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    replays: dict[str, PolicyResult] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add the findings in other sessions."""
        for each in fields(self)[:-1]:
            own, more = getattr(self, each.name), getattr(other, each.name)
            if isinstance(own, dict):
                own.update({key: own[key] + n for key, n in more.items()})
            elif isinstance(own, list):
                own.extend(more)
            else:
                setattr(self, each.name, own + more)
        for name, result in other.replays.items():
            self.replays.setdefault(name, PolicyResult(name)).add(result)
        self._drop_cheap()

    def _drop_cheap(self) -> None:
        """Keep the most expensive of the lost caches, and of the calls for each reason."""
        if len(self.busts) > 2 * MOST_BUSTS:
            self.busts = sorted(self.busts, key=lambda bust: -bust.cost)[:MOST_BUSTS]
        found, self.costly_calls = sorted(self.costly_calls, key=lambda call: -call.amount), []
        known = Counter[str]()
        for call in found:
            if known[call.reason] < _MOST_OF_A_REASON:
                self.costly_calls.append(call)
            known[call.reason] += 1


def examine_session(session: LabConversation, measurement: Measurement) -> Tally:
    """Return the findings in one session; without policies nothing is replayed."""
    found = Tally(sessions=1, side_sessions=int(session.is_side), calls=len(session.requests))
    costs = [_add_call(call, found) for call in session.requests]
    found.simulated_read, found.busts = simulate_cache(session)
    for bust in found.busts:
        found.lost_calls[bust.reason] += 1
        found.lost_tokens[bust.reason] += bust.tokens
        found.lost_cost[bust.reason] += bust.cost
    sizes = _measure_contents(session, measurement.counter, found)
    _add_reasons(session, sizes, costs, found)
    if measurement.policies and not found.problems and session.calls:
        session.prices = _prices_of(session)
        _replay(session, measurement, found)
    found.rows.append(_make_row(session, found))
    found._drop_cheap()
    return found


def _make_row(session: LabConversation, found: Tally) -> dict[str, Any]:
    """Return what a table of sessions holds about one; missed is what the host's own views missed."""
    was = found.replays.get(AS_IT_WAS, PolicyResult(AS_IT_WAS))
    return {
        "session": session.id,
        "start": session.requests[0].start,
        "model": session.requests[0].model,
        "calls": found.calls,
        **{kind: round(tokens) for kind, tokens in found.usage.items()},
        "cost": sum(cost for (unit, _), cost in found.costs.items() if unit == USD),
        "is_listed": not found.unlisted,
        "lost_caches": len(found.busts),
        "lost_cost": sum(bust.cost for bust in found.busts),
        "needed": was.needed,
        "missed": was.lost,
    }


def _add_call(call: LoggedCall, found: Tally) -> Mapping[str, float]:
    """Add the usage of a call, and return its cost in USD and in tokens."""
    cost = {USD: 0.0, TOKENS: 0.0}
    usage, sheet, long = call.usage, find_list_prices(call.model), call.usage.cache_write_1h
    found.models[call.model or "unknown"] += 1
    found.unlisted += not sheet.is_listed
    for kind, tokens, factor in (
        ("input", usage.uncached, 1.0),
        ("cache_read", usage.cache_read, sheet.read),
        ("cache_write", usage.cache_write - long, sheet.write),
        ("cache_write", long, _HOUR_FACTOR),
        ("output", usage.output, sheet.output),
    ):
        found.usage[kind] += tokens
        plain = tokens * factor / 1e6
        for unit, spent in (
            (USD, plain * sheet.input_per_million),
            (TOKENS, plain if kind != "output" else 0.0),
        ):
            found.costs[unit, kind] += spent
            cost[unit] += spent
    return cost


def _add_reasons(
    session: LabConversation,
    sizes: Sequence[int],
    costs: Sequence[Mapping[str, float]],
    found: Tally,
) -> None:
    """Add the cost of each call under its reason: a lost cache, or the largest of its new messages."""
    lost = {bust.call: f"cache lost: {bust.reason}" for bust in found.busts}
    names = name_calls(session) if sizes else {}
    start = 0
    for number, (call, cost) in enumerate(zip(session.requests, costs, strict=True)):
        reason = lost.get(number, "" if number else "start of a session")
        end = bisect_left(session.homes, call.position) if sizes else 0
        newest = max(range(start, end), key=sizes.__getitem__, default=None)
        if not reason:
            reason = "nothing new" if newest is None else kind_of(session.entries[newest], names)
        for unit, spent in cost.items():
            found.spent[unit, reason] += spent
        detail = f"{call.usage.input:,} tokens, {call.usage.cache_read:,} of them from the cache"
        found.costly_calls.append(CostlyCall(session.id, number, reason, cost[USD], detail))
        start = max(start, end)


def name_calls(session: LabConversation) -> dict[str, str]:
    """Return the tool of each call, by the call's id."""
    return {call.id: call.name for entry in session.entries for call in entry.tool_calls or ()}


def kind_of(entry: ConversationEntry, names: Mapping[str, str]) -> str:
    """Return what an entry is, with the tool of a result or of calls."""
    if entry.role is MessageRole.TOOL:
        return f"result of {entry.tool_name or names.get(entry.tool_call_id or '', 'tool')}"
    calls = entry.tool_calls
    return f"call of {calls[0].name}" if calls else f"{entry.role.value} text"


def _replay(session: LabConversation, measurement: Measurement, found: Tally) -> None:
    """Add the replay of a session under each policy, the first of which is what the host did.

    What the session paid for its prompts is multiplied by the cost of a policy's replay over that of
    the host's own views: errors that the replay makes for both cancel out.
    """
    others = {name: each for name, each in measurement.policies.items() if name != AS_IT_WAS}
    calls = measurement.replay_calls(AS_IT_WAS, session, session.calls)
    own = add_up(AS_IT_WAS, session, _note_missed(session, calls, found))
    results = [own, *replace(measurement, policies=others).run(session)]
    was = own.cost
    for result in results:
        found.replays[result.name] = result
        for (unit, kind), paid in found.costs.items():
            if was and kind != "output":
                found.saved[unit, result.name] += paid * (1 - result.cost / was)


def _note_missed(
    session: LabConversation, calls: Iterator[ReplayedCall], found: Tally
) -> Iterator[ReplayedCall]:
    """Note which calls missed something, and pass them on."""
    positions = [call.position for call in session.requests]
    for index, call in zip(session.calls, calls, strict=True):
        if call.lost:
            number = max(0, bisect_right(positions, session.homes[index]) - 1)
            detail = f"missed {len(call.lost):,}, such as {call.lost[0].value[:60]}"
            missed = CostlyCall(session.id, number, MISSED, len(call.lost), detail)
            found.costly_calls.append(missed)
        yield call


def find_prompt_start(session: LabConversation, position: int) -> tuple[int, str]:
    """Return the first entry that the host sent before a message, and the summary in front of it."""
    before = [(0, ""), *(each for each in session.summaries if each[0] <= position)]
    start, summary = before[-1]
    return bisect_left(session.homes, start), summary


def send_as_it_was(conversation: LabConversation, _counter: TokenCounter) -> View:
    """Return the host's own views: its last summary, and everything since."""

    def view(upto: int) -> list[ConversationEntry]:
        position = [*conversation.homes, len(conversation.messages)][upto]
        first, text = find_prompt_start(conversation, position)
        note = ConversationEntry(MessageRole.USER, text, origin="summary")
        return [*([note] if text else []), *conversation.entries[first:upto]]

    return view


def _measure_contents(
    session: LabConversation, counter: TokenCounter, found: Tally
) -> Sequence[int]:
    """Add the contents of a session's prompts, and return the size of each entry.

    Every entry counts for each call that sent it.

    They are in the provider's tokens. What the log does not show of every prompt becomes ``hidden``.
    """
    inputs = [call.usage.input for call in session.requests]
    try:
        sizes = [counter.count_entry(entry) for entry in session.entries]
    except ConversionError as error:
        found.problems.append(f"{error} Its messages are left out.")
        sizes = []
    if not sizes:
        found.kinds["not in the log"] += sum(inputs)
        return sizes
    prompts: list[range] = []  # the entries that each call sent
    counted: list[int] = []
    for call in session.requests:
        start, summary = find_prompt_start(session, call.position)
        prompts.append(range(start, bisect_left(session.homes, call.position)))
        found.kinds["summaries"] += counter.count(summary)
        counted.append(sum(sizes[index] for index in prompts[-1]) + counter.count(summary))
    ratio = _find_ratio(inputs, counted)
    rest = (real - ratio * count for real, count in zip(inputs, counted, strict=True))
    session.hidden = round(max(0, round(median(rest))) / ratio)
    _attribute_tokens(session, sizes, prompts, found)
    shown = sum(found.kinds.values()) * ratio
    # We may count more than they do.
    scale = ratio * min(1.0, sum(inputs) / shown if shown else 1.0)
    for tokens in (found.kinds, found.tools, found.idle_tools):
        tokens.update({key: n * scale for key, n in tokens.items()})
    found.kinds["not in the log"] += max(0.0, sum(inputs) - shown)
    return sizes


def _find_ratio(inputs: Sequence[int], counted: Sequence[int]) -> float:
    """Return the provider's tokens over ours, by the growth from prompt to prompt."""
    grown = reported = 0
    for before, after in pairwise(zip(counted, inputs, strict=True)):
        growth, real = after[0] - before[0], after[1] - before[1]
        if growth > 0 and _MIN_RATIO / 2 < real / growth < 2 * _MAX_RATIO:
            grown, reported = grown + growth, reported + real
    return min(max(reported / grown, _MIN_RATIO), _MAX_RATIO) if grown else 1.0


def _attribute_tokens(
    session: LabConversation, sizes: Sequence[int], prompts: Sequence[range], found: Tally
) -> None:
    """Add up what each kind of content and each tool took of the prompts."""
    needs = (each for some in session.dependencies.values() for each in some)
    last_use = {each.sources[-1]: each.call for each in needs}  # calls are in order
    names = name_calls(session)
    for index, (entry, size) in enumerate(zip(session.entries, sizes, strict=True)):
        sent, calls = [prompt for prompt in prompts if index in prompt], entry.tool_calls or ()
        if not sent:
            continue
        kind = "tool calls" if calls else f"{entry.role.value} text"
        for call in calls:
            found.tools[call.name] += size * len(sent) / len(calls)
        if entry.role is MessageRole.TOOL:
            kind = "tool results"
            tool = entry.tool_name or names.get(entry.tool_call_id or "", "tool")
            found.tools[tool] += size * len(sent)
            # The call right after a result reads it, whatever it uses.
            idle = sum(prompt.stop > last_use.get(index, -1) for prompt in sent[1:])
            found.idle_tools[tool] += size * idle
        found.kinds[kind] += size * len(sent)


_HOUR, _HOUR_FACTOR = 3600.0, 2.0
"""The longer lifetime of a prefix, and the factor on the price of what is written for it."""
_GRACE_SECONDS = 15.0
"""In real logs a prefix was still found for so long after its lifetime."""


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
        return Bust(session.id, number, TOO_SMALL, usage.input, cost)
    lost = min(before.held, usage.input) - usage.cache_read
    if lost <= max(NOTICED * before.held, sheet.minimum):
        return None
    positions = (position for position, _ in session.summaries)
    summarised = any(before.position < each <= call.position for each in positions)
    reason = PREFIX_CHANGED
    if call.frame != before.frame:
        reason = TOOLS_CHANGED
    elif summarised or usage.input < 0.8 * before.held:
        reason = COMPACTION
    elif is_cold:
        reason = IDLE
    elif call.model == before.model and not call.frame and usage.cache_read < 0.98 * front:
        reason = TOOLS_CHANGED
    write = _HOUR_FACTOR if usage.cache_write_1h else sheet.write
    return Bust(session.id, number, reason, lost, lost * (write - sheet.read) * price)


def _prices_of(session: LabConversation) -> PriceSheet:
    """Return the prices of a session, with the longer lifetime where it wrote most tokens for it."""
    sheet = find_list_prices(session.requests[0].model)
    usage = [call.usage for call in session.requests]
    is_long = 2 * sum(u.cache_write_1h for u in usage) > sum(u.cache_write for u in usage)
    return replace(sheet, write=_HOUR_FACTOR, ttl=_HOUR) if is_long else sheet
