"""Imports point one way: a module may import modules listed above it, and no framework but its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ORDER = (
    "errors", "run_steps", "entries", "quoting", "config", "formats", "tokens", "events",
    "units", "memo", "rules", "window", "managers", "caching", "cache_loss",
    "report_page", "report", "curation", "curator", "record", "boundary", "integrations", "testing", "lab", "doctor", "cli",
)  # fmt: skip
"""The rooms of the core, each of which may import those before it."""
MOST_LINES = 450
PACKAGES = ("history_curator", "langchain_history_curator", "llamaindex_history_curator")
FRAMEWORKS = ("langchain", "langchain_core", "langgraph", "llama_index")


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def room_of(name: str) -> str:
    """Return the room of a module of the core, such as ``formats``."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports_of(path: Path) -> Iterator[tuple[ast.Import | ast.ImportFrom, str, bool]]:
    """Yield each import with the module it names, and whether it stands in a function."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node, node.module, id(node) not in top
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name, id(node) not in top


@pytest.mark.parametrize("path", modules("history_curator"), ids=lambda path: path.stem)
def test_a_module_of_the_core_imports_only_rooms_above_its_own(path: Path) -> None:
    own = path.relative_to(ROOT / "history_curator").parts[0].removesuffix(".py")
    if own == "__init__":
        return
    assert own in ORDER, f"{own} has no place in the tree"
    for node, name, is_late in imports_of(path):
        room = room_of(name) if name.startswith("history_curator.") else ""
        if room and room != own and not is_late:
            assert ORDER.index(room) < ORDER.index(own), f"{path.name}:{node.lineno} imports {name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_private_module_of_another_package_is_imported(package: str) -> None:
    for path in modules(package):
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts[:-1])
        for node, name, _ in imports_of(path):
            parts = name.split(".")
            if parts[0] in PACKAGES and any(part.startswith("_") for part in parts[1:]):
                parent = ".".join(parts[:-1])
                assert parent == own, f"{path.name}:{node.lineno} imports {name}"


def test_the_core_imports_no_framework_at_import_time() -> None:
    for path in modules("history_curator"):
        for node, name, is_late in imports_of(path):
            assert is_late or name.split(".")[0] not in FRAMEWORKS, f"{path}:{node.lineno}"


@pytest.mark.parametrize("package", PACKAGES[1:])
def test_an_adapter_imports_no_other_adapter(package: str) -> None:
    others = [each for each in PACKAGES[1:] if each != package]
    for path in modules(package):
        for node, name, _ in imports_of(path):
            assert name.split(".")[0] not in others, f"{path}:{node.lineno}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_is_longer_than_a_reader_can_hold(package: str) -> None:
    long = [
        path.name for path in modules(package) if len(path.read_text().splitlines()) > MOST_LINES
    ]
    assert not long
