"""One conversation under each policy: every call is made again, nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import Any

from history_curator.caching import PriceSheet
from history_curator.errors import HistoryCuratorError
from history_curator.lab._conversation import LabConversation, ReadConversation, searchable
from history_curator.lab._jumps import Jump, Jumps
from history_curator.lab._needs import (
    Need,
    edits_in_view,
    find_edits,
    find_needs,
    is_met,
    still_shows,
)
from history_curator.lab._policies import Policy, PolicyUnavailableError, View
from history_curator.model import ConversationEntry, MessageRole
from history_curator.rules import ProviderProfile, Violation, get_profile
from history_curator.tokens import TokenCounter, get_counter


@dataclass(frozen=True, slots=True)
class Settings:
    """What every measurement shares; travels to the workers."""

    counter: Any = "o200k_base"
    provider: str | None = "core"
    prices: tuple[PriceSheet, ...] = ()
    max_calls: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the calls of a conversation used that had been said before, by entry."""

    needs: Mapping[int, Sequence[Need]]
    edits: Mapping[int, Sequence[Sequence[str]]]


@dataclass(slots=True)
class Tally:
    """What one policy did on one conversation. Sums, so that conversations add up.

    ``calls``, ``said_before``, ``made_again`` and ``edited`` describe the conversation, whatever
    the policy did: its calls, the identifiers they used that were said before, the calls made
    again, and the edits of lines that were shown before. ``jumps`` says what left the view when.
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
    faulty: int = 0
    violations: dict[str, int] = field(default_factory=dict)
    needs: int = 0
    lost: int = 0
    repeats: int = 0
    repeated: int = 0
    edits: int = 0
    edits_seen: int = 0
    questions: int = 0
    answered: int = 0
    seconds: float = 0.0
    roles: dict[str, int] = field(default_factory=dict)
    note: str = ""
    said_before: int = 0
    made_again: int = 0
    edited: int = 0
    jumps: list[Jump] = field(default_factory=list)


def tally_to_dict(tally: Tally) -> dict[str, Any]:
    """Return a tally as plain data; ``Tally(**data)`` makes it again."""
    return {each.name: getattr(tally, each.name) for each in fields(tally)}


def measure_conversation(
    conversation: LabConversation, policies: Mapping[str, Policy], settings: Settings
) -> dict[str, Tally]:
    """Return one tally per policy. Runs in a worker process; everything given is picklable."""
    record = conversation.read()
    counter = get_counter(settings.counter)
    wanted = Wanted(find_needs(record), find_edits(record))
    for entry in record.entries:  # so that no policy is timed counting what another one counted
        counter.count_entry(entry)
    return {
        name: _measure(record, policy, counter, wanted, settings)
        for name, policy in policies.items()
    }


def _measure(
    record: ReadConversation,
    policy: Policy,
    counter: TokenCounter,
    wanted: Wanted,
    settings: Settings,
) -> Tally:
    kinds = [need.kind for some in wanted.needs.values() for need in some]
    again = kinds.count("repeat")
    tally = Tally(
        record.id, len(record.calls), said_before=len(kinds) - again, made_again=again,
        edited=sum(map(len, wanted.edits.values())),
    )  # fmt: skip
    try:
        view = policy.start(record, counter)
    except PolicyUnavailableError as error:
        tally.note = str(error)
        return tally
    _measure_calls(tally, _Run(record, policy, view, counter, wanted, settings))
    _measure_questions(tally, record, view)
    return tally


@dataclass(frozen=True, slots=True)
class _Run:
    record: ReadConversation
    policy: Policy
    view: View
    counter: TokenCounter
    wanted: Wanted
    settings: Settings


def _measure_calls(tally: Tally, run: _Run) -> None:
    record, policy, counter, settings = run.record, run.policy, run.counter, run.settings
    profile = get_profile(settings.provider) if settings.provider else None
    overhead = counter.priming + record.hidden
    overhead += counter.count_tools(record.tools) if record.tools else 0
    index_of = {id(entry): index for index, entry in enumerate(record.entries)}
    jumps = Jumps(tally.jumps, index_of, counter)
    before: Sequence[ConversationEntry] = ()
    answered = 0
    for at in _sampled(record.calls, settings.max_calls, getattr(policy, "max_calls", None)):
        started = perf_counter()
        idle = record.idle(answered, at) if answered else None
        answered = at
        try:
            sent = run.view(at, None)
        except (HistoryCuratorError, ValueError) as error:
            tally.failed += 1
            tally.note = f"{type(error).__name__}: {error}"[:200]
            before = ()
            _count_needs(tally, run, at, (), jumps)
            continue
        tally.seconds += perf_counter() - started
        sizes = [counter.count_entry(entry) for entry in sent]
        total = sum(sizes) + overhead
        prefix = repeated(before, sent)
        cached = sum(sizes[:prefix]) + (overhead - counter.priming if before else 0)
        if prefix < len(before):
            jumps.note(at, before, sent)
        before = sent
        tally.measured += 1
        tally.tokens.append(total)
        tally.at.append(at)
        tally.cached += cached
        for sheet in settings.prices:
            cost = sheet.cost(total, cached, idle)
            tally.costs[sheet.name] = tally.costs.get(sheet.name, 0.0) + cost
        known = total - record.hidden
        over, found = faults_in(sent, known, policy.max_tokens, profile)
        tally.over_budget += over
        if policy.max_tokens:
            tally.budget_use += known / policy.max_tokens
        tally.invalid += bool(found)
        tally.faulty += over or bool(found)
        for violation in found:
            tally.violations[violation.rule] = tally.violations.get(violation.rule, 0) + 1
        for entry, size in zip(sent, sizes, strict=True):
            role = entry.role.value
            tally.roles[role] = tally.roles.get(role, 0) + size
        _count_needs(tally, run, at, sent, jumps)


def _count_needs(
    tally: Tally,
    run: _Run,
    at: int,
    sent: Sequence[ConversationEntry],
    jumps: Jumps,
) -> None:
    edits = run.wanted.edits.get(at, ())
    if edits:
        tally.edits += len(edits)
        tally.edits_seen += edits_in_view(edits, sent, run.record)
    needs = run.wanted.needs.get(at, ())
    if not needs:
        return
    index_of = jumps.index_of
    shown = shown_in(sent, index_of)
    inserted = "\n".join(searchable(entry) for entry in sent if id(entry.root) not in index_of)
    for need in needs:
        met = is_met(need, shown, run.record, inserted)
        if not met:
            jumps.miss(need)
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
            shown = shown_in(view(question.ask_after, asked), index_of)
        except (HistoryCuratorError, ValueError):
            shown = {}
        tally.questions += 1
        tally.answered += all(
            index in shown and still_shows(record.entries[index], shown[index])
            for index in question.evidence
        )


def faults_in(
    sent: Sequence[ConversationEntry],
    tokens: int,
    max_tokens: int | None,
    profile: ProviderProfile | None,
) -> tuple[bool, list[Violation]]:
    """Return whether a request is over its budget, and what the rules refuse in it."""
    over = max_tokens is not None and tokens > max_tokens
    sound = profile is None or profile.holds(sent)
    return over, [] if sound or profile is None else profile.find(list(sent))


def shown_in(
    sent: Sequence[ConversationEntry], index_of: Mapping[int, int]
) -> dict[int, ConversationEntry]:
    """Return the recorded entries a view shows, by index."""
    shown: dict[int, ConversationEntry] = {}
    for entry in sent:
        index = index_of.get(id(entry.root))
        if index is not None:
            shown[index] = entry
    return shown


def repeated(before: Sequence[ConversationEntry], now: Sequence[ConversationEntry]) -> int:
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
