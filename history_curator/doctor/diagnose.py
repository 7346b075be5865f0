"""The diagnosis: what recorded sessions cost and on what, where the cache was lost, and what if."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from history_curator.doctor.costs import (
    AS_IT_WAS,
    TOKENS,
    USD,
    Bust,
    Tally,
    examine_session,
    send_as_it_was,
)
from history_curator.errors import ConversionError
from history_curator.lab import LabConversation, Policy, named_policy
from history_curator.lab.files import collect_errors, find_files, read_file
from history_curator.lab.logs import read_requests
from history_curator.lab.prices import get_prices
from history_curator.lab.results import Findings, Table, count_of, percent, show_progress
from history_curator.lab.run_replay import Measurement, map_conversations
from history_curator.tokens import get_counter

BUDGETS = (32_000, 64_000, 128_000)
PEERS = ("trim_messages", "clear-tool-uses")

_USAGE_KINDS = ("input", "cache_read", "cache_write", "output")
_USAGE_NAMES = {
    "cache_read": "read from the cache",
    "cache_write": "written to the cache",
    "input": "input at the plain price",
    "output": "answers",
}


@dataclass(frozen=True, slots=True)
class ToolShare:
    """Tokens of a tool's calls and results over all prompts; ``unused`` ones had no later use."""

    name: str
    tokens: int
    share: float
    unused: int


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


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything the doctor found in some logs.

    Attributes:
        usage: reported tokens: ``input`` (at the plain price), ``cache_read``, ``cache_write``,
            ``output``.
        cost: the same in money, with their ``total`` and the ``unit``: ``USD`` when every model
            has a list price, otherwise millions of tokens at the plain input price.
        simulated_read: tokens that should have been read from the cache.
        busts: the calls that lost the cache, the most expensive first.
    """

    sessions: int
    side_sessions: int
    calls: int
    usage: dict[str, int]
    cost: dict[str, Any]
    simulated_read: int
    busts: Sequence[Bust] = field(repr=False)
    kinds: dict[str, int]
    tools: Sequence[ToolShare]
    what_if: Sequence[WhatIf]
    models: dict[str, int]
    problems: Sequence[str] = ()

    def to_json(self) -> str:
        """Return everything as JSON text."""
        return json.dumps(asdict(self), indent=2)

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained page and return its path. Text from the logs stays text."""
        return self.describe(20).to_html(path)

    def describe(self, most: int = 10) -> Findings:
        """Return the findings in words and tables, the long ones with their first ``most`` rows."""
        side = f" ({count_of(self.side_sessions, 'side chain')})" if self.side_sessions else ""
        read = f"{count_of(self.calls, 'call')} in {count_of(self.sessions, 'session')}{side}"
        heading = f"{read}: {money(self.cost['total'])} {self.cost['unit']}"
        return Findings("Doctor", heading, self.sentences(), self.tables(most), notes=self.notes())

    def notes(self) -> list[str]:
        """Return how near the simulation is to the reports, and what could not be read."""
        models = ", ".join(f"{model} {calls:,}" for model, calls in self.models.items())
        found = [f"Calls by model: {models}."]
        if self.usage["cache_read"]:
            share = percent(self.simulated_read / self.usage["cache_read"], 1)
            found.append(f"Simulated cache reads are {share} of the reported ones.")
        if self.what_if:
            found.append("Budgets are for what the logs hold; the rest of a prompt comes on top.")
        if self.problems:
            found.append(f"{count_of(len(self.problems), 'problem')} while reading:")
        return [*found, *self.problems]

    def sentences(self) -> list[str]:
        """Return the most important findings, in sentences."""
        total, found = self.cost["total"], []
        if self.busts and total:
            share = percent(sum(bust.cost for bust in self.busts) / total)
            reason, (calls, _, _) = next(iter(self.busts_by_reason().items()))
            found.append(
                f"{count_of(len(self.busts), 'call')} lost the cache, which took {share} of "
                f"the cost; most of it: {reason} ({count_of(calls, 'call')})."
            )
        return [*found, self._advise()] if len(self.what_if) > 1 else found

    def _advise(self) -> str:
        was = self.what_if[0]
        usable = [each for each in self.what_if if not each.note and each.missed <= was.missed]
        best = min(usable, key=lambda each: each.cost, default=was)
        saved = 1 - best.cost / was.cost if was.cost else 0.0
        if saved < 0.005 and was.missed - best.missed < 0.0005:  # it would read as the same
            return (
                "No policy tried costs less without missing more: what was sent is fine as it was."
            )
        cost = f"saved {percent(saved)} of the cost" if saved >= 0.005 else "cost about the same"
        lost = f"missed {count_of(best.lost, 'thing')} they used" if best.lost else "missed nothing"
        before = f" ({was.lost:,} as it was)" if was.lost else ""
        return (
            f"{best.policy} at {best.budget:,} tokens would have {cost}, and later calls would "
            f"have {lost}{before}."
        )

    def busts_by_reason(self) -> dict[str, tuple[int, int, float]]:
        """Return calls, tokens and cost by the reason the cache was lost, the most expensive first."""
        total: dict[str, tuple[int, int, float]] = {}
        for each in self.busts:
            calls, tokens, cost = total.get(each.reason, (0, 0, 0.0))
            total[each.reason] = (calls + 1, tokens + each.tokens, cost + each.cost)
        return dict(sorted(total.items(), key=lambda item: -item[1][2]))

    def tables(self, most: int) -> list[Table]:
        """Return the tables that have rows, the long ones with their first ``most`` rows."""
        total, sent = self.cost["total"] or 1.0, sum(self.kinds.values()) or 1
        tables: list[tuple[str, str, list[tuple[str, ...]]]] = [
            ("What was spent", ",tokens,cost,of all", [
                (name, f"{self.usage[key]:,}", money(self.cost[key]),
                 percent(self.cost[key] / total))
                for key, name in _USAGE_NAMES.items()]),
            ("What the prompts were made of", ",tokens,of all", [
                (kind, f"{n:,}", percent(n / sent, 1)) for kind, n in self.kinds.items() if n]),
            ("By tool: calls and results", ",tokens,of all,no longer used", [
                (t.name, f"{t.tokens:,}", percent(t.share, 1), percent(t.unused / (t.tokens or 1)))
                for t in self.tools[:most]]),
            ("Why the cache was lost", ",calls,tokens,cost,of all", [
                (reason, f"{calls:,}", f"{tokens:,}", money(cost), percent(cost / total, 1))
                for reason, (calls, tokens, cost) in self.busts_by_reason().items()]),
            ("The most expensive of these calls", "session,call,tokens,cost,why", [
                (bust.session[:14], str(bust.call), f"{bust.tokens:,}", money(bust.cost),
                 bust.reason)
                for bust in self.busts[: most // 2]]),
            ("What if: missed is the share of what calls used that was not in their view",
             "policy,budget,cost,of as it was,missed,things,", [
                (each.policy, f"{each.budget:,}" if each.budget else "–",
                 *(["–"] * 4 if each.skipped else
                   [money(each.cost), percent(each.cost / total), percent(each.missed, 1),
                    f"{each.lost:,}"]), each.note[:90])
                for each in self.what_if]),
        ]  # fmt: skip
        return [
            Table(title, heads.split(","), rows, text_last=number > 3)
            for number, (title, heads, rows) in enumerate(tables)
            if rows
        ]


def diagnose(
    paths: Iterable[str | Path],
    *,
    budgets: Sequence[int] = BUDGETS,
    peers: Sequence[str] = PEERS,
    counter: Any = "o200k_base",
    progress: bool = False,
    executor: Any = None,
) -> Diagnosis:
    """Read logs and report costs, their causes and lost caches; no data leaves the machine.

    ``what_if`` replays them under the default policy at each of the ``budgets`` (none leaves it
    out) and under ``peers``, policies by name; ``counter`` and ``executor`` are those of
    `history_curator.lab.replay`.

    Raises:
        ConversionError: when no log holds usage.
    """
    sessions, problems = read_logs(paths, progress=progress)
    chosen = [("curator", budget) for budget in budgets]
    chosen += [(peer, min(budgets)) for peer in peers if budgets]
    policies = {AS_IT_WAS: Policy(send_as_it_was)} if chosen else {}
    policies |= {f"{name} {budget}": named_policy(name, budget) for name, budget in chosen}
    measurement = Measurement(policies, get_counter(counter), None, get_prices("anthropic"))
    where = executor if policies else "serial"  # without a replay processes take longer to start
    examined = map_conversations(partial(examine_session, measurement=measurement), sessions, where)
    total = Tally(problems=problems)
    for each in show_progress(examined, "sessions", len(sessions), visible=progress):
        total.add(each)
    return diagnose_tally(total, policies)


def diagnose_tally(total: Tally, policies: Mapping[str, Policy]) -> Diagnosis:
    """Return the diagnosis of sessions that were added up, replayed under these policies."""
    unit = TOKENS if total.unlisted else USD
    usage = {kind: round(total.usage[kind]) for kind in _USAGE_KINDS}
    cost: dict[str, Any] = {kind: total.costs[unit, kind] for kind in usage}
    cost |= {"total": sum(cost.values()), "unit": unit}
    kinds, tools = _round_sums(total.kinds), _round_sums(total.tools)
    sent = sum(kinds.values()) or 1
    what_if = []
    for label, result in total.replays.items():
        budget, spent = policies[label].max_tokens, cost["total"] - total.saved[unit, label]
        found = label.removesuffix(f" {budget}"), budget, spent, result.missed, result.lost
        what_if.append(WhatIf(*found, result.note, not result.measured))
    return Diagnosis(
        sessions=total.sessions,
        side_sessions=total.side_sessions,
        calls=total.calls,
        usage=usage,
        cost=cost,
        simulated_read=total.simulated_read,
        busts=sorted(total.busts, key=lambda bust: -bust.cost),
        kinds=kinds,
        tools=[
            ToolShare(name, n, n / sent, round(total.idle_tools[name])) for name, n in tools.items()
        ],
        what_if=what_if,
        models=_round_sums(total.models),
        problems=tuple(total.problems),
    )


def read_logs(
    paths: Iterable[str | Path], *, progress: bool = False
) -> tuple[list[LabConversation], list[str]]:
    """Return the sessions with requests, and a line for everything unreadable.

    A resumed session repeats answers: each is charged once, in the oldest session that has it.
    """
    files, problems = find_files(paths), list[str]()
    sessions: list[LabConversation] = []
    for file in show_progress(files, "reading", len(files), visible=progress):
        with collect_errors(problems, file):
            found = [each for each in read_file(file, problems, read_requests) if each.requests]
            problems += [] if found else [f"{file}: no request with usage in it"]
            sessions += found
    if not sessions:
        first, _, fix = problems[0].rstrip(".").partition(". Fix: ")
        otherwise = (
            "pass logs of Claude Code or Codex, or JSON lines with a usage object each; "
            "conversations without usage are read by `history-curator compare`"
        )
        raise ConversionError(f"{first}.", fix=f"{fix or otherwise}.")
    charged: set[str] = set()
    for session in sorted(sessions, key=lambda each: each.requests[0].start or 0.0):
        session.requests = [call for call in session.requests if call.id not in charged]
        charged.update(call.id for call in session.requests)
    return [session for session in sessions if session.requests], problems


def _round_sums(sums: Mapping[str, float]) -> dict[str, int]:
    """Return sums as whole numbers, the largest first."""
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return {key: round(value) for key, value in ordered}


def money(cost: float) -> str:
    """Return a cost, with more digits where it is very small."""
    return f"{cost:,.2f}" if cost >= 0.01 or not cost else f"{cost:.4f}"
