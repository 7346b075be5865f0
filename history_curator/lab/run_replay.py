"""Replay recorded conversations call by call under several policies, and the page of a session.

No request is sent.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from history_curator.entries import ConversationEntry, write_private
from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.lab.conversations import LabConversation
from history_curator.lab.files import as_conversations
from history_curator.lab.metrics import (
    Dependency,
    PriceSheet,
    count_visible_edits,
    find_dependencies,
    find_edits,
    get_prices,
    missing_dependencies,
    price_sheets,
    shown_entries,
)
from history_curator.lab.policies import Policy, as_policies
from history_curator.lab.results import PolicyResult, ReplayResults, show_progress
from history_curator.report_page import as_frame, render_session
from history_curator.rules import Violation, get_profile
from history_curator.tokens import TokenCounter, get_counter


@dataclass(frozen=True, slots=True)
class ReplayedCall:
    """One call under a policy: the view of the call ``before`` and the one ``sent``.

    ``repeated`` entries at its beginning, with ``cached`` of its ``tokens``, repeat the view before.
    The answer (the entry at ``index``) ``needed`` earlier messages; what of that is not in view is
    ``lost``. ``failure`` is the error that the policy raised instead of giving a view.
    """

    index: int
    before: Sequence[ConversationEntry]
    sent: Sequence[ConversationEntry] = ()
    repeated: int = 0
    tokens: int = 0
    cached: int = 0
    idle: float | None = None
    seconds: float = 0.0
    is_over: bool = False
    violations: Sequence[Violation] = ()
    needed: Sequence[Dependency] = ()
    lost: Sequence[Dependency] = ()
    failure: Exception | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measures of every conversation; they travel to the workers."""

    policies: Mapping[str, Policy]
    counter: TokenCounter
    provider: str | None = "core"
    prices: tuple[PriceSheet, ...] = ()
    pricing: str = "none"

    def run(self, conversation: LabConversation) -> list[PolicyResult]:
        """Return one tally for each policy."""
        for entry in conversation.entries:  # so that the time of no policy includes first counts
            self.counter.count_entry(entry)
        dependencies = find_dependencies(conversation)
        tallies = []
        for name, policy in self.policies.items():
            calls = self.replay_calls(conversation, policy, conversation.calls, dependencies)
            tallies.append(self.add_up(name, conversation, policy, calls))
        return tallies

    def replay_calls(
        self,
        record: LabConversation,
        policy: Policy,
        calls: Iterable[int],
        dependencies: Mapping[int, Sequence[Dependency]],
    ) -> Iterator[ReplayedCall]:
        """Make these calls again under a policy, one after the other; no request is sent."""
        counter, profile = self.counter, get_profile(self.provider) if self.provider else None
        view, max_tokens = policy.start(record, counter), policy.max_tokens
        overhead = counter.priming + record.hidden
        overhead += counter.count_tools(record.tools) if record.tools else 0
        before: Sequence[ConversationEntry] | None = None
        previous_call = 0
        for index in calls:
            idle = record.idle_seconds(previous_call, index) if previous_call else None
            previous_call, started, needed = index, perf_counter(), dependencies.get(index, ())
            try:
                sent = view(index)
            except (HistoryCuratorError, ValueError) as error:
                yield ReplayedCall(index, before or (), needed=needed, lost=needed, failure=error)
                before = None
                continue
            seconds = perf_counter() - started
            sizes = [counter.count_entry(entry) for entry in sent]
            repeated, tokens = _count_repeated(before or (), sent), sum(sizes) + overhead
            cached = sum(sizes[:repeated]) + (0 if before is None else overhead - counter.priming)
            yield ReplayedCall(
                index, before or (), sent, repeated, tokens, cached, idle, seconds,
                is_over=max_tokens is not None and tokens - record.hidden > max_tokens,
                violations=profile.find(list(sent)) if profile else (),
                needed=needed, lost=missing_dependencies(needed, sent, record),
            )  # fmt: skip
            before = sent

    def add_up(
        self, name: str, record: LabConversation, policy: Policy, calls: Iterable[ReplayedCall]
    ) -> PolicyResult:
        """Return the sums over the calls of a policy."""
        edits = find_edits(record)
        tally = PolicyResult(name, record.id, policy.max_tokens, self.pricing)
        tally.calls = len(record.calls)
        try:
            for call in calls:
                replaced = edits.get(call.index, ())
                tally.needed += len(call.needed)
                tally.lost += len(call.lost)
                tally.edits += len(replaced)
                tally.edits_seen += count_visible_edits(replaced, call.sent, record)
                if call.failure is not None:
                    tally.failed += 1
                    tally.note = f"{type(call.failure).__name__}: {call.failure}"[:200]
                    continue
                tally.views += 1
                tally.seconds += call.seconds
                tally.tokens_sent += call.tokens
                tally.peak = max(tally.peak, call.tokens)
                tally.cached += call.cached
                for sheet in self.prices:
                    cost = sheet.cost(call.tokens, call.cached, call.idle)
                    tally.costs[sheet.name] = tally.costs.get(sheet.name, 0.0) + cost
                tally.over_budget += call.is_over
                tally.invalid += bool(call.violations)
        except ImportError as error:  # a policy that needs a package
            tally.note = str(error)
        return tally


def _count_repeated(before: Sequence[ConversationEntry], sent: Sequence[ConversationEntry]) -> int:
    pairs = enumerate(zip(before, sent, strict=False))
    changed = (index for index, (old, new) in pairs if old is not new and old != new)
    return next(changed, min(len(before), len(sent)))


def replay(
    conversations: Any,
    policies: Mapping[str, Any] | Sequence[str],
    *,
    pricing: str | PriceSheet = "anthropic",
    provider: str | None = "core",
    max_tokens: int | None = None,
    counter: Any = "o200k_base",
    executor: Executor | Literal["serial"] | None = None,
    progress: bool = True,
) -> ReplayResults:
    """Re-run every recorded call under every policy and measure what would have been sent.

    Every policy sees the same record before each call and is measured by the same counter, rules
    and prices.

    Args:
        conversations: a file, folder or pattern (see `load_conversations`), lists of messages,
            mappings with ``messages`` (and ``id``, ``tools``, ``times``), or `LabConversation`.
        policies: by name, a `Curator`, a function that builds one, a `Policy`, or one of
            `policy_names`; a list of known names does as well.
        pricing: price sheet for the ``cost`` column.
        provider: profile whose rules decide which requests are invalid; None looks at no rules.
        max_tokens: budget for policies given by name.
        counter: encoding, model name or counter for every number.
        executor: any ``concurrent.futures`` executor, also that of a cluster; by default one
            process per core, and ``"serial"`` for policies that cannot be pickled.
        progress: show a bar, where rich is installed.

    Examples:
        >>> talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        >>> results = replay([talk], ["no curation"], progress=False, executor="serial")
        >>> results["no curation"].peak > 0
        True
    """
    started, sheet = perf_counter(), get_prices(pricing)
    talks, chosen = as_conversations(conversations), as_policies(policies, max_tokens)
    prices = {**price_sheets(), sheet.name: sheet}
    measurement = Measurement(
        chosen, get_counter(counter), provider, tuple(prices.values()), sheet.name
    )
    done = _run_all(measurement, talks, executor)
    found = dict(show_progress(done, "conversations", len(talks), visible=progress))
    tallies = {
        name: [found[n][column] for n in sorted(found)] for column, name in enumerate(chosen)
    }
    totals: dict[str, PolicyResult] = {}
    for name, policy in chosen.items():
        totals[name] = PolicyResult(
            name, "", policy.max_tokens, sheet.name, conversations=len(talks)
        )
        for each in tallies[name]:
            totals[name].add(each)
    return ReplayResults(totals, tallies, sheet.name, provider or "no", perf_counter() - started)


def _run_all(
    measurement: Measurement,
    talks: Sequence[LabConversation],
    executor: Executor | Literal["serial"] | None,
) -> Iterator[tuple[int, list[PolicyResult]]]:
    """Yield the number of each conversation with its tallies, when they are there."""
    stays_here = executor is None and (len(talks) < 2 or not _is_portable(measurement))
    if executor == "serial" or stays_here:
        yield from enumerate(map(measurement.run, talks))
        return
    pool = executor or ProcessPoolExecutor(mp_context=get_context("spawn"))
    longest_first = sorted(enumerate(talks), key=lambda pair: -len(pair[1].messages))
    waiting = {pool.submit(measurement.run, talk): number for number, talk in longest_first}
    try:
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        for future in waiting:
            future.cancel()
        if executor is None:
            pool.shutdown()


def _is_portable(measurement: Measurement) -> bool:
    """Return whether another process can be sent the policies."""
    try:
        return bool(pickle.dumps(measurement))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


class SessionPage:
    """Every call of a recorded conversation, as one policy or two would have made it, on one page.

    At the end of a notebook cell it shows itself.

    Examples:
        >>> from history_curator.lab import sample_conversation
        >>> SessionPage(sample_conversation(), ["curator"], max_tokens=8_000)
        <SessionPage 24 calls under curator>
    """

    def __init__(
        self,
        messages: Sequence[Any],
        policies: Mapping[str, Any] | Sequence[str],
        *,
        max_tokens: int | None = None,
        tools: Sequence[Any] | None = None,
        provider: str = "core",
        counter: Any = "o200k_base",
    ) -> None:
        """Replay the conversation; arguments are those of `replay`, for one or two policies."""
        chosen = as_policies(policies, max_tokens)
        if len(chosen) > 2:
            raise ConfigurationError(
                f"a page shows one policy or two, not {len(chosen)}. Fix: leave some out."
            )
        record = LabConversation("session", list(messages), tools)
        counting, sheet = get_counter(counter), get_prices("anthropic")
        measurement = Measurement(chosen, counting, provider, (sheet,), sheet.name)
        calls = list(record.calls)
        if not calls or calls[-1] != len(record.entries) - 1:
            calls.append(len(record.entries))  # the call that is still to be made
        dependencies = find_dependencies(record)
        self.totals: dict[str, PolicyResult] = {}
        drawn = []
        for name, policy in chosen.items():
            replayed = list(measurement.replay_calls(record, policy, calls, dependencies))
            self.totals[name] = measurement.add_up(name, record, policy, replayed)
            shown = _policy_data(record, replayed, counting, sheet)
            drawn.append({"name": name, "max_tokens": policy.max_tokens, **shown})
        tools_of = {c.id: c.name for entry in record.entries for c in entry.tool_calls or ()}
        self.data: dict[str, Any] = {
            "kind": "session",
            "provider": provider,
            "counter": counting.name,
            "pricing": sheet.name,
            "entries": [
                {**_entry_data(entry, counting, tools_of), "message": home}
                for entry, home in zip(record.entries, record.homes, strict=True)
            ],
            "calls": calls,
            "policies": drawn,
        }

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained page and return its path."""
        return write_private(path, render_session(self.data))

    def _repr_html_(self) -> str:
        return as_frame(render_session(self.data), height=720, title="Session")

    def __repr__(self) -> str:
        names = " and ".join(each["name"] for each in self.data["policies"])
        return f"<SessionPage {len(self.data['calls'])} calls under {names}>"


def _entry_data(
    entry: ConversationEntry, counter: TokenCounter, tools: Mapping[str, str]
) -> dict[str, Any]:
    data = {
        "role": entry.role.value,
        "tokens": counter.count_entry(entry),
        "text": entry.content or "",
        "name": entry.tool_name or entry.name or tools.get(entry.tool_call_id or ""),
        "calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in entry.tool_calls or ()
        ],
    }
    return {key: value for key, value in data.items() if value not in (None, [], "")}


def _policy_data(
    record: LabConversation,
    calls: Sequence[ReplayedCall],
    counter: TokenCounter,
    sheet: PriceSheet,
) -> dict[str, Any]:
    """Return each view as the entries it keeps and adds: recorded ones, or -1, -2, … of ``forms``."""
    forms: list[dict[str, Any]] = []
    form_numbers: dict[tuple[Any, ...], int] = {}

    def reference(entry: ConversationEntry) -> int:
        if id(entry) in record.index_of:
            return record.index_of[id(entry)]
        root = record.index_of.get(id(entry.root))
        key = (root, entry.role, entry.content, entry.action)
        if key not in form_numbers:
            forms.append({
                "index": root, "role": entry.role.value, "text": entry.content or "",
                "action": entry.action or ("inserted" if root is None else "truncated"),
                "reason": entry.reason or "", "origin": entry.origin,
                "tokens": counter.count_entry(entry),
            })  # fmt: skip
            form_numbers[key] = -len(forms)
        return form_numbers[key]

    views, lost = [], []
    for number, call in enumerate(calls):
        shown = shown_entries(call.sent, record).keys()
        view = {
            "keep": call.repeated,
            "add": [reference(entry) for entry in call.sent[call.repeated :]],
            "tokens": call.tokens,
            "cached": call.cached,
            "cost": sheet.cost(call.tokens, call.cached, call.idle),
            "needed": len(call.needed),
            "compacted": not shown_entries(call.before, record).keys() <= shown,
        }
        faults = ["over the budget"] * call.is_over + [v.message for v in call.violations[:3]]
        if faults:
            view["fault"] = "; ".join(faults)[:300]
        if call.failure is not None:
            view |= {"compacted": bool(call.before), "failed": str(call.failure)[:200]}
        views.append(view)
        lost += [
            {"call": number, "kind": each.kind, "value": each.value, "sources": each.sources}
            for each in call.lost
        ]
    return {"forms": forms, "views": views, "lost": lost}
