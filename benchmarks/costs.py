"""CPU milliseconds of one view, beside the calls that frameworks offer for the same purpose.

Everybody gets the same conversations, a budget of 32,000 tokens and the same tokenizer; each is
warmed up before it is timed, and `trim_messages` remembers nothing between calls. *Recorded* is one
view per message of coding sessions, warm, and the same with messages decoded anew for each request.
*In turn* is a request of each of many conversations, one after the other. *Cold* is the first view
of a conversation; *warm* is the view after one more message. A contender that needs more than
two minutes for a row is stopped; frameworks that are not installed are left out.

    python -m benchmarks.costs [--rows recorded cold ...] [--quick] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from statistics import median
from time import process_time
from typing import Any

from benchmarks.data import (
    GENERATED,
    Message,
    agent_conversation,
    as_langchain,
    as_llamaindex,
    recorded_sessions,
)
from history_curator import BudgetUnsatisfiableError, Curator, TiktokenCounter
from history_curator.tokens.tiktoken_counter import load_encoding

BUDGET = 32_000
PAGE = GENERATED / "costs.md"
PATIENCE = 120.0
"""CPU seconds after which a contender is not measured further."""

View = Callable[[list[Any]], Any]
MakeView = Callable[[], View]


def encode(text: str) -> list[int]:
    """Return the tokens of a text, with the tokenizer everybody gets."""
    encoding = load_encoding("o200k_base")
    if encoding is None:
        raise SystemExit("benchmarks need the o200k_base encoding; see TIKTOKEN_CACHE_DIR")
    return encoding(text)


def curate_dicts() -> View:
    """Return `Curator.curate`, on dicts."""
    return Curator(max_tokens=BUDGET, counter=TiktokenCounter("o200k_base")).curate


def curate_in_langchain() -> View:
    """Return `HistoryCurator.invoke`, on LangChain messages."""
    from langchain_history_curator import HistoryCurator

    return HistoryCurator(max_tokens=BUDGET, counter=TiktokenCounter("o200k_base")).invoke


def curate_in_llamaindex() -> View:
    """Return `CuratedMemory.get`, filled with a history."""
    from llamaindex_history_curator import CuratedMemory

    counter = TiktokenCounter("o200k_base")
    memory = CuratedMemory.from_defaults(token_limit=BUDGET, counter=counter)
    return _put_new_and_get(memory.put_messages, memory.get)


def trim_exactly() -> View:
    """Return LangChain's `trim_messages` with an exact counter."""

    def count(messages: Sequence[Any]) -> int:
        total = 3
        for message in messages:
            total += 4 + len(encode(message.content)) + len(encode(message.name or ""))
            for call in getattr(message, "tool_calls", ()):
                total += 3 + len(encode(call["name"])) + len(encode(json.dumps(call["args"])))
        return total

    return _trim(count)


def trim_approximately() -> View:
    """Return LangChain's `trim_messages` with its approximate counter."""
    from langchain_core.messages.utils import count_tokens_approximately

    return _trim(count_tokens_approximately)


def _trim(count: Callable[[Sequence[Any]], int]) -> View:
    from langchain_core.messages import trim_messages

    return partial(
        trim_messages,
        max_tokens=BUDGET,
        token_counter=count,
        strategy="last",
        start_on="human",
        end_on=("human", "tool"),
        include_system=True,
    )


def chat_memory_buffer() -> View:
    """Return LlamaIndex's `ChatMemoryBuffer.get`, filled with a history."""
    from llama_index.core.memory import ChatMemoryBuffer

    buffer = ChatMemoryBuffer.from_defaults(token_limit=BUDGET, tokenizer_fn=encode)
    return _put_new_and_get(buffer.put_messages, buffer.get)


def llamaindex_memory() -> View:
    """Return LlamaIndex's `Memory.get`, which stores the history itself."""
    from llama_index.core.memory import Memory

    loop = asyncio.new_event_loop()
    memory = Memory.from_defaults(token_limit=BUDGET, tokenizer_fn=encode)
    return _put_new_and_get(
        lambda messages: loop.run_until_complete(memory.aput_messages(messages)),
        lambda: loop.run_until_complete(memory.aget()),
    )


def _put_new_and_get(put: Callable[[list[Any]], Any], get: Callable[[], Any]) -> View:
    """Return a view of a memory that is given the messages it does not have yet."""
    stored = 0

    def view(messages: list[Any]) -> Any:
        nonlocal stored
        put(list(messages[stored:]))
        stored = len(messages)
        return get()

    return view


def _as_they_are(messages: Sequence[Message]) -> list[Any]:
    return list(messages)


CONTENDERS: dict[str, tuple[str, Callable[[Sequence[Message]], list[Any]], MakeView]] = {
    "`Curator`": ("", _as_they_are, curate_dicts),
    "LangChain: `HistoryCurator`": ("langchain_core", as_langchain, curate_in_langchain),
    "LangChain: `trim_messages`, exact": ("langchain_core", as_langchain, trim_exactly),
    "LangChain: `trim_messages`, approximate": ("langchain_core", as_langchain, trim_approximately),
    "LlamaIndex: `CuratedMemory`": ("llama_index.core", as_llamaindex, curate_in_llamaindex),
    "LlamaIndex: `ChatMemoryBuffer`": ("llama_index.core", as_llamaindex, chat_memory_buffer),
    "LlamaIndex: `Memory`": ("llama_index.core", as_llamaindex, llamaindex_memory),
}
MEMORIES = tuple(name for name in CONTENDERS if name.startswith("LlamaIndex"))


class TooSlow(Exception):
    """A contender used up its time."""


class Timer:
    """Adds up the CPU time of single calls, in milliseconds."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def call(self, view: View, messages: list[Any]) -> None:
        """Time one view; a question that is larger than the budget is a view as well."""
        start = process_time()
        with suppress(BudgetUnsatisfiableError):
            view(messages)
        self.times.append(1e3 * (process_time() - start))
        if sum(self.times) > 1e3 * PATIENCE:
            raise TooSlow

    @property
    def mean(self) -> float:
        """Milliseconds of a call, on average."""
        return sum(self.times) / len(self.times)


def warm_up(make: MakeView, convert: Callable[[Sequence[Message]], list[Any]]) -> None:
    """Have a contender import and load what its first call in a process needs."""
    make()(convert(agent_conversation(60)))
    gc.collect()


def time_recorded(name: str, count: int, *, decoded: bool = False) -> float:
    """Return the time of a view of recorded sessions, one view a message."""
    _, convert, make = CONTENDERS[name]
    timer = Timer()
    for session in recorded_sessions(count):
        view, history = make(), convert(session)
        for end in range(1, len(history) + 1):
            timer.call(
                view, convert(json.loads(json.dumps(session[:end]))) if decoded else history[:end]
            )
    return timer.mean


def time_in_turn(name: str, count: int, length: int = 40) -> float:
    """Return the time of a request with one new message, of so many conversations in turn."""
    _, convert, make = CONTENDERS[name]
    base = agent_conversation(length + 1)
    conversations = [
        convert([{**each, "content": f"{number}: {each['content'] or ''}"} for each in base])
        for number in range(count)
    ]
    # A memory belongs to one conversation; a function serves all.
    shared = None if name in MEMORIES else make()
    views = [shared or make() for _ in conversations]
    for view, messages in zip(views, conversations, strict=True):
        view(messages[:length])
    timer = Timer()
    for view, messages in zip(views, conversations, strict=True):
        timer.call(view, messages)
    return timer.mean


def time_cold(name: str, length: int, rounds: int) -> float:
    """Return the time of the first view of a conversation."""
    _, convert, make = CONTENDERS[name]
    messages, timer = convert(agent_conversation(length)), Timer()
    for _ in range(rounds):
        gc.collect()
        timer.call(make(), messages)
    return median(timer.times)


def time_warm(name: str, length: int, rounds: int) -> float:
    """Return the time of a view of a conversation that was viewed without its newest message."""
    _, convert, make = CONTENDERS[name]
    messages, view, timer = convert(agent_conversation(length + rounds)), make(), Timer()
    view(messages[:length])
    gc.collect()
    for end in range(length + 1, length + rounds + 1):
        timer.call(view, messages[:end])
    return median(timer.times)


def rows(*, quick: bool) -> dict[str, tuple[str, Callable[[str], float], tuple[str, ...]]]:
    """Return what is measured: by name, how the table calls it, how, and who does not take part."""
    sessions, turns, rounds = (1, 50, 3) if quick else (4, 1_000, 5)
    return {
        "recorded": ("recorded sessions", partial(time_recorded, count=sessions), ()),
        "decoded": (
            "the same, decoded anew",
            partial(time_recorded, count=sessions, decoded=True),
            MEMORIES,
        ),
        "turns": (
            f"{turns:,} conversations in turn",
            partial(time_in_turn, count=turns),
            ("LlamaIndex: `Memory`",),
        ),
        "cold": ("cold, 1,000 messages", partial(time_cold, length=1_000, rounds=rounds), ()),
        **{
            f"warm-{length}": (
                f"warm, {length:,} messages",
                partial(time_warm, length=length, rounds=rounds),
                ("LlamaIndex: `Memory`",) if length > 3_000 else (),
            )
            for length in ((3_000,) if quick else (3_000, 12_000, 30_000))
        },
    }


def measure_within_patience(measure: Callable[[str], float], contender: str) -> str:
    """Return the milliseconds as a cell, or that they were too many."""
    try:
        return f"{measure(contender):,.2f}"
    except TooSlow:
        return f"> {PATIENCE:.0f} s in all"


def table(names: Sequence[str], *, quick: bool) -> list[str]:
    """Return a column for each row that is asked for, and a line for each contender."""
    chosen = {name: row for name, row in rows(quick=quick).items() if not names or name in names}
    titles = [title for title, _, _ in chosen.values()]
    lines = [f"| CPU ms a view | {' | '.join(titles)} |", f"|---{'|---:' * len(titles)}|"]
    print(*lines, sep="\n", flush=True)
    for contender, (module, convert, make) in CONTENDERS.items():
        if module and find_spec(module.partition(".")[0]) is None:
            continue
        warm_up(make, convert)
        cells = []
        for _, measure, absent in chosen.values():
            cells.append("" if contender in absent else measure_within_patience(measure, contender))
        lines.append(f"| {contender} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and write it when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", choices=tuple(rows(quick=False)), default=())
    parser.add_argument("--quick", action="store_true", help="fewer sessions and conversations")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    lines = table(options.rows, quick=options.quick)
    if options.write:
        PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
