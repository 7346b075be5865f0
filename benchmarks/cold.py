"""The first view of a long history in a new process, with nothing cached.

Run as a module it is that process: ``python -m benchmarks.cold core conversation.json``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from benchmarks._conversation import as_langchain, conversation
from benchmarks._measure import note
from benchmarks._settings import Settings
from benchmarks._table import Row, Target

PEERS = {
    "exact": "`langchain_core.messages.trim_messages`, exact counter",
    "approximate": "`langchain_core.messages.trim_messages`, approximate counter",
}


def one_view(who: str, path: str) -> dict[str, float]:
    """CPU seconds of loading the tokenizer and of the first view, in this process."""
    from benchmarks import _ours, _peers

    messages = json.loads(Path(path).read_text(encoding="utf-8"))
    if who in PEERS or who == "langchain":
        messages = as_langchain(messages)
    start = process_time()
    if who != "approximate":
        _peers.encode()("hello")
    loaded = process_time()

    def make() -> Any:
        if who in PEERS:
            return _peers.trim_messages(_peers.COUNTERS[who]())
        return {"core": _ours.core, "langchain": _ours.langchain}[who]()

    make()(messages[:2])  # modules that are imported at the first call are not the view's cost
    view = make()
    ready = process_time()
    view(messages)
    return {"load": loaded - start, "view": process_time() - ready}


def run(settings: Settings) -> list[Row]:
    """Measure in processes of their own, in turns, and return the rows."""
    n = settings.cold
    names = ("core", "langchain", *PEERS)
    times: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "conversation.json"
        path.write_text(json.dumps(conversation(n)), encoding="utf-8")
        for _ in range(max(1, settings.processes // 2 + 1)):
            for name in names:
                times[name].append(_in_new_process(name, path))
                note(f"  cold {name}: {times[name][-1]}")
    rows = []
    for name, call in PEERS.items():
        loaded = _ratio(times, name, ("view",), "core")
        whole = _ratio(times, name, ("load", "view"), "core")
        target = Target(">=", 20) if name == "exact" else None
        rows.append(
            Row("one cold view", call, loaded, adapter=_ratio(times, name, ("view",), "langchain"),
                target=target, n=n)
        )  # fmt: skip
        rows.append(
            Row("one cold view and loading the tokenizer", call, whole, n=n,
                adapter=_ratio(times, name, ("load", "view"), "langchain"))
        )  # fmt: skip
    return rows


def _in_new_process(name: str, path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cold", name, str(path)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).resolve().parents[1],
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _ratio(
    times: dict[str, list[dict[str, float]]], peer: str, parts: tuple[str, ...], ours: str
) -> float:
    return median(
        sum(theirs[part] for part in parts) / sum(mine[part] for part in parts)
        for theirs, mine in zip(times[peer], times[ours], strict=True)
    )


if __name__ == "__main__":
    print(json.dumps(one_view(*sys.argv[1:])))
