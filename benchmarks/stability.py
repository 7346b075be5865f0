"""What the ladder is worth: repeated prefix and visible dependencies on growing coding sessions.

One view per model call of every recorded session above 40k tokens. *Repeated* is the share of
sent tokens that is a byte-identical prefix of the view before; *visible* is the share of argument
values that occurred earlier in the record and are still in the view when the call is made.

    python -m benchmarks.stability [--every N] [--budgets 8000 32000]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._data import load
from history_curator import BudgetUnsatisfiableError, ConversationEntry, Curator, MessageRole
from history_curator.seal._grid import cell_size, line_at_or_after
from history_curator.structure import pair
from history_curator.tokens import TokenCounter, get_counter

View = Sequence[ConversationEntry]
Policy = Callable[[list[dict[str, Any]]], View]


class Suffix:
    """Keep the system message and the newest exchanges; cut just enough, or on the grid."""

    def __init__(self, max_tokens: int, *, grid: bool) -> None:
        self.room = max_tokens
        self.cell = cell_size(max_tokens, None) if grid else 0
        self.reader = Curator()

    def __call__(self, messages: list[dict[str, Any]]) -> View:
        """Return the view."""
        entries = self.reader.curate(messages).entries
        count = self.reader.counter.count_entry
        system = [entry for entry in entries if entry.role is MessageRole.SYSTEM]
        units = pair(entries)
        room = self.room - sum(map(count, system))
        start = len(units)
        while start > 0 and (room := room - sum(map(count, units[start - 1].entries))) >= 0:
            start -= 1
        start = line_at_or_after(units, start, max(0, len(units) - 1), self.cell)
        return [*system, *(entry for unit in units[start:] for entry in unit.entries)]


class Default:
    """Ours."""

    def __init__(self, max_tokens: int) -> None:
        self.curator = Curator(max_tokens=max_tokens)

    def __call__(self, messages: list[dict[str, Any]]) -> View:
        """Return the view."""
        return self.curator.curate(messages).entries


@dataclass
class Score:
    """What one policy did."""

    sent: int = 0
    repeated: int = 0
    needed: int = 0
    visible: int = 0
    refused: int = 0
    calls: int = 0

    def row(self, name: str, budget: int) -> str:
        """Return a line of the table."""
        repeated, visible = self.repeated / max(1, self.sent), self.visible / max(1, self.needed)
        mean = self.sent // max(1, self.calls)
        return (
            f"| {budget:,} | {name} | {repeated:.3f} | {visible:.3f} | {mean:,} | {self.refused} |"
        )


def measure(conversations: Iterable[dict[str, Any]], make: Callable[[], Policy]) -> Score:
    """Replay every model call of every conversation under one policy."""
    score = Score()
    counter = get_counter("o200k_base")
    for conversation in conversations:
        wanted: dict[int, list[str]] = {}
        for dependency in conversation["dependencies"]:
            wanted.setdefault(dependency["at"], []).append(str(dependency["value"]))
        policy, previous = make(), None
        for at, message in enumerate(conversation["messages"]):
            if message["role"] != "assistant" or not at:
                continue
            try:
                view = policy(conversation["messages"][:at])
            except BudgetUnsatisfiableError:
                score.refused += 1
                continue
            score.calls += 1
            score.sent += sum(map(counter.count_entry, view))
            score.repeated += _repeated(previous, view, counter)
            previous = view
            shown = _text(view) if at in wanted else ""
            for value in wanted.get(at, ()):
                score.needed += 1
                score.visible += value in shown or json.dumps(value)[1:-1] in shown
    return score


def _repeated(before: View | None, after: View, counter: TokenCounter) -> int:
    total = 0
    for mine, theirs in zip(before or (), after, strict=False):
        if mine is not theirs and mine != theirs:
            break
        total += counter.count_entry(mine)
    return total


def _text(view: View) -> str:
    return "\n".join(
        text
        for entry in view
        for text in (entry.content or "", *(call.arguments for call in entry.tool_calls or ()))
    )


def main(arguments: Sequence[str] | None = None) -> str:
    """Print and return the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take one session of so many")
    parser.add_argument("--budgets", type=int, nargs="+", default=[4_000, 8_000, 32_000])
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    options = parser.parse_args(arguments)
    sessions = [each for each in load("coding_sessions") if each["stats"]["tokens_o200k"] > 40_000]
    sessions = sessions[:: options.every]
    lines = [
        "| budget | policy | repeated | visible | tokens a call | too small |",
        "|---|---|---|---|---|---|",
    ]
    for budget in options.budgets:
        policies: dict[str, Callable[[], Policy]] = {
            "suffix, just enough": lambda budget=budget: Suffix(budget, grid=False),  # type: ignore[misc]
            "suffix, cut on the grid": lambda budget=budget: Suffix(budget, grid=True),  # type: ignore[misc]
            "Curator, default": lambda budget=budget: Default(budget),  # type: ignore[misc]
        }
        for name, make in policies.items():
            lines.append(measure(sessions, make).row(name, budget))
            print(lines[-1], flush=True)
    table = "\n".join(lines)
    if options.out:
        options.out.write_text(table + "\n", encoding="utf-8")
    return table


if __name__ == "__main__":
    main()
