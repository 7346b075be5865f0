"""What the conformance kit finds in the trimmers people use.

Every trimmer gets the same conversations: 46 sequences that turn up in practice, and generated
tool conversations that are whole, have results that come late, or have results missing. A view is
refused when it breaks a rule of the provider's profile. Runs offline and is deterministic.

    python benchmarks/conformance_of_peers.py [--count 50] [--out docs/generated]
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # stay offline

from history_curator import Curator, count_tokens
from history_curator.formats import find_format
from history_curator.testing import SEQUENCES, parse, try_trimmer

Message = dict[str, Any]
Trim = Callable[[list[Any]], list[Any]]

PROVIDERS = ("openai", "anthropic")
KINDS = ("sequences", "whole", "late", "partial")
SHARES = (0.3, 0.6)
WORDS = [
    "the",
    "order",
    "was",
    "sent",
    "to",
    "a",
    "small",
    "town",
    "near",
    "the",
    "sea",
    "and",
    "came",
    "back",
    "after",
    "nine",
    "days",
]

ABOUT = """\
Written by `benchmarks/conformance_of_peers.py`; do not edit.

Views that break a rule of the provider's profile, of those tried, and how often a trimmer
raised. The profile is the judge: no provider was called.

- *sequences*: the {} conversations of `history_curator.testing.SEQUENCES`, with room for
  everything, so this column shows what a trimmer mends, not what it cuts.
- *whole*, *late*, *partial*: generated tool conversations with parallel calls, cut to {} of
  their tokens. In *late* a user message may stand between results, in *partial* a result may be
  missing.
- what a view ends on is not held against anyone here: that is up to the caller.
- *lost*: views of *whole* without the system message or without the latest user message.

Trimmers do not set out to repair what they are given, so *whole* and *lost* are the columns that
are fair to all of them.
"""


class Peer:
    """A trimmer: how to build it for a budget, what it takes, whether it knows providers."""

    def __init__(
        self, name: str, package: str, make: Any, convert: Any, *, adapts: bool = False
    ) -> None:
        self.name = name
        self.package = package
        self.make = make
        self.convert = convert
        self.adapts = adapts

    def build(self, budget: int, provider: str) -> Trim:
        trim: Trim = self.make(budget, provider) if self.adapts else self.make(budget)
        return trim


def text(dice: random.Random, low: int, high: int) -> str:
    return " ".join(dice.choice(WORDS) for _ in range(dice.randint(low, high)))


def conversation(seed: int, kind: str) -> list[Message]:
    """A conversation with a system message, six to twelve turns and parallel calls."""
    dice = random.Random(seed)
    messages: list[Message] = [{"role": "system", "content": text(dice, 10, 20)}]
    number = 0
    for _ in range(dice.randint(6, 12)):
        messages.append({"role": "user", "content": text(dice, 5, 20)})
        for _ in range(dice.randint(0, 3)):
            ids = [f"call_{number + step}" for step in range(dice.randint(1, 4))]
            number += len(ids)
            messages.append(
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [tool_call(name) for name in ids],
                }
            )
            results = [
                {"role": "tool", "tool_call_id": name, "content": text(dice, 10, 60)}
                for name in ids
            ]
            if kind == "late" and dice.random() < 0.3:
                results.insert(len(results) // 2, {"role": "user", "content": text(dice, 3, 9)})
            if kind == "partial" and dice.random() < 0.3:
                results.pop()
            messages += results
        messages.append({"role": "assistant", "content": text(dice, 5, 40)})
    messages.append({"role": "user", "content": text(dice, 5, 20)})
    return messages


def tool_call(name: str) -> Message:
    return {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}}


def ours(budget: int, provider: str) -> Trim:
    curator = Curator(max_tokens=budget, provider=provider)
    return lambda messages: curator.curate(messages, tail="history").messages


def to_langchain(messages: list[Message]) -> list[Any]:
    from langchain_core.messages import convert_to_messages

    return convert_to_messages([{**each, "content": each["content"] or ""} for each in messages])


def to_llamaindex(messages: list[Message]) -> list[Any]:
    from llama_index.core.llms import ChatMessage

    return [
        ChatMessage(
            role=each["role"],
            content=each["content"],
            additional_kwargs={
                key: each[key] for key in ("tool_calls", "tool_call_id") if key in each
            },
        )
        for each in messages
    ]


def trim_messages(**options: Any) -> Callable[[int], Trim]:
    from langchain_core.messages import trim_messages as trim
    from langchain_core.messages.utils import count_tokens_approximately

    return lambda budget: (
        lambda messages: trim(
            messages, max_tokens=budget, token_counter=count_tokens_approximately, **options
        )
    )


def beside_system(recall: Callable[[list[Any]], list[Any]]) -> Trim:
    """LlamaIndex keeps the system message beside its memories; the engine puts it in front."""

    def trim(messages: list[Any]) -> list[Any]:
        lead = messages[:1] if messages[0].role == "system" else []
        rest = messages[len(lead) :]
        return [*lead, *(recall(rest) if rest else [])]

    return trim


def chat_memory_buffer(budget: int) -> Trim:
    from llama_index.core.memory import ChatMemoryBuffer

    return beside_system(
        lambda messages: ChatMemoryBuffer.from_defaults(
            chat_history=messages, token_limit=budget
        ).get()
    )


def memory(budget: int) -> Trim:
    from llama_index.core.memory import Memory

    def recall(messages: list[Any]) -> list[Any]:
        kept = Memory.from_defaults(session_id="trial", token_limit=budget)
        kept.put_messages(messages)
        return list(kept.get())

    return beside_system(recall)


def langmem(budget: int) -> Trim:
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.messages.utils import count_tokens_approximately
    from langmem.short_term import summarize_messages

    model = FakeListChatModel(responses=["They talked about an order."])

    def trim(messages: list[Any]) -> list[Any]:
        numbered = [
            each.model_copy(update={"id": str(number)}) for number, each in enumerate(messages)
        ]
        return list(
            summarize_messages(
                numbered,
                running_summary=None,
                model=model,
                max_tokens=budget,
                max_summary_tokens=min(64, budget // 2),
                token_counter=count_tokens_approximately,
            ).messages
        )

    return trim


def litellm(budget: int) -> Trim:
    from copy import deepcopy

    from litellm.utils import trim_messages as trim

    return lambda messages: trim(deepcopy(messages), model="gpt-4o", max_tokens=budget)


def peers() -> list[Peer]:
    usual = {"strategy": "last", "include_system": True}
    careful = {**usual, "start_on": "human", "end_on": ("human", "tool")}
    return [
        Peer("History Curator", "history-curator", ours, list, adapts=True),
        Peer("trim_messages", "langchain-core", trim_messages(**usual), to_langchain),
        Peer(
            "trim_messages, start_on and end_on set",
            "langchain-core",
            trim_messages(**careful),
            to_langchain,
        ),
        Peer("ChatMemoryBuffer", "llama-index-core", chat_memory_buffer, to_llamaindex),
        Peer("Memory", "llama-index-core", memory, to_llamaindex),
        Peer("langmem summarize_messages", "langmem", langmem, to_langchain),
        Peer("litellm trim_messages", "litellm", litellm, list),
    ]


def material(kind: str, count: int) -> list[tuple[list[Message], int]]:
    """Conversations and budgets. The sequences are short: nothing has to be cut for theirs."""
    if kind == "sequences":
        return [(parse(sequence), 100_000) for sequence, _ in SEQUENCES]
    return [
        (messages, int(count_tokens(messages) * share))
        for messages in (conversation(seed, kind) for seed in range(count))
        for share in SHARES
    ]


def once(trim: Trim) -> Trim:
    """Trim one conversation once, however many providers look at the outcome."""
    outcome: list[Any] = []

    def trimmed(messages: list[Any]) -> list[Any]:
        if not outcome:
            try:
                outcome.append(list(trim(messages)))
            except Exception as error:  # noqa: BLE001 - counted by the trial
                outcome.append(error)
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return list(outcome[0])

    return trimmed


def try_peer(peer: Peer, kind: str, count: int) -> dict[str, dict[str, Any]]:
    """One cell of each table."""
    cells: dict[str, dict[str, Any]] = {
        provider: {"cases": 0, "refused": 0, "raised": 0, "lost": 0, "rules": {}}
        for provider in PROVIDERS
    }
    for messages, budget in material(kind, count):
        shared = once(peer.build(budget, PROVIDERS[0]))
        for provider, cell in cells.items():
            trim = peer.build(budget, provider) if peer.adapts else shared
            given = peer.convert(messages)
            trial = try_trimmer(trim, [given], provider, tail="history")
            cell["cases"] += 1
            cell["refused"] += len(trial.failures)
            cell["raised"] += trial.raised
            if kind != "sequences" and not trial.raised:
                cell["lost"] += loses(messages, trim(given))
            for rule, times in trial.rules.items():
                cell["rules"][rule] = cell["rules"].get(rule, 0) + times
    return cells


def loses(messages: list[Message], view: list[Any]) -> bool:
    """Whether the rules or the question to answer are gone."""
    format = find_format(view)
    kept = " ".join(
        entry.content or "" for at, each in enumerate(view) for entry in format.read(each, at)
    )
    return messages[0]["content"] not in kept or messages[-1]["content"] not in kept


def table(results: dict[str, Any], provider: str) -> list[str]:
    """Markdown: refused of tried, and the rules broken most."""
    lines = [
        f"| {provider} | " + " | ".join(KINDS) + " | lost | rules broken |",
        "|---|" + "---|" * (len(KINDS) + 2),
    ]
    for name, row in results["peers"].items():
        cells = [row[provider][kind] for kind in KINDS]
        totals: dict[str, int] = {}
        for cell in cells:
            for rule, times in cell["rules"].items():
                totals[rule] = totals.get(rule, 0) + times
        worst = sorted(totals.items(), key=lambda item: -item[1])[:4]
        shown = [
            f"{cell['refused']}/{cell['cases']}"
            + (f" ({cell['raised']} raised)" if cell["raised"] else "")
            for cell in cells
        ]
        whole = row[provider]["whole"]
        shown.append(f"{whole['lost']}/{whole['cases']}")
        rules = ", ".join(f"{rule} ×{times}" for rule, times in worst) or "–"
        lines.append(f"| {name} | {' | '.join(shown)} | {rules} |")
    return lines


def render(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    shares = " and ".join(f"{share:.0%}" for share in SHARES)
    lines = [ABOUT.format(len(SEQUENCES), shares)]
    for provider in PROVIDERS:
        lines += [*table(results, provider), ""]
    lines += [f"Versions: {versions}.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=50, help="generated conversations per kind")
    parser.add_argument("--out", type=Path, default=Path("docs/generated"))
    options = parser.parse_args()
    results: dict[str, Any] = {"count": options.count, "versions": {}, "peers": {}}
    for peer in peers():
        if peer.package != "history-curator":
            results["versions"][peer.package] = version(peer.package)
        row: dict[str, dict[str, Any]] = {provider: {} for provider in PROVIDERS}
        for kind in KINDS:
            for provider, cell in try_peer(peer, kind, options.count).items():
                row[provider][kind] = cell
        results["peers"][peer.name] = row
        print(peer.name, {kind: row["openai"][kind]["refused"] for kind in KINDS}, flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "conformance.md").write_text(render(results), encoding="utf-8")
    (options.out / "conformance.json").write_text(json.dumps(results, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
