"""The same on recorded sessions of coding agents, where they are at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import _ours, _peers
from benchmarks._conversation import as_langchain, as_llamaindex, coding_sessions
from benchmarks._measure import Contender, note
from benchmarks._settings import Settings
from benchmarks._table import Row
from benchmarks.session import grow, memory_session, put_and_get, rows, sampled

WORK = "recorded coding sessions, one view per message"


def run(settings: Settings) -> list[Row]:
    """Measure, and return the rows; none where the sessions are absent."""
    sessions = coding_sessions(settings.recorded) if settings.recorded else []
    if not sessions:
        note("  recorded coding sessions are absent or not asked for: left out")
        return []
    langchain = [as_langchain(one) for one in sessions]
    llamaindex = [as_llamaindex(one) for one in sessions]
    many = settings.samples and max(4, settings.samples // 2)
    length = sum(map(len, sessions))

    def each(measure: Callable[[Any], float], conversations: list[Any]) -> Callable[[], float]:
        return lambda: sum(map(measure, conversations))

    def trim(kind: str, samples: int | None) -> Callable[[Any], float]:
        make = _peers.COUNTERS[kind]
        return lambda one: sampled(lambda: _peers.trim_messages(make()), one, samples)

    call = "`langchain_core.messages.trim_messages`"
    shown = f"{many} views of each" if many else ""
    found = rows(
        [
            Contender("core", "", each(lambda one: grow(_ours.core, one), sessions)),
            Contender("adapter", "", each(lambda one: grow(_ours.langchain, one), langchain)),
            Contender("exact", f"{call}, exact counter", each(trim("exact", many), langchain), shown),
            Contender(
                "approximate", f"{call}, approximate counter",
                each(trim("approximate", many), langchain), shown,
            ),
            Contender(
                "memoised", f"{call}, memoised exact counter",
                each(trim("memoised exact", None), langchain),
            ),
        ],
        length, settings.rounds, WORK, {},
    )  # fmt: skip
    found += rows(
        [
            Contender("core", "", each(lambda one: grow(_ours.core, one), sessions)),
            Contender("adapter", "", each(put_and_get, llamaindex)),
            Contender(
                "Memory", "`llama_index.core.memory.Memory.aput` + `.aget`",
                each(memory_session, llamaindex),
            ),
        ],
        length, settings.rounds, WORK, {},
    )  # fmt: skip
    return found
