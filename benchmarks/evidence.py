"""How often the view of a chat holds everything that a question needs, and what that costs.

LoCoMo, BEAM-100K and generated chats with questions, each asked at the end of its chat. A question
counts when every message of its evidence is in the view, word for word; questions without evidence
are left out. Behind the share stands the cost: tokens a call at full price while the chat grows by
one message of the user after another, with reads from the prompt cache at a tenth and writes at a
quarter extra. Settings were chosen on the first half of the chats; the second half is reported.

    python -m benchmarks.evidence [--half all] [--sets locomo] [--budgets 8000] [--step 4] [--write]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.chats import generated_chat
from benchmarks.data import GENERATED, Message, is_first_half, load
from history_curator import BudgetUnsatisfiableError, ConversationEntry, Curator, RelevanceManager
from history_curator.formats import find_format
from history_curator.quoting import entry_text, read_block
from history_curator.tokens import get_counter

SETS = {
    "locomo": (2_000, 4_000, 8_000, 16_000),
    "beam100k": (2_000, 4_000, 8_000, 16_000, 32_000),
    "generated": (2_000, 4_000, 8_000),
}
PAGE = GENERATED / "evidence.md"
COUNTER = get_counter("o200k_base")
READ, WRITE = 0.1, 1.25
COSTED = 2
"""Chats of a set whose cost is measured: it takes a view for each message of the user."""

View = Sequence[ConversationEntry]
Policy = Callable[[list[Message]], View]


def keep_newest(max_tokens: int, *, users_only: bool = False) -> Policy:
    """Return a window of the system messages and as many of the latest others as fit.

    `trim_messages` and `ChatMemoryBuffer` show the same of these chats.
    """

    def view(messages: list[Message]) -> View:
        format = find_format(messages)
        entries = [entry for at, each in enumerate(messages) for entry in format.read(each, at)]
        available, shown = max_tokens - COUNTER.priming, list[ConversationEntry]()
        for entry in reversed(entries):
            if users_only and not entry.is_real_user:
                continue
            available -= COUNTER.count_entry(entry)
            if available < 0:
                break
            shown.append(entry)
        return shown[::-1]

    return view


def curate(max_tokens: int, *managers: Any, **options: Any) -> Policy:
    """Return the views of a curator."""
    curator = Curator(*managers, max_tokens=max_tokens, counter=COUNTER, **options)

    def view(messages: list[Message]) -> View:
        try:
            curation = curator.curate(messages, tail="request")
        except BudgetUnsatisfiableError:
            return []
        assert curation.tokens <= max_tokens, "the view is over its budget"
        return curation.entries

    return view


POLICIES: dict[str, Callable[[int], Policy]] = {
    "newest that fit": keep_newest,
    "newest user messages only": lambda budget: keep_newest(budget, users_only=True),
    "`Curator(retrieve=False)`": lambda budget: curate(budget, retrieve=False),
    "**`Curator`**": curate,
    "`RelevanceManager`": lambda budget: curate(budget, RelevanceManager(), retrieve=False),
}


def read_chats(name: str, *, half: str = "all", step: int = 1) -> list[dict[str, Any]]:
    """Return the chats of one set, with every so many of their questions."""
    chats = [generated_chat(seed) for seed in range(1, 9)] if name == "generated" else load(name)
    if half != "all":
        chats = [each for each in chats if is_first_half(each["id"]) is (half == "first")]
    for chat in chats:
        chat["questions"] = [each for each in chat["questions"] if each["evidence"]][::step]
    return chats


def find_evidence(chat: dict[str, Any], view: Policy) -> float:
    """Return the share of a chat's questions whose whole evidence is in the view."""
    found = 0
    for question in chat["questions"]:
        asked = {"role": "user", "content": question["question"]}
        before = chat["messages"][: question["ask_after"] + 1]
        shown = view([*before, *question.get("before", ()), asked])
        text = "\n".join(map(read_text, shown))
        found += all(chat["messages"][index]["content"] in text for index in question["evidence"])
    return found / len(chat["questions"])


def read_text(entry: ConversationEntry) -> str:
    """Return what an entry says; of a block of ours the quoted lines as they were."""
    if entry.origin != "recollection":
        return entry_text(entry)
    return "\n".join(line.text for line in read_block(entry.content or ""))


def measure_cost(chat: dict[str, Any], view: Policy) -> float:
    """Return the tokens a call at full price while a chat grows."""
    cost, calls, before = 0.0, 0, list[tuple[Any, str | None]]()
    for end, message in enumerate(chat["messages"], start=1):
        if message["role"] != "user":
            continue
        shown = view(chat["messages"][:end])
        now = [(entry.role, entry.content) for entry in shown]
        pairs = enumerate(zip(now, before, strict=False))
        same = next((at for at, (new, old) in pairs if new != old), min(len(now), len(before)))
        sizes = [COUNTER.count_entry(entry) for entry in shown]
        cost += READ * sum(sizes[:same]) + WRITE * sum(sizes[same:])
        calls, before = calls + 1, now
    return cost / max(1, calls)


def table(name: str, chats: list[dict[str, Any]], budgets: Sequence[int]) -> list[str]:
    """Return the table of one set, printing it as it grows."""
    count = sum(len(chat["questions"]) for chat in chats)
    lines = [
        f"{name}: {len(chats)} chats, {count} questions",
        "",
        f"| policy | {' | '.join(f'{budget:,}' for budget in budgets)} |",
        f"|---{'|---:' * len(budgets)}|",
    ]
    print(*lines, sep="\n", flush=True)
    for policy, make in POLICIES.items():
        cells = []
        for budget in budgets:
            share = sum(find_evidence(chat, make(budget)) for chat in chats) / len(chats)
            costs = [measure_cost(chat, make(budget)) for chat in chats[:COSTED]]
            cells.append(f"{share:.3f} at {sum(costs) / len(costs):,.0f}")
        lines.append(f"| {policy} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return [*lines, ""]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, and write them when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("first", "second", "all"), default="second")
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=tuple(SETS))
    parser.add_argument("--budgets", nargs="+", type=int)
    parser.add_argument("--step", type=int, default=1, help="every so many of the questions")
    parser.add_argument("--write", action="store_true", help="also write docs/generated")
    options = parser.parse_args(arguments)
    lines = ["Written by `python -m benchmarks.evidence --write`.", ""]
    for name in options.sets:
        chats = read_chats(name, half=options.half, step=options.step)
        lines += table(name, chats, options.budgets or SETS[name])
    if options.write:
        PAGE.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
