"""Real conversations, kept beside the project and never inside it."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"

TOOL_FILES = ("coding_sessions", "tau_bench", "tau2_bench", "misc_agents")
CHAT_FILES = ("locomo", "beam100k")
EDGE_FILES = ("edge_openai", "edge_anthropic")
FILES = TOOL_FILES + CHAT_FILES + EDGE_FILES


def available(name: str) -> bool:
    """Whether a file of conversations is there."""
    return _path(name).is_file()


def load(name: str) -> list[dict[str, Any]]:
    """Return the conversations of a file; skip the running test where it is absent."""
    if not available(name):
        pytest.skip(f"real conversations are absent: {_path(name).name} is not in ../shared/data")
    return _load(name)


def _path(name: str) -> Path:
    return DATA / f"{name}.jsonl.gz"


@lru_cache(maxsize=2)
def _load(name: str) -> list[dict[str, Any]]:
    with gzip.open(_path(name), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
