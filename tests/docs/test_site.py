"""The documentation site builds without a warning, of broken links too, and loads nothing."""

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


def test_the_reference_has_the_public_names(site: Path) -> None:
    text = (site / "api" / "core" / "index.html").read_text(encoding="utf-8")
    for name in ("Curator", "CurationReport", "ConversationEntry", "BudgetUnsatisfiableError"):
        assert name in text
    lab = (site / "api" / "lab" / "index.html").read_text(encoding="utf-8")
    assert 'id="history_curator.lab.replay"' in lab


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r'<(?:script|img|iframe)[^>]+src="https?:|<link[^>]+href="https?:[^"]+\.(?:css|js|woff)'
    )
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text(encoding="utf-8")), page.name
