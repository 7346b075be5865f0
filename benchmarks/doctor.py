"""The doctor on real logs: ``python -m benchmarks.doctor`` (``--write`` for docs/generated).

How well it reproduces what the provider reported, what it finds, how long it takes. The logs are
read from ``../shared/data`` beside the project and are not part of it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import perf_counter
from typing import Any

from benchmarks._logs import logs
from history_curator.doctor import Diagnosis, diagnose
from history_curator.doctor.diagnose import percentile
from history_curator.lab.conversations import find_files

PAGE = Path(__file__).resolve().parents[1] / "docs" / "generated" / "doctor.md"


def reported(folder: Path) -> dict[str, int]:
    """Return the usage in the logs, read in the plainest way: the last line of each answer."""
    import json

    last: dict[str, Any] = {}
    for file in find_files([folder]):
        for line in Path(file).read_text(encoding="utf-8").split("\n"):
            row = json.loads(line) if line else {}
            message = row.get("message") or {}
            if row.get("type") == "assistant" and message.get("model") != "<synthetic>":
                last[message["id"]] = message["usage"]
    names = {"input": "input_tokens", "cache_read": "cache_read_input_tokens",
             "cache_write": "cache_creation_input_tokens", "output": "output_tokens"}  # fmt: skip
    return {key: sum(usage[name] for usage in last.values()) for key, name in names.items()}


def table(found: Diagnosis, truth: dict[str, int], seconds: float, cpu: float) -> str:
    """Return the page."""
    off = max(abs(found.usage[key] - truth[key]) / max(1, truth[key]) for key in truth)
    read = found.simulated_read / max(1, found.usage["cache_read"])
    rows = [
        ("totals against the reported usage, largest difference", f"{off:.2%}", "≤ 0.5 %"),
        ("simulated reads over reported reads", f"{read:.4f}", "0.99–1.01"),
        ("… error per call, p95", f"{percentile(found.read_errors, 0.95):.2%}", "≤ 1 %"),
        ("next prompt predicted, error p50",
         f"{percentile(found.prediction_errors, 0.5):.2%}", "≤ 0.3 %"),
        ("next prompt predicted, error p95",
         f"{percentile(found.prediction_errors, 0.95):.2%}", "≤ 1.5 %"),
        ("calls within the stated 99 % bound", f"{found.bound_kept or 0:.2%}", "≥ 99 %"),
    ]  # fmt: skip
    lines = [
        (
            f"{found.calls:,} calls in {found.sessions} sessions of Claude Code, "
            f"{sum(found.usage.values()) / 1e6:,.0f} million tokens; {seconds:.0f} s, "
            f"{cpu:.0f} s of processor time, what-if included."
        ),
        "",
        "| | measured | target |",
        "|---|---:|---:|",
        *(f"| {name} | {value} | {target} |" for name, value, target in rows),
        "",
        "| why the cache was lost | calls | tokens | share of the cost |",
        "|---|---:|---:|---:|",
        *(
            f"| {reason} | {calls:,} | {tokens:,} | {cost / found.cost['total']:.1%} |"
            for reason, (calls, tokens, cost) in found.busts_by_reason().items()
        ),
        "",
        "| policy | budget | cost, as it was = 1 | missed |",
        "|---|---:|---:|---:|",
        *(
            f"| {each.policy} | {f'{each.budget:,}' if each.budget else '–'} | "
            f"{each.cost / found.cost['total']:.2f} | {each.missed:.1%} |"
            for each in found.policies
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, print, and write when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    given = parser.parse_args()
    start = perf_counter()
    with logs() as folder:
        found = diagnose([folder])
        seconds = perf_counter() - start
        used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
        cpu = sum(each.ru_utime + each.ru_stime for each in used)
        text = table(found, reported(folder), seconds, cpu)
    print(text)
    if given.write:
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
