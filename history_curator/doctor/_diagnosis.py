"""The diagnosis: everything the doctor found, as one object."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from history_curator.doctor._contents import Contents, Loss, look_into
from history_curator.doctor._read import find_logs, read_logs
from history_curator.doctor._session import Session
from history_curator.doctor._simulate import Bust, cost_of, simulate
from history_curator.doctor._what_if import WhatIf, what_if
from history_curator.errors import ConversionError
from history_curator.entries import write_private
from history_curator.report_page import written
from history_curator.tokens import Calibration, get_counter

BUDGETS = (32_000, 64_000, 128_000)
PEERS = ("trim_messages", "clear-tool-uses")


@dataclass(frozen=True, slots=True)
class ToolShare:
    """What one tool's calls and results took of all prompts.

    Attributes:
        name: the tool.
        tokens: sent over all calls.
        share: of all tokens sent.
        unused: of those, tokens of results that no later call used any more.
    """

    name: str
    tokens: int
    share: float
    unused: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was spent, on what, what was lost, and what else could have been done.

    Attributes:
        sessions, side_sessions: how many conversations, and how many of them are side chains.
        calls: requests, each counted once.
        usage: tokens as reported: ``input`` (at the plain price), ``cache_read``,
            ``cache_write``, ``output``.
        cost: the same in money, with their ``total`` and the ``unit``: ``USD`` when every model
            has a list price, otherwise millions of tokens at the plain input price.
        simulated_read: what the simulator expects to be read from the cache, over all calls.
        read_errors: per call, how far it was off, as a share of the prompt.
        prediction_errors: per call, how far the predicted prompt was off, as a share of it.
        bound_kept: share of the calls whose prompt was within the stated 99 % bound.
        busts: the calls that lost the cache, and why.
        kinds: tokens sent by kind of content.
        tools: tokens sent by tool.
        losses: what left the context where a host summarised, and what was needed of it later.
        policies: what other policies would have cost and lost.
        models: calls by model.
        problems: what could not be read.
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
        return {
            "sessions": self.sessions,
            "calls": self.calls,
            "usage": dict(self.usage),
            "cost": dict(self.cost),
            "simulated": {"cache_read": self.simulated_read},
            "prediction": {
                "p50": percentile(self.prediction_errors, 0.5),
                "p95": percentile(self.prediction_errors, 0.95),
            },
            "busts": [asdict(each) for each in self.busts],
            "tools": [
                {"name": each.name, "tokens": each.tokens, "share": each.share}
                for each in self.tools
            ],
            "what_if": [
                {"policy": each.policy, "budget": each.budget, "cost": each.cost,
                 "missed": each.missed}
                for each in self.policies
            ],
        }  # fmt: skip

    def to_json(self, path: str | Path | None = None) -> str:
        """Return `to_dict` as JSON text, and write it to ``path`` when one is given."""
        return written(json.dumps(self.to_dict(), indent=2), path)

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained page and return its path. Text from the logs stays text."""
        from history_curator.doctor._page import render_page

        return write_private(path, render_page(self))


def diagnose(
    paths: Iterable[str | Path],
    *,
    budgets: Sequence[int] = BUDGETS,
    peers: Sequence[str] = PEERS,
    counter: Any = "o200k_base",
    progress: Callable[[str, int], AbstractContextManager[Callable[[int], None]]] | None = None,
    executor: Any = None,
) -> Diagnosis:
    """Read logs and say what was spent, on what, and what was lost.

    Nothing is sent anywhere. The same logs give the same diagnosis.

    Args:
        paths: Claude Code logs, JSON lines of requests with usage, LangSmith runs or OpenTelemetry
            spans; files, or folders of them.
        budgets: for the default policy in ``what_if``; none leaves it out.
        peers: other policies in ``what_if``, by the names `history_curator.lab.peer_names` lists.
        counter: counts what the logs show; the provider's own numbers come from the logs.
        progress: called with a title and a total, returns a context that hands out
            ``advance(n)``.
        executor: where ``what_if`` runs, as in `history_curator.lab.replay`.

    Raises:
        ConversionError: when a path is not there, or nothing under them holds usage.
    """
    files = find_logs(paths)
    with _bar(progress, "reading", len(files)) as advance:
        sessions, problems = read_logs(files, advance)
    if not sessions:
        said = f" ({problems[0]})" if problems else ""
        raise ConversionError(
            f"no request with usage under {len(files)} file{'s' if len(files) > 1 else ''}{said}.",
            fix="pass Claude Code logs, or JSON lines with a usage object each; conversations "
            "without usage are read by `history-curator compare`.",
        )
    counting = get_counter(counter)
    calibration = Calibration(counting)
    contents: list[Contents] = []
    with _bar(progress, "counting", len(sessions)) as advance:
        for session in sessions:
            contents.append(look_into(session, counting, calibration))
            advance(1)
    problems += [f"{each.problem} Its messages are left out." for each in contents if each.problem]
    cost = cost_of([call for session in sessions for call in session.calls])
    policies = what_if(
        sessions, contents, budgets=budgets, peers=peers, counter=counter,
        progress=progress is not None, executor=executor,
    ) if budgets else []  # fmt: skip
    return _diagnosis(sessions, contents, cost, policies, problems)


def _diagnosis(
    sessions: Sequence[Session],
    contents: Sequence[Contents],
    cost: dict[str, Any],
    policies: Sequence[WhatIf],
    problems: Sequence[str],
) -> Diagnosis:
    busts: list[Bust] = []
    errors: list[float] = []
    simulated = 0
    for session in sessions:
        for call, seen in zip(session.calls, simulate(session), strict=True):
            if seen.read is None:  # nothing is known before the first call, so nothing is claimed
                simulated += call.usage.cache_read
                continue
            simulated += seen.read
            errors.append(abs(seen.read - call.usage.cache_read) / max(1, call.usage.input))
            if seen.bust is not None:
                busts.append(seen.bust)
    calls = [call for session in sessions for call in session.calls]
    kinds = _added([each.kinds for each in contents])
    sent = sum(kinds.values()) or 1
    unused = _added([each.idle_tools for each in contents])
    predicted = [error for each in contents for error in each.errors]
    exceeded = sum(each.exceeded for each in contents)
    return Diagnosis(
        sessions=len(sessions),
        side_sessions=sum(session.side for session in sessions),
        calls=len(calls),
        usage={
            "input": sum(call.usage.uncached for call in calls),
            "cache_read": sum(call.usage.cache_read for call in calls),
            "cache_write": sum(call.usage.cache_write for call in calls),
            "output": sum(call.usage.output for call in calls),
        },
        cost=cost,
        simulated_read=simulated,
        read_errors=errors,
        prediction_errors=predicted,
        bound_kept=1 - exceeded / len(predicted) if predicted else None,
        busts=sorted(busts, key=lambda each: -each.cost),
        kinds=kinds,
        tools=[
            ToolShare(name, tokens, tokens / sent, unused.get(name, 0))
            for name, tokens in _added([each.tools for each in contents]).items()
        ],
        losses=[loss for each in contents for loss in each.losses],
        policies=policies,
        models=_added([{call.model or "unknown": 1} for call in calls]),
        problems=tuple(problems),
    )


def _added(rows: Iterable[Mapping[str, float]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row)
    ordered = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    return {key: round(value) for key, value in ordered}


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value that this share of the values does not exceed; None without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def _bar(
    progress: Callable[[str, int], AbstractContextManager[Callable[[int], None]]] | None,
    title: str,
    total: int,
) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(lambda _done: None) if progress is None else progress(title, total)
