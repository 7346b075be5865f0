"""The numbers an index is made of: the newest texts in memory, full blocks in files when asked.

A block is named by a digest of all its texts, so it needs no table and no lock, is found again
after a restart by whoever has the same texts, and means nothing to anybody else. It is written
once, to a temporary file that is then moved, and only ever read after that.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from history_curator.managers.relevance._text import numpy
from history_curator.entries import write_private

logger = logging.getLogger("history_curator")

BLOCK = 2_048
"""Texts of a full block."""

_FORM = b"history-curator terms 2"


class Blocks:
    """Texts as numbers, in order; full blocks are kept in a folder where there is one."""

    def __init__(self, folder: Any = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._full: list[tuple[Any, Any]] = []
        self._texts: list[str] = []  # of the newest block, where it may become a file
        self._ends: array[int] = array("I")
        self._numbers: array[int] = array("I")

    def __len__(self) -> int:
        return len(self._full) * BLOCK + len(self._ends)

    @property
    def nbytes(self) -> int:
        """Bytes held in memory, texts of the newest block aside."""
        full = () if self._folder else self._full
        return 4 * (len(self._ends) + len(self._numbers)) + sum(
            int(ends.nbytes + numbers.nbytes) for ends, numbers in full
        )

    def extend(self, texts: Iterable[str], number: Callable[[str], array[int]]) -> None:
        """Append texts; `number` is asked for those that are in no file."""
        waiting = list(texts)
        while waiting:
            room = BLOCK - len(self._ends)
            some, waiting = waiting[:room], waiting[room:]
            if self._folder is not None:
                self._texts.extend(some)
            if len(some) < room or not self._load():
                for text in some:
                    self._numbers.extend(number(text))
                    self._ends.append(len(self._numbers))
                if len(some) == room:
                    self._close()

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield, block by block for the first `size` texts, where each ends, and all numbers."""
        np = numpy()
        newest = (
            np.array(self._ends, dtype=np.uint32),
            np.array(self._numbers, dtype=np.uint32),
        )
        for ends, numbers in (*self._full, newest):
            if size <= 0 or not len(ends):
                return
            shown = ends[:size]
            yield shown, numbers[: shown[-1]]
            size -= len(shown)

    def _close(self) -> None:
        """Turn the newest block into a full one."""
        np = numpy()
        block = np.array(self._ends, dtype=np.uint32), np.array(self._numbers, dtype=np.uint32)
        path = self._path()
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_private(path, np.concatenate(block).astype("<u4").tobytes())
                block = _opened(path) or block
            except OSError as error:
                logger.warning("A block of the index stays in memory: %s", type(error).__name__)
        self._start_next(block)

    def _load(self) -> bool:
        """Take the block whose texts are complete from its file, if there is one."""
        path = self._path()
        block = _opened(path) if path is not None and path.is_file() else None
        if block is None:
            return False
        self._start_next(block)
        return True

    def _start_next(self, block: tuple[Any, Any]) -> None:
        self._full.append(block)
        self._texts, self._ends, self._numbers = [], array("I"), array("I")

    def _path(self) -> Path | None:
        if self._folder is None:
            return None
        digest = blake2b(_FORM, digest_size=32)
        for text in self._texts:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        return self._folder / f"{digest.hexdigest()}.terms"


def _opened(path: Path) -> tuple[Any, Any] | None:
    """Return a block as it lies in its file; None when the file is not one."""
    if path.stat().st_size < 4 * BLOCK:
        return None
    data = numpy().memmap(path, dtype="<u4", mode="r")
    ends, numbers = data[:BLOCK], data[BLOCK:]
    return (ends, numbers) if ends[-1] == len(numbers) else None
