"""CPU milliseconds of one view, beside the calls that frameworks offer for the same purpose.

Everybody gets the same conversations, a budget of 32,000 tokens and the same tokenizer; each is
warmed up before it is timed, and `trim_messages` remembers nothing between calls. *Recorded* is one
view per message of coding sessions, warm, and the same with messages decoded anew for each request.
*In turn* is a request of each of many conversations, one after the other. *Cold* is the first view
of a conversation; *warm* is the view after one more message. A contender that has used 20 seconds
for a cell makes no further call; frameworks that are not installed are left out.

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
from statistics import mean, median
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
PATIENCE = 20.0
"""CPU seconds after which a contender makes no further call for a cell."""

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
LEFT_OUT = (
    "– is not measured: memories hold their messages themselves, so that none are decoded anew, and "
    "from 12,000 messages on one call of `ChatMemoryBuffer` takes minutes."
)
SLOW = ("LlamaIndex: `Memory`", "LlamaIndex: `ChatMemoryBuffer`")
MEMORIES = tuple(name for name in CONTENDERS if name.startswith("LlamaIndex"))


class Timer:
    """Times single calls in milliseconds of CPU; a slow contender makes fewer of them."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def call(self, view: View, messages: list[Any]) -> None:
        """Time one view; a question that is larger than the budget is a view as well."""
        start = process_time()
        with suppress(BudgetUnsatisfiableError):
            view(messages)
        self.times.append(1e3 * (process_time() - start))

    @property
    def is_over(self) -> bool:
        """Whether the time for a cell of the table is used up."""
        return sum(self.times) > 1e3 * PATIENCE


def time_recorded(name: str, count: int, *, decoded: bool = False) -> float:
    """Return the mean time of a view of recorded sessions, one view a message."""
    _, convert, make = CONTENDERS[name]
    timer = Timer()
    for session in recorded_sessions(count):
        view, history = make(), convert(session)
        for end in range(1, len(history) + 1):
            if timer.is_over:
                break
            given = convert(json.loads(json.dumps(session[:end]))) if decoded else history[:end]
            timer.call(view, given)
    return mean(timer.times)


def time_in_turn(name: str, count: int, length: int = 40) -> float:
    """Return the mean time of a request with one new message, of so many conversations in turn."""
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
        if not timer.is_over:
            timer.call(view, messages)
    return mean(timer.times)


def time_cold(name: str, length: int, rounds: int) -> float:
    """Return the median time of the first view of a conversation."""
    _, convert, make = CONTENDERS[name]
    messages, timer = convert(agent_conversation(length)), Timer()
    while len(timer.times) < rounds and not timer.is_over:
        gc.collect()
        timer.call(make(), messages)
    return median(timer.times)


def time_warm(name: str, length: int, rounds: int) -> float:
    """Return the median time of a view that was made before without its newest message."""
    _, convert, make = CONTENDERS[name]
    messages, view, timer = convert(agent_conversation(length + rounds)), make(), Timer()
    view(messages[:length])
    gc.collect()
    while len(timer.times) < rounds and not timer.is_over:
        timer.call(view, messages[: length + len(timer.times) + 1])
    return median(timer.times)


def rows(*, quick: bool) -> dict[str, tuple[str, Callable[[str], float], tuple[str, ...]]]:
    """Return by name the title of a column, how it is measured, and who does not take part."""
    sessions, turns, rounds = (1, 50, 3) if quick else (4, 1_000, 5)
    found: dict[str, tuple[str, Callable[[str], float], tuple[str, ...]]] = {
        "recorded": ("recorded sessions", partial(time_recorded, count=sessions), ()),
        "decoded": ("the same, decoded anew",
                    partial(time_recorded, count=sessions, decoded=True), MEMORIES),
        "turns": (f"{turns:,} conversations in turn", partial(time_in_turn, count=turns),
                  ("LlamaIndex: `Memory`",)),
        "cold": ("cold, 1,000 messages", partial(time_cold, length=1_000, rounds=rounds), ()),
    }  # fmt: skip
    for length in (3_000,) if quick else (3_000, 12_000, 30_000):
        absent = SLOW if length > 3_000 else ()
        measure = partial(time_warm, length=length, rounds=rounds)
        found[f"warm-{length}"] = (f"warm, {length:,} messages", measure, absent)
    return found


def table(names: Sequence[str], *, quick: bool) -> list[str]:
    """Return a column for each row that is asked for, and a line for each contender."""
    chosen = {name: row for name, row in rows(quick=quick).items() if not names or name in names}
    titles = [title for title, _, _ in chosen.values()]
    lines = [f"| CPU ms a view | {' | '.join(titles)} |", f"|---{'|---:' * len(titles)}|"]
    print(*lines, sep="\n", flush=True)
    for contender, (module, convert, make) in CONTENDERS.items():
        if module and find_spec(module.partition(".")[0]) is None:
            continue
        make()(convert(agent_conversation(60)))  # imports and loads what a first call needs
        cells = [
            "–" if contender in absent else f"{measure(contender):,.2f}"
            for _, measure, absent in chosen.values()
        ]
        lines.append(f"| {contender} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return [*lines, "", LEFT_OUT]


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
