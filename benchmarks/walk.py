"""The walk: which files of the library one new message passes on its way into a view.

    python -m benchmarks.walk

A conversation is viewed twice, one message is added, and every function that the third view calls
is noted with its file. Files are the unit, because files are what a reader has to open.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

import history_curator
from history_curator import Curator

_ROOT = Path(history_curator.__file__).parent.parent
_PACKAGES = tuple(
    f"{_ROOT / name}{os.sep}"
    for name in ("history_curator", "langchain_history_curator", "llamaindex_history_curator")
)


def conversation() -> list[dict[str, str]]:
    said = [{"role": "system", "content": "Be brief."}]
    for number in range(20):
        said.append({"role": "user", "content": f"question {number}"})
        said.append({"role": "assistant", "content": f"answer {number}"})
    return said


def walk(new: dict[str, str]) -> dict[str, set[str]]:
    """Return the functions that a warm view with one new message calls, by file."""
    curator, said = Curator(max_tokens=8_000), conversation()
    curator.curate(said)
    curator.curate(said)
    passed: dict[str, set[str]] = defaultdict(set)

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(_PACKAGES):
            passed[str(Path(path).relative_to(_ROOT))].add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        curator.curate([*said, new])
    finally:
        sys.setprofile(None)
    return passed


def main() -> None:
    passed = walk({"role": "user", "content": "and now?"})
    rules = [path for path in passed if "/rules/" in path]
    print(f"{len(passed)} files, {len(rules)} of them rules")
    for path in sorted(passed):
        print(f"  {path}: {len(passed[path])} functions")


if __name__ == "__main__":
    main()
