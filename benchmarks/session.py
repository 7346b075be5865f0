"""A whole session, one view per message: what an agent pays from its first call to its last."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from time import process_time
from typing import Any

from benchmarks import _ours, _peers
from benchmarks._conversation import as_langchain, as_llamaindex, conversation
from benchmarks._measure import Contender, Race
from benchmarks._settings import Settings
from benchmarks._table import Row, Target

OURS = ("core", "adapter")
View = Callable[[list[Any]], Any]

TARGETS = {
    "trim_messages, exact": Target(">=", 500),
    "trim_messages, approximate": Target(">=", 10),
    "ChatMemoryBuffer": Target(">=", 1_000),
    "Memory": Target(">=", 50),
}
WORK = "whole session, one view per message"


def grow(make: Callable[[], View], messages: Sequence[Any]) -> float:
    """CPU seconds of a session: every message is appended, and a view is asked for."""
    make()(list(messages[:2]))  # modules that are imported at the first call are not its cost
    view, history = make(), list[Any]()
    gc.collect()
    start = process_time()
    for message in messages:
        history.append(message)
        view(history)
    return process_time() - start


def sampled(make: Callable[[], View], messages: Sequence[Any], samples: int | None) -> float:
    """The same for a peer that remembers nothing: some prefixes, evenly spaced, scaled up."""
    if samples is None or samples >= len(messages):
        return grow(make, messages)
    view, spent = make(), 0.0
    view(list(messages[:2]))  # modules that are imported at the first call are not its cost
    for length in spaced(len(messages), samples):
        history = list(messages[:length])
        gc.collect()
        start = process_time()
        view(history)
        spent += process_time() - start
    return spent * len(messages) / samples


def spaced(n: int, samples: int) -> Iterator[int]:
    """The midpoints of `samples` equal parts of 1…n."""
    return (int((place + 0.5) * n / samples) + 1 for place in range(samples))


def put_and_get(messages: Sequence[Any]) -> float:
    """A session through our LlamaIndex memory."""
    memory = _ours.llamaindex_memory()

    def step(message: Any) -> None:
        memory.put(message)
        memory.get()

    return _stepping(step, messages)


def memory_session(messages: Sequence[Any]) -> float:
    """A session through LlamaIndex's Memory, which keeps the history itself."""
    memory = _peers.LlamaIndexMemory()
    spent = _stepping(memory.step, messages)
    memory.close()
    return spent


def _stepping(step: Callable[[Any], Any], messages: Sequence[Any]) -> float:
    gc.collect()
    start = process_time()
    for message in messages:
        step(message)
    return process_time() - start


def langchain_peers(messages: Sequence[Any], settings: Settings) -> Iterator[Contender]:
    """Every LangChain peer with every counter that makes sense."""
    for name, (call, make) in _peers.LANGCHAIN.items():
        for kind, counter in _peers.COUNTERS.items():
            # What a memoising counter knows depends on every view before: no sampling.
            many = {"exact": settings.samples, "approximate": settings.quick_samples}.get(kind)
            if kind == "memoised exact" and name != "trim_messages":
                continue

            def measure(make: Any = make, counter: Any = counter, many: Any = many) -> float:
                return sampled(lambda: make(counter()), messages, many)

            yield Contender(
                f"{name}, {kind}",
                f"`{call}`, {kind} counter",
                measure,
                describe(len(messages), many),
                "langchain",
            )


def describe(n: int, samples: int | None) -> str:
    """How a peer was sampled, in words."""
    return "" if samples is None or samples >= n else f"{samples} of {n:,} views"


def run(settings: Settings) -> list[Row]:
    """Measure, and return the rows."""
    return [*_langchain(settings), *_llamaindex(settings), *_buffer(settings), *_litellm(settings)]


def our_own(dicts: Sequence[Any], adapter: Callable[[], float]) -> list[Contender]:
    """The core and an adapter."""
    return [
        Contender("core", "", lambda: grow(_ours.core, dicts)),
        Contender("adapter", "", adapter),
    ]


def _langchain(settings: Settings) -> list[Row]:
    dicts = conversation(settings.session)
    messages = as_langchain(dicts)
    ours = our_own(dicts, lambda: grow(_ours.langchain, messages))
    return rows([*ours, *langchain_peers(messages, settings)], settings.session, settings.rounds)


def _llamaindex(settings: Settings) -> list[Row]:
    dicts = conversation(settings.session)
    messages = as_llamaindex(dicts)
    contenders = [
        *our_own(dicts, lambda: put_and_get(messages)),
        Contender(
            "Memory",
            "`llama_index.core.memory.Memory.aput` + `.aget`",
            lambda: memory_session(messages),
        ),
    ]
    return rows(contenders, settings.session, settings.rounds)


def _buffer(settings: Settings) -> list[Row]:
    n, many = settings.buffer_session, settings.samples
    dicts = conversation(n)
    messages = as_llamaindex(dicts)
    contenders = [
        *our_own(dicts, lambda: put_and_get(messages)),
        Contender(
            "ChatMemoryBuffer",
            "`llama_index.core.memory.ChatMemoryBuffer.get`",
            lambda: sampled(_peers.chat_memory_buffer, messages, many),
            describe(n, many),
        ),
    ]
    return rows(contenders, n, settings.rounds)


def _litellm(settings: Settings) -> list[Row]:
    # A view of a thousand messages takes it half a minute: its session is short and sampled.
    n = min(settings.session, 100)
    many = 5 if settings.samples else None
    dicts = conversation(n)
    contenders = [
        Contender("core", "", lambda: grow(_ours.core, dicts)),
        Contender(
            "litellm",
            "`litellm.utils.trim_messages`",
            lambda: sampled(_peers.litellm_trim, dicts, many),
            describe(n, many),
        ),
    ]
    return rows(contenders, n, settings.rounds)


def rows(
    contenders: Sequence[Contender],
    n: int,
    rounds: int,
    work: str = WORK,
    targets: dict[str, Target] | None = None,
) -> list[Row]:
    """Race the contenders and compare each peer with the core and with the adapter."""
    race = Race(contenders, rounds)
    names = {one.name for one in contenders}
    adapter = "adapter" in names
    wanted = TARGETS if targets is None else targets
    return [
        Row(
            work,
            one.call,
            race.ratio(one.name, "core"),
            adapter=race.ratio(one.name, "adapter") if adapter else None,
            target=wanted.get(one.name),
            sampled=one.sampled,
            n=n,
        )
        for one in contenders
        if one.name not in OURS
    ]
