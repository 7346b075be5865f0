"""Requests over a provider's limit, where the provider counts otherwise than we do.

Conversations are drawn from seeds: limits from 1,000 to 32,000 tokens, other tokenizers, hidden
system prompts, a model that begins to count otherwise without notice, tools, late system messages,
budgets lowered for one call, usage reports that messages carry or that are observed, and that get
lost. Each request over the limit is told apart by whether anybody could have known.

    python -m benchmarks.provider [--seeds 100] [--write]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.data import GENERATED
from tests.support import windows

PAGE = GENERATED / "provider.md"
FIRST_SEED = 1_000
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "core, reports are observed": (windows.Core, {"tell": "observed"}),
    "core, reports are carried by messages": (windows.Core, {"tell": "carried"}),
    "core, a limit of 1,000": (windows.Core, {"limit": 1_000, "hidden": 50}),
    "core, `compact_to=0.5`": (windows.Core, {"compact_to": 0.5}),
    "core, carried, late system messages, every third budget lowered": (
        windows.Core,
        {"tell": "carried", "late": 0.06, "lowered": 0.33},
    ),
    "LangChain runnable": (windows.LangChain, {"tell": "carried", "lowered": 0.0}),
    "LlamaIndex LLM": (windows.LlamaIndex, {"lowered": 0.0}),
}
COLUMNS = {
    "though foretold": (windows.KNOWN,),
    "beyond the stated error": (windows.BEYOND,),
    "nothing reported yet": (windows.UNHEARD,),
    "reported once, by a message": (windows.DOUBTED,),
    "nothing smaller there": (windows.LEAST,),
    "refused by us": (windows.REFUSED, windows.NEEDLESS),
    "needlessly": (windows.NEEDLESS,),
}


def table(seeds: Sequence[int]) -> list[str]:
    """Have the conversations, and return how many requests became what, printing as they come."""
    lines = [
        f"{len(seeds):,} conversations drawn from seeds, in each row. Over the limit were:",
        "",
        f"| | requests | {' | '.join(COLUMNS)} |",
        f"|---|---:{'|---:' * len(COLUMNS)}|",
    ]
    print(*lines, sep="\n", flush=True)
    for name, (socket, changes) in KINDS.items():
        found = windows.outcomes(seeds, socket, **changes)
        counts = [found.total(), *(sum(found[kind] for kind in each) for each in COLUMNS.values())]
        lines.append(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |")
        print(lines[-1], flush=True)
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and write it when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="conversations in each row")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args(arguments)
    lines = table(range(FIRST_SEED, FIRST_SEED + options.seeds))
    if options.write:
        PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
