"""The diagnosis: what recorded sessions cost and on what, where the cache was lost, and what if."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from history_curator.doctor.costs import (
    Bust,
    Contents,
    Loss,
    WhatIf,
    cost_of,
    measure_contents,
    simulate_cache,
    what_if,
)
from history_curator.doctor.logs import read_logs
from history_curator.entries import write_private
from history_curator.errors import ConversionError
from history_curator.lab.conversations import find_files
from history_curator.lab.results import Table, count_of, render_page, write_if_named
from history_curator.tokens import get_counter

BUDGETS = (32_000, 64_000, 128_000)
PEERS = ("trim_messages", "clear-tool-uses")
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]

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
class Diagnosis:
    """Everything the doctor found in some logs.

    Attributes:
        usage: reported tokens: ``input`` (at the plain price), ``cache_read``, ``cache_write``,
            ``output``.
        cost: the same in money, with their ``total`` and the ``unit``: ``USD`` when every model
            has a list price, otherwise millions of tokens at the plain input price.
        read_errors, prediction_errors: for each call the errors of the simulated cache read and
            of the predicted prompt, as shares of the prompt.
        bound_kept: share of the calls whose prompt was within the stated 99 % bound.
        busts: the calls that lost the cache, dearest first.
        losses: messages that left the context where a host summarised.
        policies: the cost and the losses of other policies.
        problems: everything that could not be read.
    """

    sessions: int
    side_sessions: int
    calls: int
    usage: dict[str, int]
    cost: dict[str, Any]
    simulated_read: int
    read_errors: Sequence[float] = field(repr=False)
    prediction_errors: Sequence[float] = field(repr=False)
    bound_kept: float | None
    busts: Sequence[Bust] = field(repr=False)
    kinds: dict[str, int]
    tools: Sequence[ToolShare]
    losses: Sequence[Loss] = field(repr=False)
    policies: Sequence[WhatIf]
    models: dict[str, int]
    problems: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, in the documented shape."""

        def rows(items: Sequence[Any], *names: str) -> list[dict[str, Any]]:
            return [{name: getattr(each, name) for name in names} for each in items]

        errors = self.prediction_errors
        return {
            "sessions": self.sessions,
            "calls": self.calls,
            "usage": dict(self.usage),
            "cost": dict(self.cost),
            "simulated": {"cache_read": self.simulated_read},
            "prediction": {"p50": percentile(errors, 0.5), "p95": percentile(errors, 0.95)},
            "busts": rows(self.busts, "session", "call", "reason", "tokens", "cost"),
            "tools": rows(self.tools, "name", "tokens", "share"),
            "what_if": rows(self.policies, "policy", "budget", "cost", "missed"),
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """Return `to_dict` as JSON text, and write it to ``path`` when one is given."""
        return write_if_named(json.dumps(self.to_dict(), indent=2), path)

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained page and return its path. Text from the logs stays text."""
        models = ", ".join(f"{model} {calls:,}" for model, calls in self.models.items())
        values = {
            "heading": f"{money(self.cost['total'])} {self.cost['unit']}",
            "subline": self.headline(), "sentences": self.sentences(),
            "tables": self.tables(most=20),
            "notes": [f"Calls by model: {models}.", self.accuracy(), *self.problems],
        }  # fmt: skip
        return write_private(path, render_page("Doctor", values))

    def headline(self) -> str:
        """Return how much was read."""
        side = f" ({count_of(self.side_sessions, 'side chain')})" if self.side_sessions else ""
        return f"{count_of(self.calls, 'call')} in {count_of(self.sessions, 'session')}{side}"

    def sentences(self) -> list[str]:
        """Return the most important findings, in sentences."""
        total, found = self.cost["total"], []
        lost = list(self.busts_by_reason().items())
        if lost and total:
            share = sum(cost for _, (_, _, cost) in lost) / total
            reason, (calls, _, _) = lost[0]
            found.append(
                f"{count_of(len(self.busts), 'call')} lost the cache, which took {share:.0%} of "
                f"the cost; most of it: {reason} ({count_of(calls, 'call')})."
            )
        if self.losses:
            needed = sum(len(each.needed) for each in self.losses)
            found.append(
                f"The host summarised {count_of(len(self.losses), 'time')}; later calls needed "
                f"{count_of(needed, 'thing')} that had left."
            )
        if len(self.policies) > 1:
            found.append(self._advice())
        return found

    def _advice(self) -> str:
        was = self.policies[0]
        sound = [each for each in self.policies if not each.note and each.missed <= was.missed]
        best = min(sound, key=lambda each: each.cost, default=was)
        share = best.cost / was.cost if was.cost else 1.0
        if share > 0.995 and was.missed - best.missed < 0.0005:  # it would read as the same
            return (
                "No policy tried costs less without losing more: what was sent is fine as it was."
            )
        return (
            f"{best.policy} at {best.budget:,} tokens would have cost {share:.0%} and lost "
            f"{best.missed:.1%} of what was needed, instead of {was.missed:.1%}."
        )

    def accuracy(self) -> str:
        """Return how near the simulator and the prediction are to the reports."""
        found = []
        if self.usage["cache_read"]:
            share = self.simulated_read / self.usage["cache_read"]
            found.append(f"Simulated reads are {share:.1%} of the reported ones.")
        if self.prediction_errors:
            half, most = (percentile(self.prediction_errors, each) for each in (0.5, 0.95))
            found.append(f"The next prompt is predicted within {half:.2%} (p50), {most:.2%} (p95).")
        return " ".join(found)

    def busts_by_reason(self) -> dict[str, tuple[int, int, float]]:
        """Return calls, tokens and cost by the reason the cache was lost, dearest first."""
        total: dict[str, tuple[int, int, float]] = {}
        for each in self.busts:
            calls, tokens, cost = total.get(each.reason, (0, 0, 0.0))
            total[each.reason] = (calls + 1, tokens + each.tokens, cost + each.cost)
        return dict(sorted(total.items(), key=lambda item: -item[1][2]))

    def tables(self, most: int = 10) -> list[Table]:
        """Return the tables that have rows, the long ones with their first ``most`` rows."""
        total, sent = self.cost["total"] or 1.0, sum(self.kinds.values()) or 1
        spent = [
            (name, f"{self.usage[key]:,}", money(self.cost[key]), f"{self.cost[key] / total:.0%}")
            for key, name in _USAGE_NAMES.items()
        ]
        kinds = [(kind, f"{n:,}", f"{n / sent:.1%}") for kind, n in self.kinds.items() if n]
        tools = [
            (each.name, f"{each.tokens:,}", f"{each.share:.1%}",
             f"{each.unused / each.tokens:.0%}" if each.tokens else "")
            for each in self.tools[:most]
        ]  # fmt: skip
        reasons = [
            (reason, f"{calls:,}", f"{tokens:,}", money(cost), f"{cost / total:.1%}")
            for reason, (calls, tokens, cost) in self.busts_by_reason().items()
        ]
        dearest = [
            (each.session[:14], str(each.call), f"{each.tokens:,}", money(each.cost), each.reason)
            for each in self.busts[: most // 2]
        ]
        most_needed = sorted(self.losses, key=lambda each: -len(each.needed))[: most // 2]
        losses = [
            (each.session[:14], str(each.call), f"{each.messages:,}", f"{each.tokens:,}",
             f"{len(each.needed)}: {', '.join(name[-40:] for name in each.needed[:4])}")
            for each in most_needed
        ]  # fmt: skip
        policies = [
            (each.policy, f"{each.budget:,}" if each.budget else "–", money(each.cost),
             f"{each.cost / total:.0%}", f"{each.missed:.1%}", f"{each.lost:,}", each.note[:60])
            for each in self.policies
        ]  # fmt: skip
        every = [
            Table("What was spent", ("", "tokens", "cost", "of all"), spent),
            Table("What the prompts were made of", ("", "tokens", "of all"), kinds),
            Table("By tool: calls and results", ("", "tokens", "of all", "no longer used"), tools),
            Table("Why the cache was lost", ("", "calls", "tokens", "cost", "of all"), reasons),
            Table("The dearest of these calls", ("session", "call", "tokens", "cost", "why"),
                  dearest, text_last=True),
            Table("What left where the host summarised",
                  ("session", "call", "messages", "tokens", "needed later"), losses, text_last=True),
            Table("What if: missed is the share of what calls used that was not in their view",
                  ("policy", "budget", "cost", "of as it was", "missed", "lost", ""),
                  policies, text_last=True),
        ]  # fmt: skip
        return [each for each in every if each.rows]


def diagnose(
    paths: Iterable[str | Path],
    *,
    budgets: Sequence[int] = BUDGETS,
    peers: Sequence[str] = PEERS,
    counter: Any = "o200k_base",
    progress: Progress | None = None,
    executor: Any = None,
) -> Diagnosis:
    """Read logs and report costs, their causes and lost caches; no data leaves the machine.

    Args:
        paths: Claude Code logs, JSON lines of requests with usage, LangSmith runs or OpenTelemetry
            spans; files, or folders of them.
        budgets: for the default policy in ``what_if``; none leaves it out.
        peers: other policies in ``what_if``, by the names `history_curator.lab.peer_names` lists.
        counter: counts the messages of the logs; the provider's own numbers come from the logs.
        progress: called with a title and a total, returns a context that hands out
            ``advance(n)``.
        executor: where ``what_if`` runs, as in `history_curator.lab.replay`.

    Raises:
        ConversionError: when no log holds usage.
    """
    files = find_files(paths)
    bar: Progress = progress or (lambda _title, _total: nullcontext(lambda _done: None))
    with bar("reading", len(files)) as advance:
        sessions, problems = read_logs(files, advance)
    if not sessions:
        first = f" ({problems[0]})" if problems else ""
        raise ConversionError(
            f"no request with usage under {count_of(len(files), 'file')}{first}.",
            fix="pass Claude Code logs, or JSON lines with a usage object each; conversations "
            "without usage are read by `history-curator compare`.",
        )
    counting, ratios = get_counter(counter), dict[str, float]()
    contents: list[Contents] = []
    with bar("counting", len(sessions)) as advance:
        for session in sessions:
            contents.append(measure_contents(session, counting, ratios))
            advance(1)
    problems += [f"{each.problem} Its messages are left out." for each in contents if each.problem]
    policies = what_if(
        sessions, contents, budgets=budgets, peers=peers, counter=counter,
        progress=progress is not None, executor=executor,
    ) if budgets else []  # fmt: skip
    busts: list[Bust] = []
    read_errors: list[float] = []
    simulated_read = 0
    for session in sessions:
        for call, expected in zip(session.calls, simulate_cache(session), strict=True):
            if expected.read is None:  # the first call: there is no claim about it
                simulated_read += call.usage.cache_read
                continue
            simulated_read += expected.read
            error = abs(expected.read - call.usage.cache_read)
            read_errors.append(error / max(1, call.usage.input))
            busts += [expected.bust] if expected.bust else []
    calls = [call for session in sessions for call in session.calls]
    kinds = _add_up([each.kinds for each in contents])
    sent = sum(kinds.values()) or 1
    unused = _add_up([each.idle_tools for each in contents])
    errors = [error for each in contents for error in each.errors]
    return Diagnosis(
        sessions=len(sessions),
        side_sessions=sum(session.side for session in sessions),
        calls=len(calls),
        usage={
            key: sum(getattr(call.usage, name) for call in calls)
            for key, name in (
                ("input", "uncached"),
                ("cache_read", "cache_read"),
                ("cache_write", "cache_write"),
                ("output", "output"),
            )
        },
        cost=cost_of(calls),
        simulated_read=simulated_read,
        read_errors=read_errors,
        prediction_errors=errors,
        bound_kept=1 - sum(each.exceeded for each in contents) / len(errors) if errors else None,
        busts=sorted(busts, key=lambda each: -each.cost),
        kinds=kinds,
        tools=[
            ToolShare(name, tokens, tokens / sent, unused.get(name, 0))
            for name, tokens in _add_up([each.tools for each in contents]).items()
        ],
        losses=[loss for each in contents for loss in each.losses],
        policies=policies,
        models=_add_up([{call.model or "unknown": 1} for call in calls]),
        problems=tuple(problems),
    )


def _add_up(rows: Iterable[Mapping[str, float]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row)
    ordered = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    return {key: round(value) for key, value in ordered}


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value that this share of the values does not exceed; None without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def money(cost: float) -> str:
    """Return a cost, with more digits where it is very small."""
    return f"{cost:,.2f}" if cost >= 0.01 or not cost else f"{cost:.4f}"
