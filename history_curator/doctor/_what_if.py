"""What other policies would have cost on the same sessions, and what they would have lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from history_curator.doctor._contents import Contents, Loss
from history_curator.doctor._session import Session
from history_curator.doctor._simulate import cost_of, sheet_of
from history_curator.lab import CuratorPolicy, LabConversation, Policy, replay
from history_curator.lab._conversation import ReadConversation
from history_curator.lab._measure import Tally
from history_curator.lab._peers import named_policy
from history_curator.lab._policies import View
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.tokens import TokenCounter

AS_IT_WAS = "as it was"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One policy on all sessions.

    Attributes:
        policy: its name.
        budget: tokens it may use for messages; None where it has none.
        cost: what all calls would have cost, answers included.
        missed: share of what later calls used that was no longer in view.
        lost: how many identifiers and earlier results that is.
        note: why a policy could not be measured, or failed.
        losses: what would have left the view at each jump of the curator, and what later calls
            needed of it; of no other policy.
    """

    policy: str
    budget: int | None
    cost: float
    missed: float
    lost: int
    note: str = ""
    losses: Sequence[Loss] = field(default=(), repr=False)


@dataclass(frozen=True)
class _AsItWas:
    """What the host sent: everything since its last summary, and the summary."""

    compactions: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)
    max_tokens: int | None = None

    def start(self, conversation: ReadConversation, counter: TokenCounter) -> View:
        starts = [(0, ())]
        for position, summary in self.compactions.get(conversation.id, ()):
            first = sum(1 for home in conversation.homes if home < position)
            note = ConversationEntry(MessageRole.USER, summary, origin="summary")
            starts.append((first, (note,) if summary else ()))  # type: ignore[arg-type]

        def view(upto: int, question: ConversationEntry | None) -> list[ConversationEntry]:
            first, notes = [each for each in starts if each[0] <= upto][-1]
            said = [*notes, *conversation.entries[first:upto]]
            return [*said, question] if question else said

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
    """Return one row per policy: as it was, the default at several budgets, and peers at the smallest.

    Every call of the logs is made again with what the policy would have sent. What the log does
    not show (system prompt, tools) is sent along with every request; times and answers are those of
    the log, for the default policy's clock, too. What was really sent is replayed as well, and what
    was reported for a session is multiplied with how a policy's replay compares to that one:
    whatever the replay gets wrong for both cancels out.
    """
    pairs = [
        (session, inside)
        for session, inside in zip(sessions, contents, strict=True)
        if not inside.problem
        and any(message.get("role") == "assistant" for message in session.messages)
    ]
    if not pairs:
        return []
    silent = sum(cost_of(session.calls)["total"] for session in sessions) - sum(
        cost_of(session.calls)["total"] for session, _ in pairs
    )
    talks = [
        LabConversation(
            session.id,
            session.timed(),
            times=session.times,
            tools=session.tools,
            hidden=round(inside.hidden / inside.ratio),
        )
        for session, inside in pairs
    ]
    was = {
        session.id: [
            (each.position, str((each.summary or {}).get("content") or ""))
            for each in session.compactions
        ]
        for session, _ in pairs
    }
    policies: dict[str, Policy] = {AS_IT_WAS: _AsItWas(was)}
    rows: dict[str, tuple[str, int | None]] = {AS_IT_WAS: (AS_IT_WAS, None)}
    for budget in budgets:
        rows[f"curator {budget}"] = ("curator", budget)
        policies[f"curator {budget}"] = CuratorPolicy(_Default(budget), budget)
    for peer in peers if budgets else ():
        rows[peer] = (peer, min(budgets))
        policies[peer] = named_policy(peer, min(budgets))
    results = replay(
        talks, policies, provider=None, counter=counter, progress=progress, executor=executor
    )
    reported_by = [cost_of(session.calls)["total"] for session, _ in pairs]
    replayed = {name: _costs(pairs, results.tallies[name]) for name in rows}
    found = []
    for name, (policy, given) in rows.items():
        result = results[name]
        cost = silent + sum(
            paid * now / sent if sent else paid
            for paid, now, sent in zip(
                reported_by, replayed[name], replayed[AS_IT_WAS], strict=True
            )
        )
        lost = result.lost_identifiers + result.repeated_calls
        losses = _losses(pairs, results.tallies[name]) if policy == "curator" else ()
        found.append(WhatIf(policy, given, cost, result.missed, lost, result.note, losses))
    return found


@dataclass(frozen=True, slots=True)
class _Default:
    """Builds the default curator in whichever process replays."""

    max_tokens: int

    def __call__(self) -> Any:
        from history_curator.curator import Curator

        # What was reported is about what the host sent, not about these views.
        return Curator(max_tokens=self.max_tokens, calibration=False)


def _losses(pairs: Sequence[tuple[Session, Contents]], tallies: Sequence[Tally]) -> list[Loss]:
    """Return what left at each jump of a policy, in the provider's tokens."""
    return [
        Loss(
            session=session.id,
            call=inside.calls.get(jump["at"], 0),
            messages=jump["entries"],
            tokens=round(jump["tokens"] * inside.ratio),
            needed=tuple(jump["needed"]),
            left=jump["left"],
        )
        for (session, inside), tally in zip(pairs, tallies, strict=True)
        for jump in tally.compactions
    ]


def _costs(pairs: Sequence[tuple[Session, Contents]], tallies: Sequence[Tally]) -> list[float]:
    """Return what each session's replay cost, at the prices of the models that answered."""
    return [
        input_cost(session, inside.ratio, tally.costs)
        + sum(
            call.usage.output * (sheet_of(call).output_per_million or 0.0) / 1e6
            for call in session.calls
        )
        for (session, inside), tally in zip(pairs, tallies, strict=True)
    ]


def input_cost(session: Session, ratio: float, costs: Mapping[str, float]) -> float:
    """Return what the prompts of a replay cost, with the cache that the session used.

    ``ratio`` is the provider's tokens over ours, ``costs`` as `Tally.costs` has them.
    """
    if not session.calls:
        return 0.0
    sheets = [sheet_of(call) for call in session.calls]
    name = sheets[0].name.partition("/")[0]
    long = sum(call.usage.cache_write_1h for call in session.calls)
    if 2 * long > sum(call.usage.cache_write for call in session.calls) and f"{name}-1h" in costs:
        name = f"{name}-1h"
    price = sum(sheet.input_per_million for sheet in sheets) / len(sheets)
    return costs.get(name, 0.0) * ratio * price
