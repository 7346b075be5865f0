"""What the clock is worth: ``python -m benchmarks.clock`` (``--write`` for docs/generated).

Every call of real Claude Code sessions is made again with the default curator, once with the
times of the log on its messages and once without. Both are charged with the times of the log:
what is sent after the cache went cold is written anew. A view that compactions when the cache is cold
is smaller afterwards, so it sees a little less; what the same visibility costs without the clock is
read off the curve of budgets without it.

More than half of the cost at small budgets is what no view decides: system prompt and tools, which
these logs do not show, are sent with every request. The cost is given with and without them. What
the pauses cost the view stands beside it: the same views, charged as if no cache ever went cold.

How deep a cold jump goes is chosen on one half of the logs (``--cold`` tries another depth); the
other half stands beside it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from pathlib import Path

from benchmarks._logs import is_tuned, logs
from history_curator import Curator
from history_curator.caching import price_sheets
from history_curator.doctor._contents import Contents, look_into
from history_curator.doctor._read import find_logs, read_logs
from history_curator.doctor._session import Session
from history_curator.doctor._what_if import input_cost
from history_curator.lab import CuratorPolicy, LabConversation, replay
from history_curator.lab._conversation import ReadConversation
from history_curator.window import _fold
from history_curator.tokens import Calibration, get_counter

PAGE = Path(__file__).resolve().parents[1] / "docs" / "generated" / "clock.md"
BUDGETS = (12_000, 16_000, 24_000, 32_000, 48_000, 64_000, 96_000, 128_000)
"""The first one is there for the curve alone: what is seen at the second lies between the two."""


@dataclass(frozen=True)
class Default:
    """Builds the curator in whichever process replays; counts stay as they are."""

    max_tokens: int
    cold: float

    def __call__(self) -> Curator:
        """Return the default curator at this budget."""
        _fold.COLD = self.cold
        return Curator(max_tokens=self.max_tokens, provider="anthropic", calibration=False)


Pairs = Sequence[tuple[Session, Contents]]


@dataclass(frozen=True)
class Row:
    """One session at one budget.

    Attributes:
        needs, lost: what its calls needed, and what of it was not in view.
        cost: of its prompts.
        fixed: of that, what was sent beside the view.
    """

    needs: int
    lost: int
    cost: float
    fixed: float


def rows(
    pairs: Pairs, *, clock: bool, pauses: bool = True, budgets: Sequence[int], cold: float
) -> list[list[Row]]:
    """Return, for each budget, one row for each session; without pauses no cache goes cold."""
    talks = [
        LabConversation(
            session.id, session.timed() if clock else session.messages,
            times=session.times if pauses else (), hidden=round(inside.hidden / inside.ratio),
        )
        for session, inside in pairs
    ]  # fmt: skip
    policies = {str(budget): CuratorPolicy(Default(budget, cold), budget) for budget in budgets}
    results = replay(talks, policies, provider=None, counter="o200k_base")
    fixed = [fixed_cost(*pair, talk.read()) for pair, talk in zip(pairs, talks, strict=True)]
    return [
        [
            Row(tally.needs + tally.repeats, tally.lost + tally.repeated,
                input_cost(session, inside.ratio, tally.costs), beside)
            for (session, inside), tally, beside in zip(
                pairs, results.tallies[budget], fixed, strict=True)
        ]
        for budget in policies
    ]  # fmt: skip


def fixed_cost(session: Session, inside: Contents, record: ReadConversation) -> float:
    """Return what is paid for what is sent beside the view, whatever the view is."""
    costs: dict[str, float] = {}
    answered = 0
    for at in record.calls:
        idle = record.idle(answered, at) if answered else None
        for name, sheet in price_sheets().items():
            held = record.hidden if answered else 0
            costs[name] = costs.get(name, 0.0) + sheet.cost(record.hidden, held, idle)
        answered = at
    return input_cost(session, inside.ratio, costs)


Point = tuple[float, float, float]
"""The share of needs that were visible, the cost, and the cost of the view alone."""


def point(rows: Iterable[Row]) -> Point:
    """Return what some sessions come to."""
    sessions = list(rows)
    needs, lost = sum(each.needs for each in sessions), sum(each.lost for each in sessions)
    cost, fixed = sum(each.cost for each in sessions), sum(each.fixed for each in sessions)
    return 1 - lost / needs, cost, cost - fixed


def without(visible: float, curve: Sequence[Point], column: int) -> float:
    """Return what this visibility costs on a curve of points."""
    pieces = list(pairwise(curve))
    low, high = next((p for p in pieces if visible <= p[1][0]), pieces[-1])
    share = (visible - low[0]) / (high[0] - low[0] or 1.0)
    return low[column] + (high[column] - low[column]) * share


def measure(budgets: Sequence[int], cold: float) -> str:
    """Return the table."""
    counter = get_counter("o200k_base")
    with logs() as folder:
        sessions, _ = read_logs(find_logs([folder]))
    calibration = Calibration(counter)
    pairs = [(session, look_into(session, counter, calibration)) for session in sessions]
    plain, timely = (
        rows(pairs, clock=clock, budgets=budgets, cold=cold) for clock in (False, True)
    )
    steady = rows(pairs, clock=False, pauses=False, budgets=budgets, cold=cold)
    heads = ("budget", "visible without", "with", "what pauses cost the view", "cost",
             "at equal visibility", "the view alone", "at equal visibility",
             "both on the half chosen on", "on the other half")  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---:" * len(heads) + "|"]
    tuned = [is_tuned(session.id) for session in sessions]
    parts = ([True] * len(tuned), tuned, [not each for each in tuned])
    curves = [[point(compress(each, part)) for each in plain] for part in parts]
    for number, (budget, with_clock) in enumerate(zip(budgets, timely, strict=True)):
        if not number:
            continue
        seen, cost, view = curves[0][number]
        now, less, thin = point(with_clock)
        halves = []
        for part, curve in zip(parts[1:], curves[1:], strict=True):
            visible, whole, alone = point(compress(with_clock, part))
            halves += [whole / without(visible, curve, 1), alone / without(visible, curve, 2)]
        lines.append(
            f"| {budget:,} | {seen:.1%} | {now:.1%} | "
            f"{(view - point(steady[number])[2]) / cost:.1%} | {less / cost:.3f} | "
            f"{less / without(now, curves[0], 1):.3f} | {thin / view:.3f} | "
            f"{thin / without(now, curves[0], 2):.3f} | "
            f"{halves[0]:.3f}, {halves[1]:.3f} | {halves[2]:.3f}, {halves[3]:.3f} |"
        )
    calls = sum(len(session.calls) for session in sessions)
    head = (
        f"{calls:,} calls of {len(sessions)} sessions; cost of what is sent, answers apart, "
        f"without the clock = 1. A jump for which the cache was cold leaves the view {cold:.0%} as "
        "full as another one. What pauses cost the view: what is paid of everything, without the "
        "clock, for writing the view anew after them. The view alone: without the system prompt "
        "and tools that the logs do not show, which no view decides "
        f"({curves[0][1][1] - curves[0][1][2]:,.0f} USD of {curves[0][1][1]:,.0f} at "
        f"{budgets[1]:,})."
    )
    return "\n".join([head, "", *lines]) + "\n"


def main() -> int:
    """Measure, print, and write when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--budget", type=int, action="append", help="one or several")
    parser.add_argument("--cold", type=float, default=_fold.COLD, help="how deep a cold jump goes")
    given = parser.parse_args()
    text = measure(tuple(given.budget or BUDGETS), given.cold)
    print(text)
    if given.write:
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
