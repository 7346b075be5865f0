"""How much of what a question or a call needs is in the view.

*chats*: LoCoMo, BEAM-100K and generated conversations with questions. A question counts when every
message of its evidence is in the view, word for word; questions without evidence are left out. The
mean over the conversations stands beside the worst of them. *coding*: the share of values that
model calls of recorded sessions use and that occurred before, which their view still holds.

    python -m benchmarks.evidence [--quick] [--only chats coding] [--sets locomo] [--write]
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.chats import generated_chat
from benchmarks.data import GENERATED, Message, load, message_text
from history_curator import BudgetUnsatisfiableError, Curator, RelevanceManager
from history_curator.managers.search import entry_text
from history_curator.tokens import get_counter

SETS = {
    "locomo": (2_000, 4_000, 8_000),
    "beam100k": (2_000, 4_000, 8_000, 16_000, 32_000),
    "generated": (2_000, 4_000, 8_000),
}
CODING_BUDGETS = (8_000, 32_000)
PAGE = GENERATED / "evidence.md"
COUNTER = get_counter("o200k_base")

View = Callable[[list[Message]], str]


def keep_newest(max_tokens: int) -> View:
    """Return a window of the system messages and as many of the latest others as fit.

    `trim_messages` and `ChatMemoryBuffer` show the same of these conversations.
    """

    def view(messages: list[Message]) -> str:
        system = [message for message in messages if message["role"] == "system"]
        available = max_tokens - COUNTER.priming
        available -= sum(COUNTER.count(message_text(message)) + 3 for message in system)
        shown: list[str] = []
        for message in reversed([each for each in messages if each["role"] != "system"]):
            available -= COUNTER.count(message_text(message)) + 3
            if available < 0:
                break
            shown.append(message_text(message))
        return "\n".join([*map(message_text, system), *reversed(shown)])

    return view


def curate(max_tokens: int, *managers: Any) -> View:
    """Return the text of a curator's view."""
    curator = Curator(*managers, max_tokens=max_tokens, counter=COUNTER)

    def view(messages: list[Message]) -> str:
        try:
            curation = curator.curate(messages)
        except BudgetUnsatisfiableError:
            return ""
        assert curation.tokens <= max_tokens, "the view is over its budget"
        return "\n".join(map(entry_text, curation.entries))

    return view


def curate_with_relevance(max_tokens: int) -> View:
    """Return the text of a view with earlier parts that match the question."""
    return curate(max_tokens, RelevanceManager())


POLICIES: dict[str, Callable[[int], View]] = {
    "newest that fit": keep_newest,
    "Curator, no managers": curate,
    "RelevanceManager": curate_with_relevance,
}


def read_chats(name: str, *, step: int = 1) -> list[dict[str, Any]]:
    """Return the conversations of one set, with every so many of their questions."""
    chats = [generated_chat(seed) for seed in range(1, 9)] if name == "generated" else load(name)
    for chat in chats:
        chat["questions"] = [each for each in chat["questions"] if each["evidence"]][::step]
    return chats


def find_evidence(chat: dict[str, Any], view: View, *, reads_question: bool) -> float:
    """Return the share of a conversation's questions whose whole evidence is in the view."""
    found, text = 0, ""
    for number, question in enumerate(chat["questions"]):
        if reads_question or number == 0:
            asked = {"role": "user", "content": question["question"]}
            before = chat["messages"][: question["ask_after"] + 1]
            text = view([*before, *question.get("before", ()), asked])
        found += all(chat["messages"][index]["content"] in text for index in question["evidence"])
    return found / len(chat["questions"])


def chat_table(names: Sequence[str], step: int) -> list[str]:
    """Return the tables of the conversations with questions, printing them as they grow."""
    lines: list[str] = []
    for name in names:
        chats = read_chats(name, step=step if name == "locomo" else 1)
        count = sum(len(chat["questions"]) for chat in chats)
        budgets = SETS[name]
        lines += [
            f"{name}: {count} questions, all evidence in the view (mean/worst conversation)",
            "",
            f"| policy | {' | '.join(f'{budget:,}' for budget in budgets)} |",
            f"|---{'|---:' * len(budgets)}|",
        ]
        print(*lines[-4:], sep="\n", flush=True)
        for policy, make in POLICIES.items():
            cells = []
            for budget in budgets:
                reads_question = make is curate_with_relevance
                shares = [
                    find_evidence(chat, make(budget), reads_question=reads_question)
                    for chat in chats
                ]
                cells.append(f"{sum(shares) / len(shares):.3f}/{min(shares):.3f}")
            lines.append(f"| {policy} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
        lines.append("")
    return lines


def coding_table(step: int) -> list[str]:
    """Return the table of the recorded coding sessions."""
    sessions = load("coding_sessions")[::step]
    lines = [
        f"coding_sessions ({len(sessions)}): values needed by a call, still in its view",
        "",
        "| budget | Curator, no managers | RelevanceManager |",
        "|---|---:|---:|",
    ]
    for budget in CODING_BUDGETS:
        cells = []
        for make in (curate, curate_with_relevance):
            found = total = 0
            for session in sessions:
                needed: dict[int, list[str]] = defaultdict(list)
                for dependency in session["dependencies"]:
                    needed[dependency["at"]].append(dependency["value"])
                view = make(budget)
                for at, values in sorted(needed.items()):
                    text = view(session["messages"][:at])
                    total += len(values)
                    found += sum(value in text for value in values)
            cells.append(f"{found / total:.3f}")
        lines.append(f"| {budget:,} | {' | '.join(cells)} |")
    print(*lines, sep="\n", flush=True)
    return lines


def write_part(name: str, lines: Sequence[str], page: Path = PAGE) -> None:
    """Replace one part of the page, and leave the other."""
    known = page.read_text(encoding="utf-8") if page.exists() else ""
    parts = dict(re.findall(r"<!-- (\w+) -->\n(.*?)(?=\n<!-- |\Z)", known, re.DOTALL))
    parts[name] = "\n".join(lines).strip()
    text = "Written by `python -m benchmarks.evidence --write`; `--only` replaces one part.\n"
    for each in ("chats", "coding"):
        text += f"\n<!-- {each} -->\n{parts[each].strip()}\n" if each in parts else ""
    page.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, and write them when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a part of the questions and sessions")
    parser.add_argument(
        "--only", nargs="+", choices=("chats", "coding"), default=("chats", "coding")
    )
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=tuple(SETS))
    parser.add_argument("--write", action="store_true", help="also write docs/generated")
    options = parser.parse_args(arguments)
    for part in options.only:
        if part == "chats":
            lines = chat_table(options.sets, step=4 if options.quick else 1)
        else:
            lines = coding_table(step=24 if options.quick else 2)
        if options.write:
            write_part(part, lines)


if __name__ == "__main__":
    main()
