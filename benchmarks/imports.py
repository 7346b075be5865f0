"""What ``import history_curator`` costs, in new processes."""

from __future__ import annotations

import subprocess
import sys
from statistics import median

from benchmarks._settings import Settings
from benchmarks._table import Row, Target

OURS = "import history_curator"
PEER = "import langchain_core.messages"
_TIMED = "from time import process_time as now; start = now(); {0}; print(now() - start)"


def seconds(statement: str) -> float:
    """CPU seconds of a statement in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", _TIMED.format(statement)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout)


def run(settings: Settings) -> list[Row]:
    """Measure, and return the rows."""
    used = "from history_curator import Curator"
    seconds(OURS), seconds(PEER), seconds(used)  # byte code is compiled once
    turns = [(seconds(OURS), seconds(used), seconds(PEER)) for _ in range(settings.processes)]
    return [
        Row(
            f"`{OURS}`",
            f"`{PEER}`",
            median(ours / peer for ours, _, peer in turns),
            target=Target("<=", 1 / 3),
            part="imports",
        ),
        Row(
            f"`{used}`",
            f"`{PEER}`",
            median(ours / peer for _, ours, peer in turns),
            part="floor",
        ),
    ]
