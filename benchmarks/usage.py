"""How well the next prompt is foretold from what the provider reported for the last one.

Replays recorded Claude Code sessions call by call: what is new since the last call is counted with
o200k_base, the prompt is predicted, the reported usage is compared and observed. Three ways to
predict are compared: counted from the start of the session with the family's factor; the same with
the whole of the first prompt added; and `Calibration`, anchored on the last call.

    python -m benchmarks.usage [--write]
"""

from __future__ import annotations

import argparse
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._data import DATA
from history_curator.dialects import DictDialect
from history_curator.tokens import Calibration, TiktokenCounter, Usage, find_family, read_usage

PAGE = Path(__file__).resolve().parents[1] / "docs" / "generated" / "usage.md"
LOGS = "claude_code_logs.tar.gz"
_READER = DictDialect()


@dataclass
class Call:
    """One request of a session: what it added, what was counted, what was reported."""

    model: str
    counted: int
    usage: Usage
    moment: str


def read_logs() -> list[list[Call]]:
    """Return the calls of every session, side chains apart, in order of time.

    Raises:
        SystemExit: when the logs are not there.
    """
    path = DATA / LOGS
    if not path.is_file():
        raise SystemExit(f"recorded sessions are absent: {LOGS} is not in ../shared/data")
    counter = TiktokenCounter("o200k_base")
    sessions = []
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                lines = [json.loads(line) for line in file]
                for side in (False, True):
                    chain = [each for each in lines if bool(each.get("isSidechain")) is side]
                    sessions.append(list(_calls(chain, counter)))
    return sorted(filter(None, sessions), key=lambda calls: calls[0].moment)


def _calls(lines: list[dict[str, Any]], counter: TiktokenCounter) -> Iterator[Call]:
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
            calls[name] = Call(message["model"], counted, usage, line["timestamp"])
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
    """Return the page: all sessions, and each half of them, which begins with nothing learned."""
    scores, calibration = measure(sessions)
    calls = len(scores["anchored"].errors)
    lines = [
        f"{len(sessions)} chains of calls, {calls:,} prompts that follow another one.",
        "",
        "| prompt | error p50 | p95 | p99 | stated error p50 | bound held |",
        "|---|---|---|---|---|---|",
        *(score.row(name) for name, score in scores.items()),
    ]
    for name, half in (("odd", sessions[::2]), ("even", sessions[1::2])):
        lines.append(measure(half)[0]["anchored"].row(f"anchored, {name} chains alone"))
    lines += ["", "| model | calls | learned factor |", "|---|---|---|"]
    for model in sorted({call.model for calls in sessions for call in calls}):
        lines.append(f"| {model} | {calibration.learned(model):,} | {calibration.factor(model)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    given = parser.parse_args()
    text = table(read_logs())
    print(text)
    if given.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
