"""The documentation site builds without a warning and loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module, reason=f"{module} is absent")
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(  # not quiet: mkdocs counts only the warnings that it prints
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(target)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_every_page_is_built(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        relative = page.relative_to(ROOT / "docs")
        if relative.parts[0] in {"generated", "results"}:
            continue
        built = site / relative.with_suffix("") / "index.html"
        if relative.name == "index.md":
            built = site / relative.with_name("index.html")
        assert built.is_file(), relative


def test_the_reference_has_the_public_names(site: Path) -> None:
    text = (site / "api" / "core" / "index.html").read_text(encoding="utf-8")
    for name in ("Curator", "CurationReport", "ConversationEntry", "BudgetUnsatisfiableError"):
        assert f"{name}" in text
    lab = (site / "api" / "lab" / "index.html").read_text(encoding="utf-8")
    assert 'id="history_curator.lab.replay"' in lab


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r'<(?:script|img|iframe)[^>]+src="https?:|<link[^>]+href="https?:[^"]+\.(?:css|js|woff)'
    )
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text(encoding="utf-8")), page.name
