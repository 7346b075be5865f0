"""One view of a long history: again with nothing new, and again after one more message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import _ours, _peers
from benchmarks._conversation import as_langchain, as_llamaindex, conversation
from benchmarks._measure import Contender, cpu, cpu_each
from benchmarks._settings import Settings
from benchmarks._table import Row, Target
from benchmarks.session import rows

TARGETS = {
    "trim_messages, exact": Target(">=", 1_000),
    "trim_messages, approximate": Target(">=", 50),
    "trim_messages, memoised exact": Target(">=", 10),
}
AGAIN = "one warm view"


def again(make: Callable[[], Callable[[list[Any]], Any]], messages: Sequence[Any]) -> Any:
    """Return a measurement of one view of a history that was viewed before."""
    view, history = make(), list(messages)
    return lambda: cpu_each(lambda: view(history), 0.02)


def run(settings: Settings) -> list[Row]:
    """Measure, and return the rows."""
    found: list[Row] = []
    longest = max(settings.views)
    for n in settings.views:
        wanted = TARGETS if n == longest else {}
        found += _langchain(n, settings, wanted)
        found += _llamaindex(n, settings)
        if n <= settings.slow_views[1]:
            found += _litellm(n, settings)
    return found


def _langchain(n: int, settings: Settings, wanted: dict[str, Target]) -> list[Row]:
    dicts = conversation(n)
    messages = as_langchain(dicts)
    contenders = [
        Contender("core", "", again(_ours.core, dicts)),
        Contender("adapter", "", again(_ours.langchain, messages)),
    ]
    for name, (call, make) in _peers.LANGCHAIN.items():
        for kind, counter in _peers.COUNTERS.items():
            if kind == "memoised exact" and name != "trim_messages":
                continue
            view = make(counter())
            contenders.append(
                Contender(
                    f"{name}, {kind}", f"`{call}`, {kind} counter", _warmed(view, messages, kind)
                )
            )
    return rows(contenders, n, settings.rounds, AGAIN, wanted)


def _warmed(view: Callable[[list[Any]], Any], messages: list[Any], kind: str) -> Any:
    view(messages[:2])  # modules that are imported at the first call are not its cost
    if kind == "memoised exact":
        return lambda: cpu_each(lambda: view(messages), 0.02)
    return lambda: cpu(lambda: view(messages))


def _llamaindex(n: int, settings: Settings) -> list[Row]:
    dicts = conversation(n)
    messages = as_llamaindex(dicts)
    ours = _ours.llamaindex_memory()
    ours.put_messages(messages)
    memory = _peers.LlamaIndexMemory()
    memory.fill(messages)
    contenders = [
        Contender("core", "", again(_ours.core, dicts)),
        Contender("adapter", "", lambda: cpu_each(ours.get, 0.02)),
        Contender(
            "Memory",
            "`llama_index.core.memory.Memory.aget`",
            lambda: cpu_each(lambda: memory.view(messages), 0.02),
        ),
    ]
    if n <= settings.slow_views[0]:
        view = _peers.chat_memory_buffer()
        contenders.append(
            Contender(
                "ChatMemoryBuffer",
                "`llama_index.core.memory.ChatMemoryBuffer.get`",
                lambda: cpu(lambda: view(messages)),
            )
        )
    found = rows(contenders, n, settings.rounds, AGAIN, {})
    memory.close()
    return found


def _litellm(n: int, settings: Settings) -> list[Row]:
    dicts = list(conversation(n))
    view = _peers.litellm_trim()
    view(dicts[:2])
    contenders = [
        Contender("core", "", again(_ours.core, dicts)),
        Contender("litellm", "`litellm.utils.trim_messages`", lambda: cpu(lambda: view(dicts))),
    ]
    return rows(contenders, n, settings.rounds, AGAIN, {})
