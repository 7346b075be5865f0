"""Real logs of Claude Code, unpacked from beside the project for as long as they are needed."""

from __future__ import annotations

import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks._data import DATA

ARCHIVE = DATA / "claude_code_logs.tar.gz"


@contextmanager
def logs() -> Iterator[Path]:
    """Hand out a folder with the logs.

    Raises:
        SystemExit: when they are not there.
    """
    if not ARCHIVE.is_file():
        raise SystemExit(f"real logs are absent: {ARCHIVE.name} is not in ../shared/data")
    with tempfile.TemporaryDirectory(prefix="history-curator-") as folder:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


def is_tuned(name: str) -> bool:
    """Return whether settings may be chosen on a log; the other half is for reporting.

    It follows from the session that the file is named after, so more logs do not move one to the
    other half.
    """
    return zlib.crc32(name.removesuffix(".jsonl")[-36:].encode()) % 2 == 0
