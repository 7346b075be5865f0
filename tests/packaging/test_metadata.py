"""What the package says about itself."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from history_curator.formats import adapters
from tests.packaging.try_wheel import CHAINS, USES

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("history_curator", "langchain_history_curator", "llamaindex_history_curator")
# Looked for where they happen to be installed, never needed.
GUESTS = {"ray", "langmem", "litellm"}
PINNED_BY_PYDANTIC = {"pydantic_core"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    if sys.version_info < (3, 11):
        pytest.skip("tomllib comes with Python 3.11")
    import tomllib

    loaded: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return loaded


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=;! ]", each)[0].lower().replace("_", "-") for each in requirements}


def imported(package: str) -> set[str]:
    """Top-level modules the files of a package import, wherever they do it."""
    found = set()
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - set(PACKAGES) - GUESTS - PINNED_BY_PYDANTIC


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_imported_is_declared(project: dict[str, Any], package: str) -> None:
    extras = project["project"]["optional-dependencies"]
    declared = names(project["project"]["dependencies"]) | {
        name for extra, needs in extras.items() if extra not in {"dev", "docs"}
        for name in names(needs)
    }  # fmt: skip
    homes = packages_distributions()
    for module in sorted(imported(package)):
        known = {each.lower().replace("_", "-") for each in homes.get(module, ())}
        if not known:
            continue  # not installed here
        assert known & declared, f"{package} imports {module} of {known}, which no extra declares"


def test_every_extra_is_tried_with_the_wheel(project: dict[str, Any]) -> None:
    extras = set(project["project"]["optional-dependencies"]) - {"dev", "docs", "engine", "all"}
    assert extras == set(USES) - {""}
    assert sorted(USES) == sorted(extra for chain in CHAINS for extra in chain)


def test_the_project_says_where_it_lives(project: dict[str, Any]) -> None:
    urls = project["project"]["urls"]
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= set(urls)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    relative = re.findall(r"\]\((?!https?://|#)([^)]+)\)", readme)
    assert relative == [], "the package index cannot follow these"


def test_the_constraints_hold_for_every_python(project: dict[str, Any]) -> None:
    """A pin that an older Python cannot have says so, instead of making everything unsolvable."""
    specifiers = pytest.importorskip("packaging.specifiers", reason="packaging is absent")
    from importlib.metadata import PackageNotFoundError, metadata

    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition("==")
        try:
            wanted = metadata(name.strip()).get("Requires-Python") or ""
        except PackageNotFoundError:
            continue
        if "3.10" not in specifiers.SpecifierSet(wanted):
            assert "python_version >=" in rest, f"{name} needs Python {wanted}"


def test_the_core_finds_each_adapter_by_its_entry_point(project: dict[str, Any]) -> None:
    declared = project["project"]["entry-points"]["history_curator.formats"]
    assert {name: point.value for name, point in adapters().items()} == declared
    for point in adapters().values():
        assert {"FORMAT", "dump", "load"} <= vars(point.load()).keys()


@pytest.mark.parametrize(
    "message",
    [
        "from langchain_core.messages import HumanMessage as Said",
        "from llama_index.core.base.llms.types import ChatMessage as Said",
    ],
)
def test_messages_of_a_framework_need_no_import_of_their_adapter(message: str) -> None:
    program = f"""
import sys
from history_curator import Curator
{message}
assert not any(name.endswith("_history_curator") for name in sys.modules)
said = Said("hi")
assert Curator(max_tokens=100).curate([said]).messages == [said]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
