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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from zlib import crc32

from benchmarks.data import GENERATED, load
from history_curator import BudgetUnsatisfiableError, ConversationEntry, Curation, Curator
from history_curator.formats import detect
from history_curator.rules import get_profile
from history_curator.tokens import get_counter
from history_curator.units import pair

PAGE = GENERATED / "stability.md"
BUDGETS = (8_000, 16_000, 32_000, 64_000, 128_000)
LEAST_TOKENS = 40_000
READ, WRITE = 0.1, 1.25
SHORTEST_LINE = 12
REPLACED = ("old_string", "oldText", "old_str")
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
    """A record, its model calls, and what each of them needed."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.messages: list[dict[str, Any]] = row["messages"]
        self.half = "ab"[crc32(str(row["id"]).encode()) % 2]
        format = detect(self.messages)
        read = [format.read(message, at) for at, message in enumerate(self.messages)]
        texts = ["\n".join(map(_text, entries)) for entries in read]
        self.calls = [at for at, each in enumerate(self.messages) if at and _speaks(each)]
        self.needs: dict[int, list[str]] = {}
        for need in row.get("dependencies", ()):
            self.needs.setdefault(need["at"], []).append(str(need["value"]))
        self.edits: dict[int, list[list[str]]] = {}
        for at in self.calls:
            for call in self.messages[at].get("tool_calls") or ():
                replaced = _replaced(call["function"]["arguments"])
                lines = dict.fromkeys(line.strip() for line in replaced.split("\n"))
                before = "\n".join(texts[:at]) if replaced else ""
                known = [each for each in lines if len(each) >= SHORTEST_LINE and each in before]
                if known:
                    self.edits.setdefault(at, []).append(known)


def _speaks(message: dict[str, Any]) -> bool:
    return bool(message["role"] == "assistant")


def _replaced(arguments: str) -> str:
    """The text that an edit call replaces; nothing for any other call."""
    values = _values(arguments)
    return next((values[name] for name in REPLACED if isinstance(values.get(name), str)), "")


def _values(arguments: str) -> dict[str, Any]:
    try:
        values = json.loads(arguments)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _text(entry: ConversationEntry) -> str:
    calls = [call.arguments for call in entry.tool_calls or ()]
    plain = [value for each in calls for value in _values(each).values() if isinstance(value, str)]
    return "\n".join([entry.content or "", *calls, *plain])


@dataclass
class Score:
    """What one policy did."""

    calls: int = 0
    sent: int = 0
    repeated: int = 0
    needed: int = 0
    visible: int = 0
    edits: int = 0
    whole: int = 0
    refused: int = 0
    unseen: int = 0
    unedited: int = 0
    broken: int = 0
    compactions: int = 0

    def __add__(self, other: Score) -> Score:
        """Return what was done in both."""
        return Score(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        )

    @property
    def cost(self) -> float:
        """Input tokens a call, at full price."""
        return (self.repeated * READ + (self.sent - self.repeated) * WRITE) / max(1, self.calls)

    @property
    def answered(self) -> Score:
        """The same over the calls that were not refused."""
        return replace(
            self, needed=self.needed - self.unseen, edits=self.edits - self.unedited, refused=0
        )

    def row(self, name: str, budget: int, *, promises: bool) -> str:
        """Return a line of the table."""
        shares = (
            self.repeated / max(1, self.sent),
            self.visible / max(1, self.needed),
            self.whole / max(1, self.edits),
        )
        text = " | ".join(f"{share:.3f}" for share in shares)
        promised = f"{self.compactions:,} | {self.broken}" if promises else " | "
        return (
            f"| {budget:,} | {name} | {text} | {self.cost:,.0f} "
            f"| {self.sent // max(1, self.calls):,} | {self.refused} | {promised} |"
        )


def measure(sessions: Iterable[Session], make: Callable[[int], Policy], budget: int) -> Score:
    """Replay every model call of every session under one policy.

    Raises:
        AssertionError: when a view of ours is over its budget, miscounted, or breaks a rule.
    """
    score = Score()
    counter, rules = get_counter("o200k_base"), get_profile("core")
    for session in sessions:
        policy = make(budget)
        before: View = ()
        promised = 0
        for at in session.calls:
            score.needed += len(session.needs.get(at, ()))
            score.edits += len(session.edits.get(at, ()))
            try:
                view = policy(session.messages[:at])
            except BudgetUnsatisfiableError:
                score.refused += 1
                score.unseen += len(session.needs.get(at, ()))
                score.unedited += len(session.edits.get(at, ()))
                continue
            curation = view if isinstance(view, Curation) else None
            entries = view.entries if isinstance(view, Curation) else view
            sizes = list(map(counter.count_entry, entries))
            score.calls += 1
            score.sent += sum(sizes)
            common = _common(before, entries)
            score.repeated += sum(sizes[:common])
            if curation is not None:
                assert sum(sizes) + counter.priming == curation.tokens <= budget
                assert not rules.find(list(entries))
                score.compactions += curation.report.compacted
                score.broken += not curation.report.compacted and common < promised
                promised = curation.report.prefix_entries
            before = entries
            if at in session.needs or at in session.edits:
                shown = "\n".join(map(_text, entries))
                for value in session.needs.get(at, ()):
                    score.visible += value in shown or json.dumps(value)[1:-1] in shown
                for lines in session.edits.get(at, ()):
                    score.whole += all(line in shown for line in lines)
    return score


def _common(before: View, after: View) -> int:
    for at, (mine, theirs) in enumerate(zip(before, after, strict=False)):
        if mine is not theirs and mine != theirs:
            return at
    return min(len(before), len(after))


def sessions_table(budgets: Sequence[int], every: int = 1) -> list[str]:
    """Return the table of the recorded sessions, printing it as it grows."""
    rows = [
        each for each in load("coding_sessions") if each["stats"]["tokens_o200k"] > LEAST_TOKENS
    ]
    sessions = list(map(Session, rows[::every]))
    table = [
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    printed, refused = 0, False
    for budget in budgets:
        table.append(
            measure(sessions, suffix, budget).row("latest that fit", budget, promises=False)
        )
        halves = {
            half: measure([each for each in sessions if each.half == half], default, budget)
            for half in "ab"
        }
        score = halves["a"] + halves["b"]
        table.append(score.row("default", budget, promises=True))
        if score.refused:
            table.append(score.answered.row("default, answered", budget, promises=True))
        refused = refused or bool(score.refused)
        table += [halves[half].row(f"default, half {half}", budget, promises=True) for half in "ab"]
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
