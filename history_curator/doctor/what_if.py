"""The same sessions under other policies: what they would have cost, and what they would have lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from history_curator.curator import Curator
from history_curator.doctor.contents import Contents
from history_curator.doctor.logs import Session
from history_curator.doctor.prices import cost_of, rates_of
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.lab import CuratorPolicy, LabConversation, Policy, replay
from history_curator.lab.conversations import ReadConversation
from history_curator.lab.policies import View, named_policy
from history_curator.lab.results import Tally
from history_curator.tokens import TokenCounter

AS_IT_WAS = "as it was"
Pairs = Sequence[tuple[Session, Contents]]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One policy on all sessions.

    Attributes:
        budget: tokens it may use for messages; None where it has none.
        cost: the cost of all calls, answers included.
        missed, lost: share and number of identifiers and earlier results that later calls used and
            that were no longer in view.
        note: why a policy could not be measured, or failed.
    """

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


@dataclass(frozen=True, slots=True)
class _BuildCurator:
    """Builds the default curator in whichever process replays."""

    max_tokens: int

    def __call__(self) -> Curator:
        return Curator(max_tokens=self.max_tokens, calibration=False)


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

    Every call of the logs is made again with the policy's view. System prompt and tools that the
    log does not show are added to every request; times and answers are those of the log. The
    host's own views are replayed as well, and the reported cost of a session is multiplied by the
    cost of a policy's replay over theirs: errors that the replay makes for both cancel out.
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
        policies[f"curator {budget}"] = CuratorPolicy(_BuildCurator(budget), budget)
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


def _replayed_costs(pairs: Pairs, tallies: Sequence[Tally]) -> list[float]:
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
