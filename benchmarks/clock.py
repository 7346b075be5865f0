"""What the clock is worth: ``python -m benchmarks.clock`` (``--write`` for docs/generated).

Every call of real Claude Code sessions is made again with the default curator, once with the
times of the log on its messages and once without. Both are charged with the times of the log:
what is sent after the cache went cold is written anew. A view that jumps when the cache is cold
is smaller afterwards, so it sees a little less; what the same visibility costs without the clock is
read off the curve of budgets without it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks._logs import logs
from history_curator import Curator
from history_curator.doctor._contents import Contents, look_into
from history_curator.doctor._read import find_logs, read_logs
from history_curator.doctor._session import Session
from history_curator.doctor._what_if import input_cost
from history_curator.lab import CuratorPolicy, LabConversation, replay
from history_curator.tokens import Calibration, get_counter

PAGE = Path(__file__).resolve().parents[1] / "docs" / "generated" / "clock.md"
BUDGETS = (16_000, 24_000, 32_000, 48_000, 64_000, 96_000, 128_000)


@dataclass(frozen=True)
class Default:
    """Builds the curator in whichever process replays; counts stay as they are."""

    max_tokens: int

    def __call__(self) -> Curator:
        """Return the default curator at this budget."""
        return Curator(max_tokens=self.max_tokens, provider="anthropic", calibration=False)


def timed(session: Session) -> list[dict[str, Any]]:
    """Return the messages with their times, and with what tells how long the cache lives."""
    hour = [call.position for call in session.calls if call.usage.cache_write_1h]
    said = [
        {**message, "timestamp": time} if time is not None else dict(message)
        for message, time in zip(session.messages, session.times, strict=True)
    ]
    for position in hour:
        if position < len(said) and said[position].get("role") == "assistant":
            said[position]["usage"] = {
                "input_tokens": 1, "cache_creation_input_tokens": 1,
                "cache_creation": {"ephemeral_1h_input_tokens": 1},
            }  # fmt: skip
    return said


Pairs = Sequence[tuple[Session, Contents]]


def points(pairs: Pairs, *, clock: bool, budgets: Sequence[int]) -> list[tuple[float, float]]:
    """Return, for each budget, the share of needs that were visible and the cost of the input."""
    talks = [
        LabConversation(
            session.id, timed(session) if clock else session.messages, times=session.times,
            hidden=round(inside.hidden / inside.ratio),
        )
        for session, inside in pairs
    ]  # fmt: skip
    policies = {str(budget): CuratorPolicy(Default(budget), budget) for budget in budgets}
    results = replay(talks, policies, provider=None, counter="o200k_base")
    found = []
    for budget in policies:
        tallies = results.tallies[budget]
        cost = sum(
            input_cost(session, inside.ratio, tally.costs)
            for (session, inside), tally in zip(pairs, tallies, strict=True)
        )
        found.append((1 - results[budget].regret, cost))
    return found


def without(visible: float, curve: Sequence[tuple[float, float]]) -> float:
    """Return what this visibility costs on a curve of (visible, cost)."""
    pieces = list(pairwise(curve))
    (low, cheap), (high, dear) = next((p for p in pieces if visible <= p[1][0]), pieces[-1])
    return cheap + (dear - cheap) * (visible - low) / (high - low or 1.0)


def measure(budgets: Sequence[int]) -> str:
    """Return the table."""
    counter = get_counter("o200k_base")
    with logs() as folder:
        sessions, _ = read_logs(find_logs([folder]))
    calibration = Calibration(counter)
    pairs = [(session, look_into(session, counter, calibration)) for session in sessions]
    plain, timely = (points(pairs, clock=clock, budgets=budgets) for clock in (False, True))
    rows = ["| budget | visible without | with | cost, without = 1 | at equal visibility |",
            "|---:|---:|---:|---:|---:|"]  # fmt: skip
    for budget, (seen, cost), (now, less) in zip(budgets, plain, timely, strict=True):
        rows.append(
            f"| {budget:,} | {seen:.1%} | {now:.1%} | {less / cost:.3f} | "
            f"{less / without(now, plain):.3f} |"
        )
    calls = sum(len(session.calls) for session in sessions)
    head = f"{calls:,} calls of {len(sessions)} sessions; cost of what is sent, answers apart."
    return "\n".join([head, "", *rows]) + "\n"


def main() -> int:
    """Measure, print, and write when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--budget", type=int, action="append", help="one or several")
    given = parser.parse_args()
    text = measure(tuple(given.budget or BUDGETS))
    print(text)
    if given.write:
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
