"""The diagnosis: what recorded sessions cost and on what, where the cache was lost, and what if."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from history_curator.doctor.costs import (
    AS_IT_WAS,
    MOST_BUSTS,
    TOKENS,
    USD,
    Bust,
    CostlyCall,
    Tally,
    send_as_it_was,
)
from history_curator.doctor.reading import (
    examine_task,
    find_repeats,
    index_file,
    read_charged,
)
from history_curator.errors import ConversionError
from history_curator.lab import Policy, named_policy
from history_curator.lab.files import choose_files, find_files, write_rows
from history_curator.lab.prices import get_prices
from history_curator.lab.results import Findings, Table, count_of, percent, show_progress
from history_curator.lab.run_replay import Measurement
from history_curator.lab.workers import FEW_FILES, run_tasks
from history_curator.tokens import get_counter

BUDGETS = (32_000, 64_000, 128_000)
PEERS = ("trim_messages", "clear-tool-uses")
_MANY_FILES = 200
"""For fewer files processes take longer to start than the files to read."""

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
        lost: the calls that lost the cache, by reason: their number, the tokens and the cost.
        busts: these calls, the most expensive first; at most a thousand of them.
        spent: the cost of all calls by reason: a lost cache, or the largest of their new messages.
        costly_calls: for each of these reasons, and for what calls missed, the three worst calls.
        sample: a line that says that not all files were read, or nothing.
    """

    sessions: int
    side_sessions: int
    calls: int
    usage: dict[str, int]
    cost: dict[str, Any]
    simulated_read: int
    lost: Mapping[str, tuple[int, int, float]]
    busts: Sequence[Bust] = field(repr=False)
    kinds: dict[str, int]
    tools: Sequence[ToolShare]
    what_if: Sequence[WhatIf]
    models: dict[str, int]
    spent: Mapping[str, float] = field(default_factory=dict)
    costly_calls: Sequence[CostlyCall] = field(default=(), repr=False)
    sample: str = ""
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
        total, found = self.cost["total"], [self.sample] if self.sample else []
        if self.lost and total:
            share = percent(sum(cost for _, _, cost in self.lost.values()) / total)
            reason, (calls, _, _) = next(iter(self.lost.items()))
            found.append(
                f"{count_of(sum(n for n, _, _ in self.lost.values()), 'call')} lost the cache, which took {share} of "
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
                for reason, (calls, tokens, cost) in self.lost.items()]),
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
    scheduler: str | None = None,
    sample: int | None = None,
    parquet: str | Path | None = None,
) -> Diagnosis:
    """Read logs and report costs, their causes and lost caches; no data leaves the machine.

    ``what_if`` replays them under the default policy at each of the ``budgets`` (none leaves it
    out) and under ``peers``, policies by name; ``counter``, ``executor``, ``scheduler`` and ``sample``
    are those of `history_curator.lab.replay`. ``parquet`` is a file for a row of each session.

    The files are read twice: before the examination, to charge an answer that several sessions have
    once, in the oldest of them.

    Raises:
        ConversionError: when no log holds usage.
    """
    files, told = choose_files(find_files(paths), sample)
    chosen = [("curator", budget) for budget in budgets]
    chosen += [(peer, min(budgets)) for peer in peers if budgets]
    policies = {AS_IT_WAS: Policy(send_as_it_was)} if chosen else {}
    policies |= {f"{name} {budget}": named_policy(name, budget) for name, budget in chosen}
    measurement = Measurement(policies, get_counter(counter), None, get_prices("anthropic"))
    is_few = "-" in files or (len(files) < FEW_FILES and scheduler is None)
    reading = "serial" if is_few or (executor is None and len(files) < _MANY_FILES) else executor
    indexed = run_tasks(index_file, files, reading, None if is_few else scheduler)
    repeats = find_repeats(list(show_progress(indexed, "reading", len(files), visible=progress)))
    total = Tally()
    tasks: list[Any] = [(path, repeats.get(number, {})) for number, path in enumerate(files)]
    if is_few:
        tasks = [each for task in tasks for each in read_charged(task, total.problems)]
    where = executor if policies and len(tasks) > 1 else reading
    examine = partial(examine_task, measurement=measurement)
    examined = run_tasks(examine, tasks, where, scheduler)
    with write_rows(parquet) as write:
        for found in show_progress(examined, "examining", len(tasks), visible=progress):
            for each in found:
                write(each.rows)
                each.rows = []
                total.add(each)
    if not total.calls:
        raise _explain_absence(total.problems[0])
    return replace(diagnose_tally(total, policies), sample=told)


def _explain_absence(problem: str) -> ConversionError:
    """Return the error for logs of which none holds usage, by the first problem in reading them."""
    first, _, fix = problem.rstrip(".").partition(". Fix: ")
    otherwise = (
        "pass logs of Claude Code or Codex, or JSON lines with a usage object each; "
        "conversations without usage are read by `history-curator compare`"
    )
    return ConversionError(f"{first}.", fix=f"{fix or otherwise}.")


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
        lost={
            reason: (round(total.lost_calls[reason]), round(total.lost_tokens[reason]), lost)
            for reason, lost in _order_sums(total.lost_cost)
        },
        busts=sorted(total.busts, key=lambda bust: -bust.cost)[:MOST_BUSTS],
        kinds=kinds,
        tools=[
            ToolShare(name, n, n / sent, round(total.idle_tools[name])) for name, n in tools.items()
        ],
        what_if=what_if,
        models=_round_sums(total.models),
        spent=dict(_order_sums({key: n for (each, key), n in total.spent.items() if each == unit})),
        costly_calls=total.costly_calls,
        problems=tuple(total.problems),
    )


def _order_sums(sums: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))


def _round_sums(sums: Mapping[str, float]) -> dict[str, int]:
    """Return sums as whole numbers, the largest first."""
    return {key: round(value) for key, value in _order_sums(sums)}


def money(cost: float) -> str:
    """Return a cost, with more digits where it is very small."""
    return f"{cost:,.2f}" if cost >= 0.01 or not cost else f"{cost:.4f}"
