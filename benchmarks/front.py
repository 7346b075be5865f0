"""The table of the front page: the same sessions and budget under Curator and its alternatives.

Faults of the recordings, such as blank messages and unanswered calls, are repaired before anybody
is measured, so that the invalid requests of a row are its own.

    python -m benchmarks.front [--every 20] [--budgets 32000 8000]

prints the table; `python -m benchmarks.pictures --only tables` also writes it.
"""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.data import load
from benchmarks.peers import LlamaIndexMemory, Summarization
from history_curator import __version__, repair_conversation
from history_curator.lab import ReplayResults, replay
from history_curator.lab.results import PolicyResult, percent

BUDGETS = (32_000, 8_000)
POLICIES: dict[str, tuple[str, Callable[[int], Any]]] = {
    "curator": ("**History Curator**", lambda _: "curator"),
    "sliding": ("sliding window (valid, same budget)", lambda _: "sliding"),
    "trim_messages": ("LangChain `trim_messages`", lambda _: "trim_messages"),
    "summarization": ("LangChain `SummarizationMiddleware` †", Summarization),
    "clear-tool-uses": ("LangChain, clearing tool uses", lambda _: "clear-tool-uses"),
    "ChatMemoryBuffer": ("LlamaIndex `ChatMemoryBuffer`", lambda _: "ChatMemoryBuffer"),
    "memory": ("LlamaIndex `Memory`", LlamaIndexMemory),
    "no curation": ("everything", lambda _: "no curation"),
}
"""The policies of the table, with the name and how they are made for a budget."""
COLUMNS: dict[str, Callable[[PolicyResult], str]] = {
    "input cost*": lambda each: f"{each.cost:.1f}",
    "cached": lambda each: percent(each.cached_share),
    "edits in view": lambda each: percent(each.edits_share),
    "missed": lambda each: percent(each.missed, 1),
    "invalid": lambda each: f"{each.invalid:,}",
    "over budget": lambda each: f"{each.over_budget:,}",
    "refused": lambda each: f"{each.failed:,}",
}


def repair(sessions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the sessions as every provider takes them."""
    return [
        {"id": each["id"], "messages": repair_conversation(each["messages"], tail="history")}
        for each in sessions
    ]


def measure(sessions: Sequence[dict[str, Any]], budget: int) -> ReplayResults:
    """Replay every call of every session under every policy."""
    policies = {name: make(budget) for name, (_, make) in POLICIES.items()}
    return replay(sessions, policies, max_tokens=budget, progress=False)


def table(results: ReplayResults) -> list[str]:
    """Return the lines of the table."""
    lines = [f"| | {' | '.join(COLUMNS)} |", f"|---{'|---:' * len(COLUMNS)}|"]
    for name, (label, _) in POLICIES.items():
        cells = {head: text(results[name]) for head, text in COLUMNS.items()}
        if not results[name].measured:
            cells = dict.fromkeys(COLUMNS, "–")
        elif name == "summarization":
            cells["missed"] = "–"
        elif name == "curator":
            cells = {head: f"**{text}**" for head, text in cells.items()}
        lines.append(f"| {label} | {' | '.join(cells.values())} |")
    return lines


def describe(results: ReplayResults, budget: int) -> str:
    """Return the paragraph under the table."""
    curator = results["curator"]
    refused = (
        f" {curator.failed} calls have no view under Curator and the sliding window, because the "
        "latest question alone is larger than the budget: they count as missing all they needed."
        if curator.failed
        else ""
    )
    return (
        f"{curator.conversations} recorded coding-agent sessions, {curator.calls:,} calls, a budget of "
        f"{budget:,} tokens. *Cached*: sent tokens that repeat the start of the request before. *Edits "
        "in view*: calls that replace lines of a file while all these lines are in the view, of "
        f"{curator.edits:,}. *Missed*: identifiers and repeated calls whose source was not in the view "
        f"any more, of {curator.needed:,}. *Invalid*: requests that break a rule every provider shares; "
        "faults of the recordings were repaired for everybody. *Refused*: calls without a view."
        f"{refused} A policy can look cheap because it sends less of what is needed, so read the columns "
        "together.\n\n"
        "\\* millions of input tokens at full price, with Anthropic's prices for the prompt cache. "
        "† with a fixed text in place of the summary, and without the cost of writing it; what the "
        "summary would hold depends on the model.\n\n"
        f"Measured {dt.datetime.now(tz=dt.timezone.utc).date()} with version {__version__} by "
        "`python -m benchmarks.pictures`."
    )


def main() -> None:
    """Print the table for each budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take one session of so many")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    options = parser.parse_args()
    sessions = repair(load("coding_sessions")[:: options.every])
    for budget in options.budgets:
        results = measure(sessions, budget)
        print(*table(results), "", describe(results, budget), "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
