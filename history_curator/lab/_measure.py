"""One conversation under each policy: every call is made again, nothing is sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import Any

from history_curator.caching import PriceSheet
from history_curator.errors import HistoryCuratorError
from history_curator.lab._conversation import LabConversation, ReadConversation
from history_curator.lab._needs import (
    Jump,
    Jumps,
    Need,
    edits_in_view,
    find_edits,
    find_needs,
    shown_in,
    still_shows,
    unmet,
)
from history_curator.lab._policies import Policy, PolicyUnavailableError, View
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.rules import ProviderProfile, Violation, get_profile
from history_curator.tokens import TokenCounter, get_counter


@dataclass(frozen=True, slots=True)
class Settings:
    """What every measurement shares; travels to the workers."""

    counter: Any = "o200k_base"
    provider: str | None = "core"
    prices: tuple[PriceSheet, ...] = ()
    max_calls: int | None = None


@dataclass(slots=True)
class Tally:
    """What one policy did on one conversation. Sums, so that conversations add up.

    ``calls``, ``said_before``, ``made_again`` and ``edited`` describe the conversation, whatever
    the policy did: its calls, the identifiers they used that were said before, the calls made
    again, and the edits of lines that were shown before. ``compactions`` says what left the view when.
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
    compactions: list[Jump] = field(default_factory=list)


def tally_to_dict(tally: Tally) -> dict[str, Any]:
    """Return a tally as plain data; ``Tally(**data)`` makes it again."""
    return {each.name: getattr(tally, each.name) for each in fields(tally)}


def measure_conversation(
    conversation: LabConversation, policies: Mapping[str, Policy], settings: Settings
) -> dict[str, Tally]:
    """Return one tally per policy. Runs in a worker process; everything given is picklable."""
    record = conversation.read()
    counter = get_counter(settings.counter)
    needs, edits = find_needs(record), find_edits(record)
    for entry in record.entries:  # so that no policy is timed counting what another one counted
        counter.count_entry(entry)
    again = sum(need.kind == "repeat" for some in needs.values() for need in some)
    tallies = {}
    for name, policy in policies.items():
        tally = tallies[name] = Tally(
            record.id, len(record.calls), said_before=sum(map(len, needs.values())) - again,
            made_again=again, edited=sum(map(len, edits.values())),
        )  # fmt: skip
        try:
            view = policy.start(record, counter)
        except PolicyUnavailableError as error:
            tally.note = str(error)
            continue
        compactions = Jumps(tally.compactions, record, counter)
        profile = get_profile(settings.provider) if settings.provider else None
        calls = _sampled(record.calls, settings.max_calls, getattr(policy, "max_calls", None))
        for request in requests(
            record, view, counter, calls, max_tokens=policy.max_tokens, profile=profile
        ):
            _add(tally, request, policy.max_tokens, settings.prices)
            if request.kept < len(request.before) and request.failure is None:
                compactions.note(request.at, request.before, request.sent)
            asked, replaced = needs.get(request.at, ()), edits.get(request.at, ())
            missed = unmet(asked, request.sent, record)
            for need in missed:
                compactions.miss(need)
            _add_needs(tally, asked, missed)
            tally.edits += len(replaced)
            tally.edits_seen += edits_in_view(replaced, request.sent, record)
        _measure_questions(tally, record, view)
    return tallies


@dataclass(frozen=True, slots=True)
class Request:
    """One call, as a policy would have made it.

    Attributes:
        at: the entry that answers it.
        before: the view of the request before.
        sent: the view.
        sizes: tokens of each entry of it.
        kept: how many entries at its beginning repeat the request before.
        hidden: tokens of the request that are not on record.
        tokens: of the whole request, hidden ones included.
        cached: of these, tokens that repeat the request before.
        idle: seconds since the answer before, where known.
        seconds: how long the view took to make.
        over: whether it is over the budget.
        broken: what the rules refuse in it.
        failure: why there is no view, where there is none.
    """

    at: int
    before: Sequence[ConversationEntry]
    sent: Sequence[ConversationEntry] = ()
    sizes: Sequence[int] = ()
    kept: int = 0
    hidden: int = 0
    tokens: int = 0
    cached: int = 0
    idle: float | None = None
    seconds: float = 0.0
    over: bool = False
    broken: Sequence[Violation] = ()
    failure: Exception | None = None


def requests(
    record: ReadConversation,
    view: View,
    counter: TokenCounter,
    calls: Iterable[int],
    *,
    max_tokens: int | None,
    profile: ProviderProfile | None,
) -> Iterator[Request]:
    """Make these calls again, one after the other; nothing is sent."""
    overhead = counter.priming + record.hidden
    overhead += counter.count_tools(record.tools) if record.tools else 0
    before: Sequence[ConversationEntry] = ()
    asked = False  # whether the request before was made, be its view empty
    answered = 0
    for at in calls:
        idle = record.idle(answered, at) if answered else None
        answered, started = at, perf_counter()
        try:
            sent = view(at, None)
        except (HistoryCuratorError, ValueError) as error:
            yield Request(at, before, failure=error)
            before, asked = (), False
            continue
        taken = perf_counter() - started
        sizes = [counter.count_entry(entry) for entry in sent]
        kept, total = repeated(before, sent), sum(sizes) + overhead
        cached = sum(sizes[:kept]) + (overhead - counter.priming if asked else 0)
        over = max_tokens is not None and total - record.hidden > max_tokens
        broken = [] if profile is None else profile.find(sent)
        yield Request(
            at, before, sent, sizes, kept, record.hidden, total, cached, idle, taken, over, broken
        )
        before, asked = sent, True


def _add(
    tally: Tally, request: Request, max_tokens: int | None, prices: Sequence[PriceSheet]
) -> None:
    if request.failure is not None:
        tally.failed += 1
        tally.note = f"{type(request.failure).__name__}: {request.failure}"[:200]
        return
    tally.measured += 1
    tally.seconds += request.seconds
    tally.tokens.append(request.tokens)
    tally.at.append(request.at)
    tally.cached += request.cached
    for sheet in prices:
        cost = sheet.cost(request.tokens, request.cached, request.idle)
        tally.costs[sheet.name] = tally.costs.get(sheet.name, 0.0) + cost
    if max_tokens:
        tally.budget_use += (request.tokens - request.hidden) / max_tokens
    tally.over_budget += request.over
    tally.invalid += bool(request.broken)
    tally.faulty += request.over or bool(request.broken)
    for violation in request.broken:
        tally.violations[violation.rule] = tally.violations.get(violation.rule, 0) + 1
    for entry, size in zip(request.sent, request.sizes, strict=True):
        role = entry.role.value
        tally.roles[role] = tally.roles.get(role, 0) + size


def _add_needs(tally: Tally, needs: Sequence[Need], missed: Sequence[Need]) -> None:
    again, lost = (sum(need.kind == "repeat" for need in some) for some in (needs, missed))
    tally.needs += len(needs) - again
    tally.repeats += again
    tally.lost += len(missed) - lost
    tally.repeated += lost


def _measure_questions(tally: Tally, record: ReadConversation, view: View) -> None:
    for question in sorted(record.questions, key=lambda each: each.ask_after):
        asked = ConversationEntry(MessageRole.USER, question.text)
        try:
            shown = shown_in(view(question.ask_after, asked), record)
        except (HistoryCuratorError, ValueError):
            shown = {}
        tally.questions += 1
        tally.answered += all(
            index in shown and still_shows(record.entries[index], shown[index])
            for index in question.evidence
        )


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
