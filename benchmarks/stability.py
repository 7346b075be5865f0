"""What the default view is worth on growing coding sessions, and how full and steady it stays.

One view per model call of every recorded session above 40k tokens. *Repeated* is the share of sent
tokens that is a byte-identical prefix of the view before; *visible* is the share of argument values
that occurred earlier in the record and are in the view when the call is made; *edits* is the share
of edit calls whose replaced lines, as far as they had been shown, are all in the view; *cost* is
input tokens a call at full price, with reads from the prompt cache at a tenth and writes at a
quarter extra. *Broken* counts views that did not repeat what the report before them promised.

The sessions are also taken as two halves, told apart by a hash of their ids: what is set on one
half is worth what it does on the other. Where calls were refused, because the question alone is
larger than the budget, a row over the calls that were answered stands beside that over all.

    python -m benchmarks.stability [--every N] [--budgets 8000 32000] [--write]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.data import GENERATED, is_first_half, load
from history_curator import BudgetUnsatisfiableError, ConversationEntry, Curation, Curator
from history_curator.lab import LabConversation
from history_curator.lab.conversations import count_visible_edits, searchable_text
from history_curator.lab.run_replay import count_repeated
from history_curator.rules import get_profile
from history_curator.tokens import get_counter
from history_curator.units import pair

PAGE = GENERATED / "stability.md"
BUDGETS = (8_000, 16_000, 32_000, 64_000, 128_000)
LEAST_TOKENS = 40_000
READ, WRITE = 0.1, 1.25
COLUMNS = (
    "budget", "policy", "repeated", "visible", "edits", "cost", "tokens a call", "too small",
    "compactions", "broken",
)  # fmt: skip
HALVES = (
    "*Half a* and *half b* are the same sessions by a hash of their ids. The share of the recap and "
    "of its newest lines was chosen on half a; how deep a compaction goes and where a result is capped, on "
    "all of them."
)
REFUSED = (
    "*Too small* counts calls that were refused: the latest question is sent whole or not at all, "
    "unless the caller opts in to cutting user text, and in one session the user pasted a log of "
    "17,429 tokens. These calls count as seeing nothing, but for the rows over answered calls."
)

View = Sequence[ConversationEntry]
Policy = Callable[[list[dict[str, Any]]], "View | Curation"]


def suffix(max_tokens: int) -> Policy:
    """Return a window: the system message and the newest exchanges that fit."""
    reader = Curator()
    count = reader.counter.count_entry

    def view(messages: list[dict[str, Any]]) -> View:
        entries = reader.curate(messages, tail="request").entries
        units = pair(entries)
        inside = {id(entry) for unit in units for entry in unit.entries}
        system = [entry for entry in entries if id(entry) not in inside]
        available = max_tokens - reader.counter.priming - sum(map(count, system))
        start = len(units)
        while start > 0:
            available -= sum(map(count, units[start - 1].entries))
            if available < 0:
                break
            start -= 1
        return [*system, *(entry for unit in units[start:] for entry in unit.entries)]

    return view


def default(max_tokens: int) -> Policy:
    """Return ours."""
    curator = Curator(max_tokens=max_tokens)
    return lambda messages: curator.curate(messages, tail="request")


class Session:
    """A record, and what each of its model calls needed."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.record = LabConversation(str(row["id"]), row["messages"])
        self.half = "a" if is_first_half(self.record.id) else "b"
        self.edits = self.record.edits
        self.needs: dict[int, list[str]] = defaultdict(list)
        for need in row.get("dependencies", ()):
            self.needs[need["at"]].append(str(need["value"]))


def measure(
    sessions: Iterable[Session], make: Callable[[int], Policy], budget: int
) -> Counter[str]:
    """Replay every model call of every session under one policy, and count.

    Raises:
        AssertionError: when a view of ours is over its budget, miscounted, or breaks a rule.
    """
    score = Counter[str]()
    counter, rules = get_counter("o200k_base"), get_profile("core")
    for session in sessions:
        policy, promised = make(budget), 0
        before: View = ()
        for at in session.record.calls:
            needs, edits = session.needs.get(at, ()), session.edits.get(at, ())
            score.update(needed=len(needs), edits=len(edits))
            try:
                view = policy(session.record.messages[:at])
            except BudgetUnsatisfiableError:
                score.update(refused=1, unseen=len(needs), unedited=len(edits))
                continue
            entries = view.entries if isinstance(view, Curation) else view
            sizes = list(map(counter.count_entry, entries))
            repeated = count_repeated(before, entries)
            score.update(calls=1, sent=sum(sizes), repeated=sum(sizes[:repeated]))
            if isinstance(view, Curation):
                assert sum(sizes) + counter.priming == view.tokens <= budget
                assert not rules.find(list(entries))
                is_broken = not view.report.compacted and repeated < promised
                score.update(compactions=view.report.compacted, broken=is_broken)
                promised = view.report.prefix_entries
            before = entries
            shown = "\n".join(map(searchable_text, entries)) if needs else ""
            score["visible"] += sum(
                value in shown or json.dumps(value)[1:-1] in shown for value in needs
            )
            score["whole"] += count_visible_edits(edits, entries)
    return score


def row(score: Counter[str], name: str, budget: int, *, promises: bool = True) -> str:
    """Return a line of the table."""
    shares = (("repeated", "sent"), ("visible", "needed"), ("whole", "edits"))
    cells = [f"{budget:,}", name, *(f"{score[a] / max(1, score[b]):.3f}" for a, b in shares)]
    calls = max(1, score["calls"])
    cost = (score["repeated"] * READ + (score["sent"] - score["repeated"]) * WRITE) / calls
    cells += [f"{cost:,.0f}", f"{score['sent'] // calls:,}", str(score["refused"])]
    cells += [f"{score['compactions']:,}", str(score["broken"])] if promises else ["", ""]
    return f"| {' | '.join(cells)} |"


def sessions_table(budgets: Sequence[int], every: int = 1) -> list[str]:
    """Return the table of the recorded sessions, printing it as it grows."""
    rows = [
        each for each in load("coding_sessions") if each["stats"]["tokens_o200k"] > LEAST_TOKENS
    ]
    sessions = list(map(Session, rows[::every]))
    table = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    printed = refused = 0
    for budget in budgets:
        window = measure(sessions, suffix, budget)
        halves = {
            half: measure([each for each in sessions if each.half == half], default, budget)
            for half in "ab"
        }
        score = halves["a"] + halves["b"]
        table.append(row(window, "latest that fit", budget, promises=False))
        table.append(row(score, "default", budget))
        if score["refused"]:
            answered = score - Counter(
                needed=score["unseen"], edits=score["unedited"], refused=score["refused"]
            )
            table.append(row(answered, "default, answered", budget))
        refused += score["refused"]
        table += [row(halves[half], f"default, half {half}", budget) for half in "ab"]
        print(*table[printed:], sep="\n", flush=True)
        printed = len(table)
    return [*table, "", HALVES, *(["", REFUSED] if refused else ())]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and write it when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take one session of so many")
    parser.add_argument("--budgets", type=int, nargs="+", default=list(BUDGETS))
    parser.add_argument("--write", action="store_true", help="also write docs/generated")
    options = parser.parse_args(arguments)
    text = "\n".join(sessions_table(options.budgets, options.every))
    if options.write:
        PAGE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
