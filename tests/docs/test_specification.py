"""Every row of the page on the specification is shown by its line of code."""

from __future__ import annotations

import re
from typing import Any

from tests.docs.test_code_blocks import FENCE, ROOT

PAGE = ROOT / "docs" / "specification.md"
SHOWN = re.compile(r"^\|.*\| `([^`]*)` \|$", re.MULTILINE)
DOCUMENTS = ["Validation rules", "History schema", "History manager", "Stateless history",
             "Pruning plan"]  # fmt: skip


def test_each_row_of_the_specification_is_shown_by_its_line() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "documentation"}
    failed, shown = [], 0
    for part in re.split(r"^## ", text, flags=re.MULTILINE):
        for block in FENCE.finditer(part):
            exec(block.group(1), names)
        for line in SHOWN.findall(part):
            shown += 1
            if not eval(line, names):
                failed.append(line)
    assert failed == []
    rows = [line for line in text.splitlines() if line.startswith("| ") and "Shown by" not in line]
    assert shown == len(rows) > 100
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == DOCUMENTS
    assert "specification.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
