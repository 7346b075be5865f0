"""Print views as the model reads them: coding, support and chat, in a small and a larger budget.

Messages are cut to one line each; the notes that the library adds are printed whole. The page of the
documentation shows generated conversations. `--recorded` prints views of recorded ones and writes
nothing, as their texts are not ours to copy.

    python -m benchmarks.views [--recorded] [--write]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.chats import generated_chat
from benchmarks.data import ROOT, load
from examples.coding_sessions import make_session
from history_curator import ConversationEntry, Curator
from history_curator.lab.conversations import sample_conversation
from history_curator.quoting import join_lines

PAGE = ROOT / "docs" / "views.md"
OURS = ("recap", "recollection", "bridge")
LINE = 110
INTRODUCTION = """# Views, as the model reads them

Written by `python -m benchmarks.views --write`. Each message is cut to one line here; the notes that
the library adds are printed whole. `…` stands for messages of a kind that were already printed.
"""


def generated_conversations() -> Iterator[tuple[str, list[dict[str, Any]], tuple[int, ...]]]:
    """Yield the name, the messages and the budgets of generated conversations."""
    for seed in (1, 2):
        yield f"Coding, session {seed}", make_session(seed, tasks=24), (8_000, 32_000)
    question = {"role": "user", "content": "What was the cause, and what did we decide to change?"}
    yield "Support, an incident", [*sample_conversation(), question], (2_000, 4_000)
    for seed in (1, 2):
        chat = generated_chat(seed)
        asked = {"role": "user", "content": chat["questions"][0]["question"]}
        yield f"Chat {seed}", [*chat["messages"], asked], (2_000, 8_000)


def recorded_conversations() -> Iterator[tuple[str, list[dict[str, Any]], tuple[int, ...]]]:
    """Yield the same of recorded ones, two of each kind."""
    for kind, name in (("Coding", "coding_sessions"), ("Support", "tau2_bench")):
        rows = sorted(load(name), key=lambda row: -row["stats"]["tokens_o200k"])
        for row in (rows[len(rows) // 4], rows[1]):
            ends = [at for at, each in enumerate(row["messages"]) if each["role"] != "assistant"]
            yield f"{kind}, {row['id']}", row["messages"][: ends[-1] + 1], (8_000, 32_000)
    for row in load("locomo")[:2]:
        asked = {"role": "user", "content": row["questions"][0]["question"]}
        yield f"Chat, {row['id']}", [*row["messages"], asked], (8_000, 32_000)


def print_view(messages: Sequence[Any], budget: int) -> Iterator[str]:
    """Yield the lines of one view."""
    curation = Curator(max_tokens=budget).curate(messages, tail="request")
    yield f"{len(messages)} messages, {curation.tokens:,} of {budget:,} tokens."
    yield ""
    yield "```text"
    plain = 0
    for position, entry in enumerate(curation.entries):
        is_ours = entry.origin in OURS
        plain = 0 if is_ours else plain + 1
        if is_ours:
            yield f"{entry.role}: {entry.content}"
        elif plain <= 6 or position >= len(curation.entries) - 4:
            yield outline_entry(entry)
        elif plain == 7:
            yield "…"
    yield "```"
    yield ""


def outline_entry(entry: ConversationEntry) -> str:
    """Return an entry in one line."""
    calls = [f"{call.name}({call.arguments})" for call in entry.tool_calls or ()]
    text = join_lines(" ".join([entry.content or "", *calls])[: 4 * LINE])
    return f"{entry.role}: {text[:LINE]}{'…' if len(text) > LINE else ''}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the views, and write the page when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recorded", action="store_true", help="recorded conversations")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args(arguments)
    lines = [INTRODUCTION]
    chosen = recorded_conversations() if options.recorded else generated_conversations()
    for name, messages, budgets in chosen:
        for budget in budgets:
            lines += [f"## {name}, {budget:,} tokens", "", *print_view(messages, budget)]
    print("\n".join(lines))
    if options.write and not options.recorded:
        PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
