"""What the recap tells the model, and what it is worth.

Recorded coding sessions and support conversations are curated before each of their calls. *Needed*
is the share of values their calls name that the view shows, *edits* the share of edits that find
their lines; both once with and once without (*bare*) the recap. In the views with a recap, *user words* is
the share of user messages that left whose beginning it quotes, *used* the share of its values that
a later call names, *junk* the share that `is_junk` holds for, and *order* counts user lines that
stand behind a newer message of the user.

    python -m benchmarks.recap [--half first] [--sets coding support] [--step 4] [--write]
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.data import GENERATED, is_first_half, load
from history_curator import BudgetUnsatisfiableError, Curator
from history_curator.entries import ConversationEntry
from history_curator.lab.conversations import LabConversation, count_visible_edits
from history_curator.quoting import join_lines, read_block
from history_curator.tokens import get_counter

SETS = {"coding": ("coding_sessions",), "support": ("tau_bench", "tau2_bench")}
BUDGETS = (8_000, 16_000, 32_000)
PAGE = GENERATED / "recap.md"
COUNTER = get_counter("o200k_base")
BEGINNING = 40
_MARKER = re.compile(r"\s*[\[<]")


def is_junk(label: str, value: str) -> bool:
    """Whether nobody can tell a value's meaning: numbers without a name, either/or words, tags."""
    if value.isdigit():
        return not re.search(r"id|number|code|zip|phone|pid|port|line", label, re.IGNORECASE)
    either_or = re.fullmatch(r"[A-Za-z]+/[A-Za-z]+", value)
    return bool(either_or or re.fullmatch(r"/?[a-z]+[1-9]?", value) or value.startswith("<"))


def measure(messages: Sequence[Any], budget: int) -> Counter[str]:
    """Return the counts of one conversation."""
    record = LabConversation("", list(messages))
    edits, found = record.edits, Counter[str]()
    needed = {
        call: [each for each in every if each.kind == "identifier"]
        for call, every in record.dependencies.items()
    }
    with_recap = Curator(max_tokens=budget, counter=COUNTER)
    without = Curator(max_tokens=budget, counter=COUNTER, recap=False)
    seen = ""
    for call in record.calls:
        for name, curator in (("", with_recap), ("bare ", without)):
            try:
                sent = curator.curate(record.entries[:call], tail="request").entries
            except BudgetUnsatisfiableError:
                continue
            missing = record.find_missing(needed.get(call, ()), sent)
            found[f"{name}needed"] += len(needed.get(call, ()))
            found[f"{name}shown"] += len(needed.get(call, ())) - len(missing)
            found[f"{name}edits"] += len(edits.get(call, ()))
            found[f"{name}ready"] += count_visible_edits(edits.get(call, ()), sent)
            notes = "\n".join(e.content or "" for e in sent if e.origin == "recap")
            if notes != seen and not name:
                seen = notes
                found.update(judge_recap(record, call, sent))
    return found


def judge_recap(
    record: LabConversation, call: int, sent: Sequence[ConversationEntry]
) -> Counter[str]:
    """Return what the recaps of one view hold."""
    found = Counter[str]()
    shown = {record.index_of.get(id(entry.root), -1) for entry in sent}
    gone = {
        join_lines(entry.content or "")[:BEGINNING]: index
        for index, entry in enumerate(record.entries[:call])
        if entry.is_real_user and index not in shown and not _MARKER.match(entry.content or "")
    }
    later = "\n".join(
        each.arguments for entry in record.entries[call:] for each in entry.tool_calls or ()
    )
    newest = -1
    told = set[str]()
    for entry in sent:
        if entry.origin != "recap":
            newest = max(newest, record.index_of.get(id(entry.root), -1))
            continue
        found["notes"] += 1
        found["tokens"] += COUNTER.count_entry(entry)
        for author, text in read_block(entry.content or ""):
            if author == "user":
                beginning = next((each for each in gone if text.startswith(each[:30])), None)
                told |= {beginning} if beginning is not None else set()
                found["order"] += beginning is not None and gone[beginning] < newest
            elif author == "known":
                label, _, values = text.partition(": ")
                for value in values.split(", "):
                    found["values"] += 1
                    found["used"] += value in later
                    found["junk"] += is_junk(label, value)
    found["gone"] += len(gone)
    found["told"] += len(told)
    return found


def table(name: str, half: str, step: int = 1) -> list[str]:
    """Return the table of one set."""
    rows = [row for file in SETS[name] for row in load(file)]
    rows = [row for row in rows if half == "all" or is_first_half(row["id"]) is (half == "first")]
    rows = rows[::step]
    lines = [
        f"{name}: {len(rows)} conversations",
        "",
        "| budget | needed | edits | needed, bare | edits, bare | user words | used | junk | order |",
        f"|---|{'---:|' * 8}",
    ]
    for budget in BUDGETS:
        found = sum((measure(row["messages"], budget) for row in rows), Counter[str]())
        pairs = (
            ("shown", "needed"), ("ready", "edits"), ("bare shown", "bare needed"),
            ("bare ready", "bare edits"), ("told", "gone"), ("used", "values"), ("junk", "values"),
        )  # fmt: skip
        cells = [f"{found[part] / found[of]:.3f}" if found[of] else "" for part, of in pairs]
        lines.append(f"| {budget:,} | {' | '.join(cells)} | {found['order']} |")
    print(*lines, "", sep="\n", flush=True)
    return [*lines, ""]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, and write them when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("first", "second", "all"), default="second")
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=tuple(SETS))
    parser.add_argument("--step", type=int, default=1, help="every so many of the conversations")
    parser.add_argument("--write", action="store_true", help="also write docs/generated")
    options = parser.parse_args(arguments)
    lines = [line for name in options.sets for line in table(name, options.half, options.step)]
    if options.write:
        PAGE.write_text("Written by `python -m benchmarks.recap --write`.\n\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
