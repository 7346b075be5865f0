"""The doctor on real logs, kept beside the project: what it claims against what was reported."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from history_curator.doctor import Diagnosis, diagnose
from tests.support.data import DATA

pytestmark = pytest.mark.data
ARCHIVE = DATA / "claude_code_logs.tar.gz"
if not ARCHIVE.is_file():
    pytest.skip(
        f"real logs are absent: {ARCHIVE.name} is not in ../shared/data", allow_module_level=True
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(path, filter="data")
    return path


@pytest.fixture(scope="module")
def found(folder: Path) -> Diagnosis:
    return diagnose([folder], budgets=())


def test_totals_are_those_reported(found: Diagnosis, folder: Path) -> None:
    last: dict[str, Any] = {}
    for file in folder.glob("*.jsonl"):
        for line in file.read_text().split("\n"):
            row = json.loads(line) if line else {}
            message = row.get("message") or {}
            if row.get("type") == "assistant" and message.get("model") != "<synthetic>":
                last[message["id"]] = message["usage"]
    assert found.calls == len(last)
    for key, name in (
        ("input", "input_tokens"),
        ("cache_read", "cache_read_input_tokens"),
        ("cache_write", "cache_creation_input_tokens"),
        ("output", "output_tokens"),
    ):
        assert found.usage[key] == sum(usage[name] for usage in last.values())


def test_the_simulator_reads_what_the_provider_read(found: Diagnosis) -> None:
    assert found.simulated_read == pytest.approx(found.usage["cache_read"], rel=0.01)


def test_every_token_sent_is_accounted_for(found: Diagnosis) -> None:
    sent = sum(found.usage[key] for key in ("input", "cache_read", "cache_write"))
    assert sum(found.kinds.values()) == pytest.approx(sent, rel=1e-4)
    assert found.problems == ()
