"""How well the next prompt is predicted from the usage that was reported for the last one.

Replays recorded Claude Code sessions call by call: the tokens added since the last call are counted
with o200k_base, the prompt is predicted, and the reported usage is compared. Three predictions are
compared: counted from the start of the session with the family's ratio; the same with the unseen
part of the first prompt added; and `UsageAnchor`, which starts from the last report.

    python -m benchmarks.usage [--write]
"""

from __future__ import annotations

import argparse
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from benchmarks.data import GENERATED, is_first_half, unpack_logs
from history_curator.doctor.costs import find_prompt_start
from history_curator.lab import LabConversation, load_conversations
from history_curator.tokens import TiktokenCounter, UsageAnchor, find_family

PAGE = GENERATED / "usage.md"


@dataclass
class Call:
    """One request of a session: the tokens we count in its prompt, and those reported."""

    session: str
    model: str
    counted: int
    reported: int


def read_sessions() -> list[list[Call]]:
    """Return the calls of every session, side chains apart, in order of time.

    Raises:
        SystemExit: when the logs are not there.
    """
    counter = TiktokenCounter("o200k_base")
    with unpack_logs() as folder:
        sessions = [each for each in load_conversations(folder) if each.requests]
    sessions.sort(key=lambda each: each.requests[0].start or 0.0)
    return [count_calls(each, counter) for each in sessions]


def count_calls(session: LabConversation, counter: TiktokenCounter) -> list[Call]:
    """Return the requests of a session with the tokens of the messages they sent."""
    upto = [0, *accumulate(map(counter.count_entry, session.entries))]
    calls = []
    for call in session.requests:
        start, summary = find_prompt_start(session, call.position)
        counted = upto[bisect_left(session.homes, call.position)] - upto[start]
        counted += counter.count(summary)
        calls.append(Call(session.id, call.model, counted, call.usage.input))
    return calls


@dataclass
class Score:
    """Errors of one way to predict, as shares of the reported prompt."""

    errors: list[float]
    bounds: list[float]
    exceeded: int = 0

    def row(self, name: str) -> str:
        """Return a line of the table."""
        middle, most, nearly = (_quantile(self.errors, share) for share in (0.5, 0.95, 0.99))
        line = f"| {name} | {middle:.2%} | {most:.2%} | {nearly:.2%} |"
        if not self.bounds:
            return line + " – | – |"
        held = 1 - self.exceeded / len(self.errors)
        return line + f" {_quantile(self.bounds, 0.5):.1%} | {held:.2%} |"


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


WAYS = ("counted, family's ratio", "the same, first prompt known", "anchored")


def measure(sessions: list[list[Call]]) -> dict[str, Score]:
    """Predict every prompt that follows another one of the same model in its session."""
    scores = {name: Score([], []) for name in WAYS}
    for calls in sessions:
        anchor: UsageAnchor | None = None
        for before, call in zip([None, *calls], calls, strict=False):
            family = find_family(call.model)
            ratio, reported = family.factor if family else 1.0, call.reported
            if anchor is None or before is None or before.model != call.model:
                anchor = UsageAnchor(call.counted, reported, ratio)
                continue
            hidden = calls[0].reported - ratio * calls[0].counted
            plain = ratio * call.counted
            predicted = anchor.predict(call.counted)
            for name, tokens in zip(WAYS, (plain, plain + hidden, predicted), strict=True):
                scores[name].errors.append(abs(tokens - reported) / reported)
            bound = anchor.upper_bound(call.counted)
            scores["anchored"].bounds.append((bound - predicted) / reported)
            scores["anchored"].exceeded += reported > bound
            anchor = anchor.after(call.counted, reported)
    return scores


def table(sessions: list[list[Call]]) -> str:
    """Return the page: all sessions, and each half of them."""
    scores = measure(sessions)
    lines = [
        f"{len(sessions)} chains of calls, {len(scores['anchored'].errors):,} prompts after another.",
        "",
        "| prompt | error p50 | p95 | p99 | stated error p50 | bound held |",
        "|---|---|---|---|---|---|",
        *(score.row(name) for name, score in scores.items()),
    ]
    for name, first in (("anchored, one half of the logs", True), ("the other half", False)):
        half = [each for each in sessions if is_first_half(each[0].session[:36]) is first]
        lines.append(measure(half)["anchored"].row(name))
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and write it when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args(arguments)
    text = table(read_sessions())
    print(text)
    if options.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
