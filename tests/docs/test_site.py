"""The documentation site builds without a warning and loads nothing from elsewhere."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

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


def find_links(page: Path, site: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield each link of a built page to another place of the site: as written, file, anchor."""
    for href in re.findall(r'<a[^>]+href="([^"]+)"', page.read_text(encoding="utf-8")):
        path, _, anchor = html.unescape(href).partition("#")
        if re.match(r"[a-z]+:|//", path):
            continue
        target = (page.parent / path).resolve() if path else page
        yield href, target / "index.html" if target.is_dir() else target, anchor


def test_every_link_of_the_site_leads_to_a_page_and_an_anchor_of_it(site: Path) -> None:
    anchors: dict[Path, set[str]] = {}
    broken = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for href, target, anchor in find_links(page, site):
            if not target.is_file():
                broken.append((page.relative_to(site).as_posix(), href))
            elif anchor and target.suffix == ".html":
                if target not in anchors:
                    text = target.read_text(encoding="utf-8")
                    anchors[target] = set(re.findall(r'\b(?:id|name)="([^"]+)"', text))
                if unquote(anchor) not in anchors[target]:
                    broken.append((page.relative_to(site).as_posix(), href))
    assert not broken


def test_daily_tasks_are_at_most_three_clicks_from_the_start_page(site: Path) -> None:
    reached, pages = {site / "index.html"}, [site / "index.html"]
    for _ in range(3):
        pages = [
            target
            for page in pages
            for _, target, _ in find_links(page, site)
            if target.suffix == ".html" and target.is_file() and target not in reached
        ]
        reached.update(pages)
    tasks = (site / "tasks" / "index.html").read_text(encoding="utf-8")
    assert len(re.findall(r"<h2 id=", tasks)) == 10
    assert site / "tasks" / "index.html" in reached
