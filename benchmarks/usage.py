"""How well the next prompt is foretold from what the provider reported for the last one.

Replays recorded Claude Code sessions call by call: what is new since the last call is counted with
o200k_base, the prompt is predicted, the reported usage is compared and observed. Three ways to
predict are compared: counted from the start of the session with the family's factor; the same with
the whole of the first prompt added; and `Calibration`, anchored on the last call.

Its settings are chosen on one half of the logs (``--choose``) and reported on the other.

    python -m benchmarks.usage [--write] [--choose]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._logs import is_tuned, logs
from history_curator.formats import DictFormat
from history_curator.tokens import (
    Calibration,
    TiktokenCounter,
    Usage,
    _meter,
    find_family,
    read_usage,
)

PAGE = Path(__file__).resolve().parents[1] / "docs" / "generated" / "usage.md"
_READER = DictFormat()
GRID: dict[str, Sequence[float]] = {
    "WEIGHT": (500, 1_000, 1_500, 3_000, 6_000),
    "_MEMORY": (16_000, 32_000, 64_000, 128_000),
    "_STEP": (0.3, 0.6, 1.0),
    "_RANK": (64, 96, 128, 160, 256),
    "_SURPRISE": (0.05, 0.1, 0.15, 0.2),
}
"""What is tried for the settings of the meter, by their names there.

How far what is new may be from the ratio, and what may come on top of it at first, is not among
them: these logs are of one family of models and nearly all in English, and would choose less than
other tokenizers and scripts need (`benchmarks.provider`).
"""
KEPT = 0.9933
"""Share of the calls that have to be within the bound: more than is promised by what chance alone
takes away in half of the calls (1.6 standard deviations)."""


@dataclass
class Call:
    """One request of a session: what it added, what was counted, what was reported."""

    log: str
    model: str
    counted: int
    usage: Usage
    moment: str


def read_sessions() -> list[list[Call]]:
    """Return the calls of every session, side chains apart, in order of time.

    Raises:
        SystemExit: when the logs are not there.
    """
    counter = TiktokenCounter("o200k_base")
    sessions = []
    with logs() as folder:
        for file in sorted(folder.rglob("*.jsonl")):
            lines = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]
            for side in (False, True):
                chain = [each for each in lines if bool(each.get("isSidechain")) is side]
                sessions.append(list(_calls(file.name, chain, counter)))
    return sorted(filter(None, sessions), key=lambda calls: calls[0].moment)


def _calls(log: str, lines: list[dict[str, Any]], counter: TiktokenCounter) -> Iterator[Call]:
    """One answer spans several lines; its last one reports the usage that counts."""
    calls: dict[str, Call] = {}
    counted = 0
    for line in lines:
        if line.get("isCompactSummary") or line.get("subtype") == "compact_boundary":
            counted = 0
        message = line.get("message")
        if line.get("type") not in ("user", "assistant") or not isinstance(message, dict):
            continue
        usage = read_usage(message.get("usage")) if line["type"] == "assistant" else None
        if message.get("model") == "<synthetic>":
            continue
        name = message.get("id")
        if usage is not None and name in calls:
            calls[name].usage = usage
        elif usage is not None and isinstance(name, str):
            calls[name] = Call(log, message["model"], counted, usage, line["timestamp"])
        spoken = {key: message[key] for key in ("role", "content") if key in message}
        counted += sum(map(counter.count_entry, _READER.read(spoken, 0)))
    yield from calls.values()


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


def measure(sessions: list[list[Call]]) -> tuple[dict[str, Score], Calibration]:
    """Predict every prompt that follows another one of the same model in its session."""
    ways = ("counted, family's factor", "the same, first prompt known", "anchored")
    scores = {name: Score([], []) for name in ways}
    calibration = Calibration("o200k_base")
    for number, calls in enumerate(sessions):
        for before, call in zip([None, *calls], calls, strict=False):
            family = find_family(call.model)
            factor = family.factor if family else 1.0
            reported = call.usage.input
            foretold = calibration.predict(call.model, call.counted, key=number)
            if before is not None and before.model == call.model:
                first = calls[0].usage.input - factor * calls[0].counted
                plain = (factor * call.counted, factor * call.counted + first, foretold.tokens)
                for name, tokens in zip(ways, plain, strict=True):
                    scores[name].errors.append(abs(tokens - reported) / reported)
                scores["anchored"].bounds.append(foretold.error / reported)
                scores["anchored"].exceeded += reported > foretold.bound
            calibration.observe(call.model, call.counted, call.usage, key=number)
    return scores, calibration


def table(sessions: list[list[Call]]) -> str:
    """Return the page: all sessions, and each half of them; each begins with nothing learned."""
    scores, calibration = measure(sessions)
    calls = len(scores["anchored"].errors)
    lines = [
        f"{len(sessions)} chains of calls, {calls:,} prompts that follow another one.",
        "",
        "| prompt | error p50 | p95 | p99 | stated error p50 | bound held |",
        "|---|---|---|---|---|---|",
        *(score.row(name) for name, score in scores.items()),
    ]
    halves = []
    for name, tuned in (("the half its settings were chosen on", True), ("the other half", False)):
        found, learned = measure(half(sessions, tuned=tuned))
        lines.append(found["anchored"].row(name))
        halves.append(learned)
    lines += ["", "| model | calls | learned factor | on the one half | on the other |"]
    lines.append("|---|---|---|---|---|")
    for model in sorted({call.model for calls in sessions for call in calls}):
        factors = " | ".join(str(each.factor(model)) for each in (calibration, *halves))
        lines.append(f"| {model} | {calibration.learned(model):,} | {factors} |")
    return "\n".join(lines) + "\n"


def half(sessions: list[list[Call]], *, tuned: bool) -> list[list[Call]]:
    """Return the sessions of one half of the logs."""
    return [calls for calls in sessions if is_tuned(calls[0].log) is tuned]


def merit(sessions: list[list[Call]]) -> tuple[float, ...]:
    """Return how good the settings are, smaller is better.

    The bound has to hold; then the nearest prediction and the smallest stated error count alike.
    """
    score = measure(sessions)[0]["anchored"]
    held = 1 - score.exceeded / len(score.errors)
    stated, near = sum(score.bounds) / len(score.bounds), sum(score.errors) / len(score.errors)
    return max(0.0, KEPT - held), round(stated + near, 5)


def choose(sessions: list[list[Call]]) -> dict[str, float]:
    """Return the settings that are best, one after the other, until none moves any more.

    What is set now stays where nothing is better by one part in a hundred.
    """
    best = merit(sessions)
    moved = True
    while moved:
        moved = False
        for name, values in GRID.items():
            for value in values:
                before = getattr(_meter, name)
                setattr(_meter, name, value)
                now = merit(sessions)
                if (now[0], now[1] * 1.01) < best:
                    best, moved = now, True
                    print(f"{name} = {value}: {best}", flush=True)
                else:
                    setattr(_meter, name, before)
    return {name: getattr(_meter, name) for name in GRID}


def main() -> None:
    """Measure, print, and write when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--choose", action="store_true", help="choose the settings, and print them")
    given = parser.parse_args()
    sessions = read_sessions()
    if given.choose:
        print(choose(half(sessions, tuned=True)))
    text = table(sessions)
    print(text)
    if given.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
