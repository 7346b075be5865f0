"""Write rows to a Parquet file as they come in, so that they are never all in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from history_curator.lab.conversations import import_extra

Rows = Sequence[Mapping[str, Any]]
_BATCH = 10_000


@contextmanager
def write_rows(path: str | Path | None) -> Iterator[Callable[[Rows], None]]:
    """Yield a function that adds rows to a Parquet file; without a path it only takes them.

    After an error there is no file.
    """
    batch, writers = list[Mapping[str, Any]](), list[Any]()

    def add(rows: Rows, least: int | None = None) -> None:
        batch.extend(rows if path else ())
        if len(batch) < (least or _BATCH):
            return
        schema = writers[0].schema if writers else None
        table = import_extra("pyarrow", "scale").Table.from_pylist(batch, schema=schema)
        if not writers:
            file = import_extra("pyarrow.parquet", "scale")
            writers.append(file.ParquetWriter(str(path), table.schema))
            Path(str(path)).chmod(0o600)
        writers[0].write_table(table)
        batch.clear()

    try:
        yield add
        add((), least=1)
    except BaseException:
        if writers:
            Path(str(path)).unlink()
        raise
    finally:
        for each in writers:
            each.close()
