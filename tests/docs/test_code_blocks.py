"""Every Python block of the README and the documentation is run, page by page, in order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs import readers_desk

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITH_CODE = [page for page in PAGES if FENCE.search(page.read_text(encoding="utf-8"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "documentation", **readers_desk.core()}
    if "langchain" in text:
        pytest.importorskip("langchain", reason="langchain is absent")
        names.update(readers_desk.langchain())
    if "llama" in text:
        pytest.importorskip("llama_index.core", reason="llama-index-core is absent")
        names.update(readers_desk.llamaindex())
    if ".plot" in text:
        pytest.importorskip("matplotlib", reason="matplotlib is absent").use("Agg")
    monkeypatch.chdir(tmp_path)
    for block in FENCE.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        code = compile("\n" * line + block.group(1), name_of(page), "exec")
        exec(code, names)


def test_the_pages_have_code() -> None:
    found = {name_of(page) for page in WITH_CODE}
    assert {"README.md", "docs/howto/langchain.md", "docs/howto/llamaindex.md"} <= found


def test_the_readme_fits_a_screen_and_shows_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 105
    assert "make demo" in text
    assert "make test" in text


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"
