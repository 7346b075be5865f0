"""One conversation under each policy: every call is made again, nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from history_curator.errors import HistoryCuratorError
from history_curator.lab._conversation import LabConversation, ReadConversation
from history_curator.lab._needs import Need, find_needs, is_met, still_shows
from history_curator.lab._policies import Policy, PolicyUnavailableError, View
from history_curator.lab._pricing import PriceSheet
from history_curator.model import ConversationEntry, MessageRole
from history_curator.profiles import get_profile
from history_curator.tokens import TokenCounter, get_counter

__all__ = ["Settings", "Tally", "measure_conversation"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What every measurement shares; travels to the workers."""

    counter: Any = "o200k_base"
    provider: str = "core"
    prices: tuple[PriceSheet, ...] = ()
    max_calls: int | None = None


@dataclass(slots=True)
class Tally:
    """What one policy did on one conversation. Sums, so that conversations add up.

    ``calls``, ``said_before`` and ``made_again`` describe the conversation, whatever the policy
    did: its calls, the identifiers they used that were said before, and the calls made again.
    """

    conversation: str
    calls: int = 0
    measured: int = 0
    failed: int = 0
    tokens: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    cached: int = 0
    costs: dict[str, float] = field(default_factory=dict)
    over_budget: int = 0
    budget_use: float = 0.0
    invalid: int = 0
    violations: dict[str, int] = field(default_factory=dict)
    needs: int = 0
    lost: int = 0
    repeats: int = 0
    repeated: int = 0
    questions: int = 0
    answered: int = 0
    seconds: float = 0.0
    roles: dict[str, int] = field(default_factory=dict)
    note: str = ""
    said_before: int = 0
    made_again: int = 0


def measure_conversation(
    conversation: LabConversation, policies: Mapping[str, Policy], settings: Settings
) -> dict[str, Tally]:
    """Return one tally per policy. Runs in a worker process; everything given is picklable."""
    record = conversation.read()
    counter = get_counter(settings.counter)
    needs = find_needs(record)
    for entry in record.entries:  # so that no policy is timed counting what another one counted
        counter.count_entry(entry)
    return {
        name: _measure(record, policy, counter, needs, settings)
        for name, policy in policies.items()
    }


def _measure(
    record: ReadConversation,
    policy: Policy,
    counter: TokenCounter,
    needs: Mapping[int, Sequence[Need]],
    settings: Settings,
) -> Tally:
    kinds = [need.kind for some in needs.values() for need in some]
    again = kinds.count("repeat")
    tally = Tally(record.id, len(record.calls), said_before=len(kinds) - again, made_again=again)
    try:
        view = policy.start(record, counter)
    except PolicyUnavailableError as error:
        tally.note = str(error)
        return tally
    _measure_calls(tally, _Run(record, policy, view, counter, needs, settings))
    _measure_questions(tally, record, view)
    return tally


@dataclass(frozen=True, slots=True)
class _Run:
    record: ReadConversation
    policy: Policy
    view: View
    counter: TokenCounter
    needs: Mapping[int, Sequence[Need]]
    settings: Settings


def _measure_calls(tally: Tally, run: _Run) -> None:
    record, policy, counter, settings = run.record, run.policy, run.counter, run.settings
    profile = get_profile(settings.provider)
    overhead = counter.priming + (counter.count_tools(record.tools) if record.tools else 0)
    index_of = {id(entry): index for index, entry in enumerate(record.entries)}
    before: Sequence[ConversationEntry] = ()
    for at in _sampled(record.calls, settings.max_calls, getattr(policy, "max_calls", None)):
        started = perf_counter()
        try:
            sent = run.view(at, None)
        except (HistoryCuratorError, ValueError) as error:
            tally.failed += 1
            tally.note = f"{type(error).__name__}: {error}"[:200]
            before = ()
            _count_needs(tally, run.needs.get(at, ()), (), record, index_of)
            continue
        tally.seconds += perf_counter() - started
        sizes = [counter.count_entry(entry) for entry in sent]
        total = sum(sizes) + overhead
        prefix = _repeated(before, sent)
        repeated = sum(sizes[:prefix]) + (overhead - counter.priming if prefix else 0)
        before = sent
        tally.measured += 1
        tally.tokens.append(total)
        tally.at.append(at)
        tally.cached += repeated
        for sheet in settings.prices:
            cost = sheet.cost(total, repeated)
            tally.costs[sheet.name] = tally.costs.get(sheet.name, 0.0) + cost
        if policy.max_tokens:
            tally.budget_use += total / policy.max_tokens
            tally.over_budget += total > policy.max_tokens
        found = profile.find(list(sent), "request")
        tally.invalid += bool(found)
        for violation in found:
            tally.violations[violation.rule] = tally.violations.get(violation.rule, 0) + 1
        for entry, size in zip(sent, sizes, strict=True):
            role = entry.role.value
            tally.roles[role] = tally.roles.get(role, 0) + size
        _count_needs(tally, run.needs.get(at, ()), sent, record, index_of)


def _count_needs(
    tally: Tally,
    needs: Sequence[Need],
    sent: Sequence[ConversationEntry],
    record: ReadConversation,
    index_of: Mapping[int, int],
) -> None:
    if not needs:
        return
    shown = _shown(sent, index_of)
    for need in needs:
        met = is_met(need, shown, record)
        if need.kind == "repeat":
            tally.repeats += 1
            tally.repeated += not met
        else:
            tally.needs += 1
            tally.lost += not met


def _measure_questions(tally: Tally, record: ReadConversation, view: View) -> None:
    if not record.questions:
        return
    index_of = {id(entry): index for index, entry in enumerate(record.entries)}
    for question in sorted(record.questions, key=lambda each: each.ask_after):
        asked = ConversationEntry(MessageRole.USER, question.text)
        try:
            shown = _shown(view(question.ask_after, asked), index_of)
        except (HistoryCuratorError, ValueError):
            shown = {}
        tally.questions += 1
        tally.answered += all(
            index in shown and still_shows(record.entries[index], shown[index])
            for index in question.evidence
        )


def _shown(
    sent: Sequence[ConversationEntry], index_of: Mapping[int, int]
) -> dict[int, ConversationEntry]:
    """Return the recorded entries a view shows, by index."""
    shown: dict[int, ConversationEntry] = {}
    for entry in sent:
        index = index_of.get(id(entry.root))
        if index is not None:
            shown[index] = entry
    return shown


def _repeated(before: Sequence[ConversationEntry], now: Sequence[ConversationEntry]) -> int:
    """Return how many leading entries two views share."""
    count = 0
    for old, new in zip(before, now, strict=False):
        if old is not new and old != new:
            break
        count += 1
    return count


def _sampled(calls: Sequence[int], *limits: int | None) -> Sequence[int]:
    """Return all calls, or an unbroken run in the middle when a limit asks for fewer."""
    limit = min((each for each in limits if each is not None), default=None)
    if limit is None or len(calls) <= limit:
        return calls
    start = (len(calls) - limit) // 2
    return calls[start : start + limit]
