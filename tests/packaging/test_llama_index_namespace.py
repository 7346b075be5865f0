"""The thin package with the name LlamaIndex gives its integrations."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import history_curator
from tests.packaging.try_wheel import THIN, THIN_USE

pytest.importorskip("llama_index.core", reason="llama-index-core is absent")
ROOT = Path(__file__).resolve().parents[2]


def test_it_stands_beside_the_other_namespaces() -> None:
    for folder in (THIN / "llama_index", THIN / "llama_index" / "memory"):
        assert folder.is_dir()
        assert not (folder / "__init__.py").exists(), "it would hide every other integration"
    path = os.pathsep.join((str(THIN), str(ROOT)))
    subprocess.run(
        [sys.executable, "-c", THIN_USE], check=True, env={**os.environ, "PYTHONPATH": path}
    )


def test_it_says_where_its_names_are() -> None:
    if sys.version_info < (3, 11):
        pytest.skip("tomllib comes with Python 3.11")
    import tomllib

    project = tomllib.loads((THIN / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dependencies"] == ["history-curator[llamaindex]"]
    assert project["tool"]["llamahub"]["import_path"] == "llama_index.memory.history_curator"
    assert project["project"]["version"] == history_curator.__version__
