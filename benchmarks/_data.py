"""Real conversations, found beside the project; benchmarks say so where they are absent."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def load(name: str) -> list[dict[str, Any]]:
    """Return the conversations of one file.

    Raises:
        SystemExit: when the folder is not there.
    """
    path = DATA / f"{name}.jsonl.gz"
    if not path.is_file():
        raise SystemExit(f"real conversations are absent: {path.name} is not in ../shared/data")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
