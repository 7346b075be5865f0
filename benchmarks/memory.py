"""What is held for a long record beyond the messages themselves.

Run as a module it measures in its own process: ``python -m benchmarks.memory 10000``.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

from benchmarks._conversation import conversation
from benchmarks._settings import Settings
from benchmarks._table import Row, Target


def held(n: int) -> dict[str, float]:
    """Bytes held by a curator and a record, relative to the bytes of the messages."""
    from benchmarks import _ours
    from history_curator import HistorySession

    text = json.dumps(conversation(n))
    conversation.cache_clear()
    _ours.core()([{"role": "user", "content": "hello"}])
    HistorySession().append({"role": "user", "content": "hello"})
    gc.collect()
    tracemalloc.start()
    messages = json.loads(text)
    size = _now()
    view = _ours.core()
    view(messages)
    one = _now() - size
    history: list[object] = []
    for message in messages:
        history.append(message)
        view(history)
    every = _now() - size - sys.getsizeof(history)
    del view
    before = _now()
    session = HistorySession()
    session.record(messages)
    recorded = _now() - before
    return {"one view": one / size, "every view": every / size, "session": recorded / size}


def _now() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def run(settings: Settings) -> list[Row]:
    """Measure in a process of its own, and return the rows."""
    n = settings.cold
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", str(n)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).resolve().parents[1],
    )  # fmt: skip
    found = json.loads(done.stdout)
    limit, size = Target("<=", 0.25), "the size of the messages"
    return [
        Row("held by a `Curator` after one view of them", size, found["one view"], "%",
            target=limit, n=n, part="memory"),
        Row("held by a `Curator` after one view per message", size, found["every view"], "%",
            target=limit, n=n, part="memory"),
        Row("held by a `HistorySession` that recorded them", size, found["session"], "%",
            target=limit, n=n, part="memory"),
    ]  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(held(int(sys.argv[1]))))
