"""Replay recorded conversations call by call under several policies, and the page of a session.

No request is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from history_curator.entries import ConversationEntry, write_private
from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.lab.conversations import Dependency, LabConversation, count_visible_edits
from history_curator.lab.files import (
    as_conversations,
    as_paths,
    choose_files,
    find_files,
    load_conversations,
    write_rows,
)
from history_curator.lab.policies import Policy, as_policies
from history_curator.lab.prices import PriceSheet, get_prices
from history_curator.lab.results import PolicyResult, ReplayResults, show_progress
from history_curator.lab.workers import FEW_FILES, run_tasks
from history_curator.report_page import as_frame, render_session
from history_curator.rules import get_profile
from history_curator.tokens import TokenCounter, get_counter


@dataclass(frozen=True, slots=True)
class ReplayedCall:
    """One call under a policy: the view that was ``sent``, its numbers and its ``faults``.

    ``repeated`` entries at its beginning repeat the view before. The answer needed what is ``lost``.
    """

    result: PolicyResult
    sent: Sequence[ConversationEntry] = ()
    repeated: int = 0
    lost: Sequence[Dependency] = ()
    faults: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measures of every conversation; they travel to the workers."""

    policies: Mapping[str, Policy]
    counter: TokenCounter
    provider: str | None
    prices: PriceSheet

    def run(self, record: LabConversation) -> list[PolicyResult]:
        """Return the sums over a conversation's calls for each policy."""
        names, calls = self.policies, record.calls
        return [add_up(name, record, self.replay_calls(name, record, calls)) for name in names]

    def replay_calls(
        self, name: str, record: LabConversation, calls: Iterable[int]
    ) -> Iterator[ReplayedCall]:
        """Make these calls again under a policy, one after the other; no request is sent."""
        counter, profile = self.counter, get_profile(self.provider) if self.provider else None
        view, most = self.policies[name].start(record, counter), self.policies[name].max_tokens
        overhead = record.hidden + (counter.count_tools(record.tools) if record.tools else 0)
        prices = record.prices or self.prices
        before: Sequence[ConversationEntry] | None = None
        previous_call = 0
        for index in calls:
            needed, replaced = record.dependencies.get(index, ()), record.edits.get(index, ())
            result = PolicyResult(name, calls=1)
            result.needed, result.edits = len(needed), len(replaced)
            idle = record.idle_seconds(previous_call, index) if previous_call else None
            previous_call = index
            try:
                sent = view(index)
            except (HistoryCuratorError, ValueError) as error:
                result.failed, result.lost = 1, len(needed)
                result.note = f"{type(error).__name__}: {error}"[:200]
                yield ReplayedCall(result, lost=needed)
                before = None
                continue
            sizes = [counter.count_entry(entry) for entry in sent]
            repeated, tokens = count_repeated(before or (), sent), sum(sizes) + overhead
            result.tokens_sent = result.peak = tokens + counter.priming
            result.cached = sum(sizes[:repeated]) + (0 if before is None else overhead)
            result.cost = prices.cost(result.peak, result.cached, idle)
            result.over_budget = int(most is not None and result.peak - record.hidden > most)
            violations = profile.find(list(sent)) if profile else []
            result.invalid = int(bool(violations))
            lost = record.find_missing(needed, sent)
            result.lost = len(lost)
            result.edits_seen = count_visible_edits(replaced, sent)
            faults = ["over the budget"] * result.over_budget
            faults += [each.message for each in violations[:3]]
            yield ReplayedCall(result, sent, repeated, lost, faults)
            before = sent


def add_up(name: str, record: LabConversation, calls: Iterable[ReplayedCall]) -> PolicyResult:
    """Return the sums over the calls of a policy, or why it cannot run."""
    total = PolicyResult(name, conversations=1)
    try:
        for call in calls:
            total.add(call.result)
    except ImportError as error:  # a policy that needs a package
        total.note = str(error)
    return total


def count_repeated(before: Sequence[ConversationEntry], sent: Sequence[ConversationEntry]) -> int:
    """Return how many entries at the beginning of a view repeat the view before."""
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
    executor: Any = None,
    scheduler: str | None = None,
    sample: int | None = None,
    parquet: str | Path | None = None,
    problems: list[str] | None = None,
    progress: bool = True,
) -> ReplayResults:
    """Re-run every recorded call under every policy and measure what would have been sent.

    Every policy sees the same record before each call and is measured by the same counter, rules
    and prices.

    ``conversations`` are paths, patterns or URLs (see `load_conversations`), lists of messages,
    mappings with ``messages`` (and ``id``, ``tools``, ``times``) or `LabConversation`; ``policies`` are
    named ones of `policy_names` (with the budget ``max_tokens``), a `Curator` or a `Policy`. ``pricing``
    is a price sheet, its name, or the name of a model. See docs/howto/lab.md for the other options.

    Examples:
        >>> talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        >>> results = replay([talk], ["no curation"], progress=False, executor="serial")
        >>> results["no curation"].peak > 0
        True
    """
    chosen, sheet, told = as_policies(policies, max_tokens), get_prices(pricing), ""
    measurement = Measurement(chosen, get_counter(counter), provider, sheet)
    tasks: Sequence[str | LabConversation]
    if paths := as_paths(conversations):
        tasks, told = choose_files(find_files(paths), sample)
        if "-" in tasks or (len(tasks) < FEW_FILES and scheduler is None):
            tasks = load_conversations(*tasks, problems=problems)
    else:
        tasks = as_conversations(conversations)
    if executor is None and len(tasks) < 2:
        executor = "serial"
    replay_one = partial(_replay_task, measurement=measurement, strict=problems is None)
    done = run_tasks(replay_one, tasks, executor, scheduler)
    totals = {name: PolicyResult(name) for name in chosen}
    with write_rows(parquet) as write:
        for talks, unread in show_progress(done, "replaying", len(tasks), visible=progress):
            if problems is not None:
                problems += unread
            for name, results in talks:
                write([{"conversation": name, **asdict(each)} for each in results])
                for each in results:
                    totals[each.name].add(each)
    return ReplayResults(totals, sheet.name, provider or "no", max_tokens, told)


def _replay_task(
    task: str | LabConversation, measurement: Measurement, strict: bool
) -> tuple[list[tuple[str, list[PolicyResult]]], list[str]]:
    """Return the sums of each conversation of a file, or of one, and what could not be read."""
    problems: list[str] = []
    talks = [task] if isinstance(task, LabConversation) else []
    if isinstance(task, str):
        talks = load_conversations(task, problems=None if strict else problems)
    return [(talk.id, measurement.run(talk)) for talk in talks], problems


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
            problem = f"a page shows one policy or two, not {len(chosen)}."
            raise ConfigurationError(f"{problem} Fix: leave some out.")
        record, counting = LabConversation("session", list(messages), tools), get_counter(counter)
        measurement = Measurement(chosen, counting, provider, get_prices("anthropic"))
        calls = list(record.calls)
        if calls[-1:] != [len(record.entries) - 1]:
            calls.append(len(record.entries))  # the call that is still to be made
        tools_of = {c.id: c.name for entry in record.entries for c in entry.tool_calls or ()}
        totals: dict[str, PolicyResult] = {}
        self.data: dict[str, Any] = {
            "kind": "session",
            "provider": provider,
            "counter": counting.name,
            "pricing": measurement.prices.name,
            "entries": [
                {**_entry_data(entry, counting, tools_of), "message": home}
                for entry, home in zip(record.entries, record.homes, strict=True)
            ],
            "calls": calls,
            "policies": [],
        }
        for name, policy in chosen.items():
            replayed = list(measurement.replay_calls(name, record, calls))
            totals[name] = add_up(name, record, replayed)
            shown = _policy_data(record, replayed, counting)
            self.data["policies"].append({"name": name, "max_tokens": policy.max_tokens, **shown})
        pricing = measurement.prices.name
        self.results = ReplayResults(totals, pricing, provider, max_tokens)

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
    calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in entry.tool_calls or ()]
    name = entry.tool_name or entry.name or tools.get(entry.tool_call_id or "")
    data = {"role": entry.role.value, "tokens": counter.count_entry(entry),
            "text": entry.content or "", "name": name, "calls": calls}  # fmt: skip
    return {key: value for key, value in data.items() if value not in (None, [], "")}


def _policy_data(
    record: LabConversation, calls: Sequence[ReplayedCall], counter: TokenCounter
) -> dict[str, Any]:
    """Return each view as the entries it keeps and adds: recorded ones, or -1, -2, … of ``forms``."""
    forms: list[dict[str, Any]] = []
    numbers: dict[tuple[Any, ...], int] = {}

    def reference(entry: ConversationEntry) -> int:
        if id(entry) in record.index_of:
            return record.index_of[id(entry)]
        root = record.index_of.get(id(entry.root))
        key = (root, entry.role, entry.content, entry.action)
        if key not in numbers:
            forms.append({
                "index": root, "role": entry.role.value, "text": entry.content or "",
                "action": entry.action or ("inserted" if root is None else "truncated"),
                "reason": entry.reason or "", "origin": entry.origin,
                "tokens": counter.count_entry(entry),
            })  # fmt: skip
            numbers[key] = -len(forms)
        return numbers[key]

    views, lost, before = [], [], set[int]()
    for number, call in enumerate(calls):
        result, shown = call.result, set(record.find_shown(call.sent))
        view = {
            "keep": call.repeated,
            "add": [reference(entry) for entry in call.sent[call.repeated :]],
            "tokens": result.tokens_sent,
            "cached": result.cached,
            "cost": result.cost,
            "needed": result.needed,
            "compacted": not before <= shown,
        }
        if call.faults:
            view["fault"] = "; ".join(call.faults)[:300]
        if result.failed:
            view["failed"] = result.note
        views.append(view)
        before = shown
        lost += [{"call": number, "value": n.value, "sources": n.sources} for n in call.lost]
    return {"forms": forms, "views": views, "lost": lost}
