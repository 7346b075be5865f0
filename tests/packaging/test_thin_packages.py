"""The thin packages under the names that users of each framework look for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import history_curator
from tests.packaging.try_wheel import PACKAGING, THIN

ROOT = Path(__file__).resolve().parents[2]


def test_the_llama_index_package_stands_beside_the_other_namespaces() -> None:
    pytest.importorskip("llama_index.core", reason="llama-index-core is absent")
    name, use = THIN["llamaindex"]
    for folder in (PACKAGING / name / "llama_index", PACKAGING / name / "llama_index" / "memory"):
        assert folder.is_dir()
        assert not (folder / "__init__.py").exists(), "it would hide every other integration"
    path = os.pathsep.join((str(PACKAGING / name), str(ROOT)))
    subprocess.run([sys.executable, "-c", use], check=True, env={**os.environ, "PYTHONPATH": path})


@pytest.mark.parametrize("extra", THIN)
def test_a_thin_package_installs_the_same_version_of_ours(extra: str) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("tomllib comes with Python 3.11")
    import tomllib

    name, _ = THIN[extra]
    data = tomllib.loads((PACKAGING / name / "pyproject.toml").read_text(encoding="utf-8"))
    project, version = data["project"], history_curator.__version__
    assert project["name"] == name
    assert project["version"] == version
    assert project["dependencies"] == [f"history-curator[{extra}]=={version}"]
    if extra == "llamaindex":
        assert data["tool"]["llamahub"]["import_path"] == "llama_index.memory.history_curator"
