"""Contents and costs of logged calls: prompts, prices, lost caches, and other policies."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import median
from typing import Any, Literal

from history_curator.doctor.logs import LoggedCall, Session
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError
from history_curator.lab import LabConversation, Policy, replay
from history_curator.lab.conversations import ReadConversation
from history_curator.lab.metrics import Dependency, cached_tokens, find_dependencies, rates_of
from history_curator.lab.policies import View, named_policy
from history_curator.lab.results import PolicyResult
from history_curator.tokens import TokenCounter, UsageAnchor

_MIN_RATIO, _MAX_RATIO = 0.7, 2.5
"""The provider's tokens over ours lie within these, whatever a log says."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Messages that left the context at ``call``, and what later calls still ``needed`` of them.

    These are identifiers that the summary does not name, and calls that were made again.
    """

    session: str
    call: int
    messages: int
    tokens: int
    needed: tuple[str, ...]


@dataclass(slots=True)
class Contents:
    """The contents of the prompts of one session, in the provider's tokens.

    Attributes:
        kinds, tools: tokens sent over all calls, by kind of content and by tool.
        idle_tools: of those, tokens of results that no later call used any more.
        errors: for each call but the first, the error of the predicted prompt, as a share of it.
        exceeded: calls whose prompt was above the stated bound.
        ratio: the provider's tokens over ours.
        hidden: tokens in every prompt that the log does not show.
        problem: why the messages could not be read, when they could not.
    """

    kinds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    idle_tools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    errors: list[float] = field(default_factory=list)
    exceeded: int = 0
    ratio: float = 1.0
    hidden: int = 0
    losses: list[Loss] = field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Window:
    """Calls between two summaries of the host; ``start`` and ``answers`` are indexes of entries."""

    start: int
    calls: Sequence[int]
    answers: Sequence[int]
    summary: str
    summary_tokens: int


def measure_contents(session: Session, counter: TokenCounter, ratios: dict[str, float]) -> Contents:
    """Return the contents of a session's prompts; ``ratios`` holds provider's over our tokens."""
    found = Contents()
    try:
        record = LabConversation(session.id, session.messages).read() if session.messages else None
    except ConversionError as error:
        record, found.problem = None, str(error)
    if record is None:
        found.kinds["not in the log"] = sum(call.usage.input for call in session.calls)
        return found
    sizes = [counter.count_entry(entry) for entry in record.entries]
    homes = Counter(record.homes)
    counts = (homes[position] for position in range(len(session.messages)))
    entry_at = list(accumulate(counts, initial=0))
    windows = list(_find_windows(session, entry_at, counter))
    answers = [entry_at[call.position] for call in session.calls]
    upto = list(accumulate(sizes, initial=0))
    counted = [0] * len(answers)
    for window in windows:
        for number in window.calls:
            counted[number] = upto[answers[number]] - upto[window.start] + window.summary_tokens
    _predict_prompts(session, counted, ratios, found)
    _find_ratio(session, counted, found)
    dependencies = find_dependencies(record)
    scaled = [size * found.ratio for size in sizes]
    _attribute_tokens(record, scaled, windows, dependencies, found)
    _add_unlogged(session, found)
    for previous, window in pairwise(windows):
        messages = entry_at.index(window.start) - entry_at.index(previous.start)
        tokens = round((upto[window.start] - upto[previous.start]) * found.ratio)
        needed = tuple(_needed_after(window, dependencies))
        found.losses.append(Loss(session.id, window.calls[0], messages, tokens, needed))
    return found


def _find_windows(
    session: Session, entry_at: Sequence[int], counter: TokenCounter
) -> Iterator[_Window]:
    starts = [(0, ""), *((each.position, each.text) for each in session.summaries)]
    ends = [*(position for position, _ in starts[1:]), len(session.messages) + 1]
    for (start, text), end in zip(starts, ends, strict=True):
        calls = [n for n, call in enumerate(session.calls) if start <= call.position < end]
        if calls:
            answers = [entry_at[session.calls[number].position] for number in calls]
            yield _Window(entry_at[start], calls, answers, text, counter.count(text))


def _needed_after(
    window: _Window, dependencies: Mapping[int, Sequence[Dependency]]
) -> dict[str, None]:
    return {
        _label(each): None
        for answer in window.answers
        for each in dependencies.get(answer, ())
        if each.sources[-1] < window.start
        and (each.kind == "repeat" or each.value not in window.summary)
    }


def _label(needed: Dependency) -> str:
    is_identifier = needed.kind == "identifier"
    return needed.value if is_identifier else f"the same {needed.value} call"


def _predict_prompts(
    session: Session, counted: Sequence[int], ratios: dict[str, float], found: Contents
) -> None:
    """Predict each prompt from the reports on the prompts before it."""
    anchor: UsageAnchor | None = None
    for call, count in zip(session.calls, counted, strict=True):
        reported = call.usage.input
        if not reported:
            continue
        if anchor is None:
            anchor = UsageAnchor(count, reported, ratios.get(call.model, 1.0))
        else:
            found.errors.append(abs(anchor.predict(count) - reported) / reported)
            found.exceeded += reported > anchor.upper_bound(count)
            anchor = anchor.after(count, reported)
        ratios[call.model] = anchor.ratio


def _find_ratio(session: Session, counted: Sequence[int], found: Contents) -> None:
    """Find the ratio of the provider's tokens to ours, and the tokens the log does not show."""
    inputs = [call.usage.input for call in session.calls]
    grown = reported = 0
    for number in range(1, len(inputs)):
        growth, real = counted[number] - counted[number - 1], inputs[number] - inputs[number - 1]
        if growth > 0 and _MIN_RATIO / 2 < real / growth < 2 * _MAX_RATIO:
            grown, reported = grown + growth, reported + real
    found.ratio = min(max(reported / grown, _MIN_RATIO), _MAX_RATIO) if grown else 1.0
    rest = [real - found.ratio * count for real, count in zip(inputs, counted, strict=True)]
    found.hidden = max(0, round(median(rest))) if rest else 0


def _attribute_tokens(
    record: ReadConversation,
    sizes: Sequence[float],
    windows: Sequence[_Window],
    dependencies: Mapping[int, Sequence[Dependency]],
    found: Contents,
) -> None:
    """Charge every entry for each call that carried it."""
    last_use: dict[int, int] = defaultdict(lambda: -1)
    for answer, needed in dependencies.items():
        for each in needed:
            last_use[each.sources[-1]] = max(last_use[each.sources[-1]], answer)
    names = {call.id: call.name for entry in record.entries for call in entry.tool_calls or ()}
    for window in windows:
        found.kinds["summaries"] += window.summary_tokens * len(window.answers) * found.ratio
        first = 0
        for index in range(window.start, window.answers[-1]):
            while window.answers[first] <= index:
                first += 1
            entry, later = record.entries[index], window.answers[first:]
            tokens = sizes[index] * len(later)
            if entry.role is MessageRole.TOOL:
                tool = entry.tool_name or names.get(entry.tool_call_id or "", "tool")
                found.kinds["tool results"] += tokens
                found.tools[tool] += tokens
                # The call right after a result reads it, whatever it uses.
                idle = sum(answer > last_use[index] for answer in later)
                found.idle_tools[tool] += sizes[index] * min(idle, len(later) - 1)
                continue
            calls = entry.tool_calls or ()
            found.kinds["tool calls" if calls else f"{entry.role.value} text"] += tokens
            for call in calls:
                found.tools[call.name] += tokens / len(calls)


def _add_unlogged(session: Session, found: Contents) -> None:
    """Charge the rest of the prompts to content that the log does not show."""
    total = sum(call.usage.input for call in session.calls)
    shown = sum(found.kinds.values())
    if shown <= total:
        found.kinds["not in the log"] = total - shown
        return
    for tokens in (found.kinds, found.tools, found.idle_tools):
        for key in tokens:
            tokens[key] *= total / shown


Reason = Literal["idle", "compaction", "prefix changed", "tools changed", "too small"]

_HOUR = 3600.0
_GRACE_SECONDS = 15.0
"""In real logs a prefix was still found for so long after its lifetime."""
_NOTICED = 0.02
"""A call lost the cache when more than this share of the held tokens, and the minimum, is gone."""


def cost_of(calls: Sequence[LoggedCall]) -> dict[str, Any]:
    """Return the cost of calls, kind by kind, with their ``total`` and ``unit``."""
    is_money = all(rates_of(call.model).has_list_price for call in calls)
    total = dict.fromkeys(("input", "cache_read", "cache_write", "output"), 0.0)
    for call in calls:
        usage, rates = call.usage, rates_of(call.model)
        scale = 1.0 if is_money else 1e-6 / rates.input
        long = usage.cache_write_1h
        written = (usage.cache_write - long) * rates.cache_write + long * rates.cache_write_1h
        total["input"] += usage.uncached * rates.input * scale
        total["cache_read"] += usage.cache_read * rates.cache_read * scale
        total["cache_write"] += written * scale
        total["output"] += usage.output * rates.output * is_money
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


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """The tokens a call should have read from the cache (None for the first), and a lost cache."""

    read: int | None
    bust: Bust | None = None


def simulate_cache(session: Session) -> list[SimulatedCall]:
    """Return what each call of a session should have read from the cache.

    See `cached_tokens`. A prompt that shrank reads the part in front, tools and system prompt: as
    much as was read the last time something was lost.
    """
    found: list[SimulatedCall] = []
    before: LoggedCall | None = None
    lifetime, front = 0.0, 0
    for number, call in enumerate(session.calls):
        usage = call.usage
        if before is None:
            found.append(SimulatedCall(None))
            front = usage.cache_read
        else:
            known = before.end is not None and call.start is not None
            idle = max(0.0, call.start - before.end) if known else 0.0  # type: ignore[operator]
            is_cold = idle >= lifetime + _GRACE_SECONDS
            if before.model != call.model or is_cold:
                read = 0
            else:
                read = cached_tokens(before.held, usage.input, None, None) or min(
                    front, usage.input
                )
            bust = _find_bust(session, number, before, is_cold=idle >= lifetime, front=front)
            found.append(SimulatedCall(read, bust))
            if bust and not is_cold and usage.cache_read:
                front = usage.cache_read
        if usage.cache_write_1h:
            lifetime = _HOUR
        elif usage.cache_write or not lifetime:
            lifetime = rates_of(call.model).sheet.ttl or float("inf")
        before = call
    return found


def _find_bust(
    session: Session, number: int, before: LoggedCall, *, is_cold: bool, front: int
) -> Bust | None:
    call = session.calls[number]
    usage, rates = call.usage, rates_of(call.model)
    minimum, write = rates.sheet.minimum, rates.cache_write
    if not (before.held or call.held):
        if not usage.input or usage.input >= minimum:
            return None
        cost = usage.input * (rates.input - rates.cache_read)
        return Bust(session.id, number, "too small", usage.input, cost)
    lost = min(before.held, usage.input) - usage.cache_read
    if lost <= max(_NOTICED * before.held, minimum):
        return None
    summarised = any(before.position < s.position <= call.position for s in session.summaries)
    reason: Reason = "prefix changed"
    if call.frame != before.frame:
        reason = "tools changed"
    elif summarised or usage.input < 0.8 * before.held:
        reason = "compaction"
    elif is_cold:
        reason = "idle"
    elif (
        call.model == before.model
        and not call.rewrote
        and usage.cache_read < (1 - _NOTICED) * front
    ):
        reason = "tools changed"
    if usage.cache_write_1h:
        write = rates.cache_write_1h
    return Bust(session.id, number, reason, lost, lost * (write - rates.cache_read))


AS_IT_WAS = "as it was"
Pairs = Sequence[tuple[Session, Contents]]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One policy on all sessions: its cost, and the share and number of what later calls missed."""

    policy: str
    budget: int | None
    cost: float
    missed: float
    lost: int
    note: str = ""


@dataclass(frozen=True)
class _AsItWas:
    """The host's own views: its last summary, and everything since."""

    sessions: Mapping[str, Session]
    max_tokens: int | None = None

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        starts: list[tuple[int, list[ConversationEntry]]] = [(0, [])]
        for summary in self.sessions[conversation.id].summaries:
            first = sum(home < summary.position for home in conversation.homes)
            note = ConversationEntry(MessageRole.USER, summary.text, origin="summary")
            starts.append((first, [note] if summary.text else []))

        def view(upto: int) -> list[ConversationEntry]:
            first, notes = [each for each in starts if each[0] <= upto][-1]
            return [*notes, *conversation.entries[first:upto]]

        return view


def what_if(
    sessions: Sequence[Session],
    contents: Sequence[Contents],
    *,
    budgets: Sequence[int],
    peers: Sequence[str],
    counter: Any,
    progress: bool,
    executor: Any = None,
) -> list[WhatIf]:
    """Return one row for each policy: as it was, the default at several budgets, and peers.

    The host's own views are replayed as well, and the reported cost of a session is multiplied by
    the cost of a policy's replay over theirs: errors that the replay makes for both cancel out.
    """
    pairs = [
        (session, inside)
        for session, inside in zip(sessions, contents, strict=True)
        if not inside.problem and any(m.get("role") == "assistant" for m in session.messages)
    ]
    if not pairs:
        return []
    talks = [
        LabConversation(
            session.id, session.messages, times=session.times, tools=session.tools,
            hidden=round(inside.hidden / inside.ratio),
        )
        for session, inside in pairs
    ]  # fmt: skip
    policies: dict[str, Policy] = {AS_IT_WAS: _AsItWas({s.id: s for s, _ in pairs})}
    rows: dict[str, tuple[str, int | None]] = {AS_IT_WAS: (AS_IT_WAS, None)}
    for budget in budgets:
        rows[f"curator {budget}"] = ("curator", budget)
        policies[f"curator {budget}"] = named_policy("curator", budget)
    for peer in peers if budgets else ():
        rows[peer] = (peer, min(budgets))
        policies[peer] = named_policy(peer, min(budgets))
    results = replay(
        talks, policies, provider=None, counter=counter, progress=progress, executor=executor
    )
    replayed = {name: _replayed_costs(pairs, results.tallies[name]) for name in rows}
    reported = [cost_of(session.calls)["total"] for session, _ in pairs]
    left_out = sum(cost_of(session.calls)["total"] for session in sessions) - sum(reported)
    found = []
    for name, (policy, given) in rows.items():
        result = results[name]
        triples = zip(reported, replayed[name], replayed[AS_IT_WAS], strict=True)
        cost = left_out + sum(paid * (now / was if was else 1.0) for paid, now, was in triples)
        lost = result.lost_identifiers + result.repeated_calls
        found.append(WhatIf(policy, given, cost, result.missed, lost, result.note))
    return found


def _replayed_costs(pairs: Pairs, tallies: Sequence[PolicyResult]) -> list[float]:
    """Return the cost of each session's replay, at the prices of the models that answered."""
    costs = []
    for (session, inside), tally in zip(pairs, tallies, strict=True):
        rates = [rates_of(call.model) for call in session.calls]
        name = rates[0].sheet.name
        long = sum(call.usage.cache_write_1h for call in session.calls)
        if 2 * long > sum(call.usage.cache_write for call in session.calls):
            name = f"{name}-1h" if f"{name}-1h" in tally.costs else name
        price = 1e6 * sum(rate.input for rate in rates) / len(rates)
        answers = (
            c.usage.output * rate.output for c, rate in zip(session.calls, rates, strict=True)
        )
        costs.append(tally.costs.get(name, 0.0) * inside.ratio * price + sum(answers))
    return costs
