"""Write down the views of recorded conversations as hashes, and say which ones a change touches.

    python -m benchmarks.oracle --save before.json
    python -m benchmarks.oracle --compare before.json

Each of 40 recorded conversations is curated at six lengths, in three budgets, for three providers,
with and without the usage that the provider would have reported.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from benchmarks.data import load
from history_curator import Curator
from history_curator.errors import HistoryCuratorError

SETS = {"coding_sessions": 16, "tau_bench": 8, "tau2_bench": 8, "misc_agents": 4, "locomo": 4}
BUDGETS = (4_000, 8_000, 32_000)
PROVIDERS = ("core", "openai", "anthropic")
LENGTHS = (0.2, 0.4, 0.6, 0.8, 0.9, 1.0)


def read_conversations() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the name and the messages of each conversation."""
    for name, count in SETS.items():
        rows = load(name)
        step = max(1, len(rows) // count)
        for position, row in enumerate(rows[::step][:count]):
            yield f"{name}/{position}", row["messages"]


def describe_views(messages: list[Any], budget: int, provider: str, *, usage: bool) -> list[Any]:
    """Return hash, tokens, stable prefix and compaction of the views at each length."""
    curator = Curator(max_tokens=budget, provider=provider)
    described: list[Any] = []
    for share in LENGTHS:
        part = messages[: max(1, int(len(messages) * share))]
        try:
            curation = curator.curate(part, tail="request")
        except HistoryCuratorError as error:
            described.append(type(error).__name__)
            continue
        text = json.dumps(curation.messages, sort_keys=True, default=str)
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        report = curation.report
        described.append([digest, curation.tokens, report.prefix_entries, report.compacted])
        if usage:
            curation.observe({"prompt_tokens": int(curation.tokens * 1.2), "completion_tokens": 1})
    return described


def describe_all() -> dict[str, list[Any]]:
    """Return what is written down, by conversation, budget, provider and usage."""
    found = {}
    for name, messages in read_conversations():
        for budget in BUDGETS:
            for provider in PROVIDERS:
                for usage in (False, True):
                    key = f"{name} {budget} {provider}{' usage' if usage else ''}"
                    found[key] = describe_views(messages, budget, provider, usage=usage)
    return found


def main() -> None:
    """Save the views, or compare them with saved ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--compare", type=Path)
    options = parser.parse_args()
    found = describe_all()
    if options.save:
        options.save.write_text(json.dumps(found, indent=0))
    if options.compare:
        compare_views(json.loads(options.compare.read_text()), found)


def compare_views(before: dict[str, list[Any]], after: dict[str, list[Any]]) -> None:
    """Print each view that differs, and how many differ in what."""
    fields = ("messages", "tokens", "prefix", "compacted")
    changed = Counter[str]()
    for key, views in after.items():
        for position, (old, new) in enumerate(zip(before[key], views, strict=True)):
            if old == new:
                continue
            if isinstance(old, str) or isinstance(new, str):
                names = {"refused": (old, new)}
            else:
                found = zip(fields, old, new, strict=True)
                names = {name: (one, other) for name, one, other in found if one != other}
            changed.update(names.keys())
            print(key, position, *(f"{name}: {a} -> {b}" for name, (a, b) in names.items()))
    print(f"{sum(map(len, after.values()))} views; changed:", dict(changed))


if __name__ == "__main__":
    main()
