"""No public name is missing from what the type checker is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SHOWN = Path(__file__).with_name("public_names.py").read_text(encoding="utf-8")
PACKAGES = {"history_curator": "core", "langchain_history_curator": "langchain",
            "llamaindex_history_curator": "llamaindex"}  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_shown_to_the_type_checker(package: str) -> None:
    module = pytest.importorskip(package, reason=f"{package} needs its framework")
    shown = set(re.findall(rf"(?<![.\w]){PACKAGES[package]}\.(\w+)", SHOWN)) - {"llms"}
    missing = set(module.__all__) - shown
    assert not missing, f"add {sorted(missing)} to tests/typing/public_names.py"
    assert shown <= {*module.__all__}, "a name is shown that is not public"
    assert {*dir(module)} - {"__version__"} == {*module.__all__}, "completion offers no others"


def test_the_packages_are_typed_and_the_type_checker_is_told_to_look() -> None:
    root = Path(__file__).parents[2]
    assert '"tests/typing"' in (root / "pyproject.toml").read_text(encoding="utf-8")
    assert all((root / package / "py.typed").is_file() for package in PACKAGES)


API = sorted(
    name
    for page in (Path(__file__).parents[2] / "docs/api").glob("*.md")
    for name in re.findall(r"^::: ([\w.]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("name", sorted({*API, *PACKAGES}))
def test_a_public_module_lists_its_names_and_no_others(name: str) -> None:
    module = pytest.importorskip(name, reason=f"{name} needs its framework")
    assert [each for each in module.__all__ if not hasattr(module, each)] == []
    assert not {"Any", "TYPE_CHECKING", "annotations"} & {*module.__all__}
