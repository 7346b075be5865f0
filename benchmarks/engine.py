"""Predicted against reported: what a real engine takes from its cache under four policies.

llama.cpp reads short tool-using sessions, generated from seeds, call by call. What it reports as
``cached_tokens`` is compared with two predictions: the tokens that a request shares with the start
of the one before, and what the report of the view before promised in ``prefix_tokens``.

    python -m benchmarks.engine [--sessions 4] [--budget 1200] [--write]

It needs the extra ``engine``, see `benchmarks.local_engine`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import mean
from typing import Any

from benchmarks.data import GENERATED
from benchmarks.local_engine import (
    ABSENT,
    Answer,
    Engine,
    EngineCounter,
    as_message,
    find_weights,
    run_engine,
)
from history_curator import ConversationEntry, CurationReport, Curator
from history_curator.lab import LabConversation
from history_curator.lab.policies import named_policy

PAGE = GENERATED / "engine.md"
BUDGET = 1_200
FIRST_SEED = 1
TOOLS = [
    {"type": "function",
     "function": {"name": name, "description": description,
                  "parameters": {"type": "object", "properties": {argument: {"type": "string"}},
                                 "required": [argument]}}}
    for name, description, argument in (
        ("read_file", "Return the lines of a file.", "path"),
        ("search", "Return the lines that hold a text.", "text"),
    )
]  # fmt: skip
WORDS = [
    "session",
    "message",
    "view",
    "model",
    "window",
    "cache",
    "call",
    "result",
    "cost",
    "file",
    "error",
    "handler",
    "request",
    "timeout",
    "payload",
    "retry",
    "cluster",
    "region",
    "schema",
    "index",
    "query",
    "account",
    "order",
    "worker",
    "queue",
    "token",
    "prefix",
]

View = tuple[Sequence[ConversationEntry], CurationReport | None]
MakeView = Callable[[int], View]


def generate_session(seed: int) -> list[dict[str, Any]]:
    """Return a conversation of 8 to 15 model calls: some turns, each of calls and an answer."""
    random = Random(seed)
    messages = [{"role": "system", "content": "You look after a program. " + _write(random, 30)}]
    for turn in range(random.randint(3, 4)):
        messages.append({"role": "user", "content": f"{_write(random, 12)}?"})
        for step in range(random.randint(2, 3)):
            name, argument = random.choice((("read_file", "path"), ("search", "text")))
            arguments = json.dumps({argument: f"{random.choice(WORDS)}_{random.randrange(100)}"})
            call_id = f"call_{turn}_{step}"
            call = {"id": call_id, "type": "function",
                    "function": {"name": name, "arguments": arguments}}  # fmt: skip
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            lines = (f"{n}: {_write(random, 7)}" for n in range(random.randint(6, 28)))
            messages.append({"role": "tool", "tool_call_id": call_id, "content": "\n".join(lines)})
        messages.append({"role": "assistant", "content": f"{_write(random, 25)}."})
    return messages


def _write(random: Random, count: int) -> str:
    return " ".join(random.choices(WORDS, k=count))


def curate(
    record: LabConversation, counter: EngineCounter, budget: int, compact_to: float | None = None
) -> MakeView:
    """Return our views, with their reports."""
    curator = Curator(max_tokens=budget, counter=counter, compact_to=compact_to)

    def view(upto: int) -> View:
        curation = curator.curate(record.entries[:upto], tools=record.tools, tail="request")
        return curation.entries, curation.report

    return view


def run_peer(name: str, record: LabConversation, counter: EngineCounter, budget: int) -> MakeView:
    """Return the views of another library, which counts messages only: tools are taken off."""
    policy = named_policy(name, budget - counter.count_tools(record.tools))
    view = policy.start(record, counter)
    return lambda upto: (view(upto), None)


POLICIES: dict[str, Callable[[LabConversation, EngineCounter, int], MakeView]] = {
    "History Curator": curate,
    "sliding window (`compact_to=1.0`)": partial(curate, compact_to=1.0),
    "LangChain `trim_messages`": partial(run_peer, "trim_messages"),
    "LangChain, clearing tool uses": partial(run_peer, "clear-tool-uses"),
}


@dataclass(frozen=True)
class Call:
    """One request of a session.

    `promised` are the tokens that the report before said this request would repeat; None for the
    first request, after a compaction, and where there are no reports.
    """

    session: int
    answer: Answer
    promised: int | None
    compacted: bool

    @property
    def predicted(self) -> int:
        """The shared tokens; the last token of a request is always read again."""
        return min(self.answer.shared, self.answer.prompt - 1)


def replay(engine: Engine, counter: EngineCounter, view: MakeView, session: int,
           record: LabConversation) -> Iterator[Call]:  # fmt: skip
    """Make every model call of a session."""
    tools = counter.count_tools(record.tools)
    before: CurationReport | None = None
    engine.forget()
    for upto in record.calls:
        entries, report = view(upto)
        answer = engine.ask(list(map(as_message, entries)), record.tools or ())
        compacted = report is not None and report.compacted
        promised = None if before is None or compacted else before.prefix_tokens + tools
        if report is not None:
            assert report.tokens == answer.prompt  # the counter is exact
        yield Call(session, answer, promised, compacted)
        before = report


def measure(engine: Engine, seeds: Sequence[int], budget: int) -> dict[str, list[Call]]:
    """Return the calls of every policy, printing how far it is."""
    counter, calls = EngineCounter(engine), dict[str, list[Call]]()
    for name, start in POLICIES.items():
        calls[name] = []
        for session, seed in enumerate(seeds, 1):
            record = LabConversation(f"session {session}", generate_session(seed), TOOLS)
            view = start(record, counter, budget)
            calls[name] += replay(engine, counter, view, session, record)
            print(f"{name}, {record.id}: {len(calls[name])} calls", flush=True)
    return calls


HEADS = (
    "", "calls", "compactions", "tokens a call", "cached", "predicted from the requests",
    "promised by the reports", "CPU s to the first token",
)  # fmt: skip


def summary(name: str, calls: Sequence[Call]) -> str:
    """Return the line of a policy."""
    sent = sum(call.answer.prompt for call in calls)
    cached = sum(call.answer.cached for call in calls)
    predicted = sum(call.predicted for call in calls)
    off = sum(abs(call.predicted - call.answer.cached) for call in calls)
    cells = [
        name, str(len(calls)), "–", f"{sent / len(calls):,.0f}",
        f"{cached:,}, {cached / sent:.1%}", f"{predicted:,}, off by {off / cached:.2%}", "–",
        f"{mean(call.answer.seconds for call in calls):.2f}",
    ]  # fmt: skip
    held = [call for call in calls if call.promised is not None]
    if held:
        promised = sum(call.promised or 0 for call in held)
        cached = sum(call.answer.cached for call in held)
        off = sum(abs((call.promised or 0) - call.answer.cached) for call in held)
        cells[2] = str(sum(call.compacted for call in calls))
        cells[-2] = f"{promised:,} of {cached:,}, off by {off / cached:.2%}"
    return f"| {' | '.join(cells)} |"


def one_session(calls: dict[str, list[Call]]) -> list[str]:
    """Return every call of the first session under every policy."""
    rows = {name: [call for call in each if call.session == 1] for name, each in calls.items()}
    lines = [f"| call | {' | '.join(rows)} |", f"|---:{'|---' * len(rows)}|"]
    for number, same in enumerate(zip(*rows.values(), strict=True), 1):
        cells = [
            f"{call.answer.prompt:,}: {call.predicted:,} / {call.answer.cached:,}, "
            f"{call.answer.seconds:.2f} s{' *' if call.compacted else ''}"
            for call in same
        ]
        lines.append(f"| {number} | {' | '.join(cells)} |")
    return lines


CALLS = (
    "The first session, call by call: tokens of the request, of these predicted / reported as "
    "cached, and CPU seconds to the first token. A star is a compaction."
)


def page(calls: dict[str, list[Call]]) -> list[str]:
    """Return the tables."""
    table = [f"| {' | '.join(HEADS)} |", f"|---{'|---:' * (len(HEADS) - 1)}|"]
    table += [summary(name, each) for name, each in calls.items()]
    return [*table, "", CALLS, "", *one_session(calls)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, and write them when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args(arguments)
    weights = find_weights()
    if weights is None:
        print(ABSENT)
        return
    with run_engine(weights) as engine:
        seeds = range(FIRST_SEED, FIRST_SEED + options.sessions)
        lines = page(measure(engine, seeds, options.budget))
    print(*lines, sep="\n")
    if options.write:
        PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
