"""The notebooks run from top to bottom, offline, and what is committed shows that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
NAMES = ["01_quickstart", "02_langchain", "03_llamaindex", "04_compare_policies",
         "05_write_your_own_manager"]  # fmt: skip
NEEDS = {"02_langchain": "langchain", "03_llamaindex": "llama_index.core",
         "04_compare_policies": "matplotlib"}  # fmt: skip


def read(name: str) -> Any:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is absent")
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def kinds(notebook: Any) -> set[str]:
    return {kind for output in outputs(notebook) for kind in output.get("data", {})}


def test_these_are_all() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is absent")
    pytest.importorskip("ipykernel", reason="ipykernel is absent")
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is absent")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = read(name)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()  # fmt: skip
    assert all(output.get("name") != "stderr" for output in outputs(notebook))
    assert ("image/png" if name == "04_compare_policies" else "text/html") in kinds(notebook)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_committed_is_clean_and_complete(name: str) -> None:
    notebook = read(name)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for output in outputs(notebook):
        assert output.output_type != "error"
        assert output.get("name") != "stderr"
        assert "/home/" not in str(output)
        assert "site-packages" not in str(output)
        assert " at 0x" not in str(output.get("data", {}).get("text/plain"))
    assert notebook.cells[0].cell_type == "markdown"
    assert ("image/png" if name == "04_compare_policies" else "text/html") in kinds(notebook)
