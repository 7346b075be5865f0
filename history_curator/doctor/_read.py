"""Find the logs under some paths and read them, whatever wrote them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from history_curator.doctor._claude_code import is_claude_code, read_claude_code
from history_curator.doctor._exports import from_langsmith, from_spans, is_langsmith, is_span
from history_curator.doctor._requests import is_request, read_requests
from history_curator.doctor._session import Session
from history_curator.errors import ConversionError

_SPACE = re.compile(r"\s*")
_ENDINGS = (".jsonl", ".json", ".ndjson", ".jsonl.gz", ".json.gz", ".ndjson.gz")


def find_logs(paths: Iterable[str | Path]) -> list[Path]:
    """Return the files to read: those named, and the JSON and JSON lines files under folders.

    Raises:
        ConversionError: naming a path that is not there, or a folder with no log in it.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.name.endswith(_ENDINGS))
            if not inside:
                raise ConversionError(
                    f"{path} holds no logs.", fix=f"look for files that end in {_ENDINGS[0]}."
                )
            found.extend(inside)
        elif path.exists():
            found.append(path)
        else:
            raise ConversionError(f"{path} is not there.", fix="pass a log or a folder of logs.")
    return list(dict.fromkeys(found))


def read_logs(
    files: Iterable[Path], done: Callable[[int], None] = lambda _count: None
) -> tuple[list[Session], list[str]]:
    """Return the sessions of all files, oldest first, and what could not be read.

    A broken line, or a file that is no log, is named and passed over: one bad file of a hundred
    does not keep the others from being read. An answer is charged once, in the oldest file that
    has it.

    Args:
        files: what to read.
        done: told after every file.
    """
    problems: list[str] = []
    loaded = []
    for file in files:
        rows = list(_rows(file, problems))
        if rows:
            loaded.append((_first_time(rows), str(file), rows))
        done(1)
    sessions: list[Session] = []
    counted: set[str] = set()
    for _, name, rows in sorted(loaded, key=lambda each: each[:2]):
        found = _sessions(rows, counted, Path(name))
        if not found:
            problems.append(f"{name}: no request with usage in it")
        sessions.extend(found)
    return sessions, problems


def _sessions(rows: list[Any], counted: set[str], file: Path) -> list[Session]:
    if any(map(is_claude_code, rows[:20])):
        return read_claude_code(filter(is_claude_code, rows), counted)
    name = file.name.partition(".")[0]
    if any(map(is_langsmith, rows[:20])):
        return read_requests(from_langsmith(filter(is_langsmith, rows)), counted, name)
    if any(map(is_span, rows[:20])) and not any(map(is_request, rows[:20])):
        return read_requests(from_spans(filter(is_span, rows)), counted, name)
    return read_requests(filter(is_request, rows), counted, name)


def _rows(file: Path, problems: list[str]) -> Iterator[Any]:
    try:
        raw = file.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        problems.append(f"{file}: {error}")
        return
    spread, rest = _spread(text)
    if spread:
        yield from spread[0] if len(spread) == 1 and isinstance(spread[0], list) else spread
        if rest:
            problems.append(f"{file}: its last {rest:,} characters are not JSON, passed over")
        return
    broken = 0
    for line in text.split("\n"):  # no other line end: JSON text may hold them
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except ValueError:
            broken += 1
    if broken:
        problems.append(f"{file}: {broken} line{'s' if broken > 1 else ''} not JSON, passed over")


def _spread(text: str) -> tuple[list[Any], int]:
    """Return a list, or objects, spread over several lines, and how much behind them is none.

    Nothing for a file with one object a line.
    """
    found: list[Any] = []
    at = _SPACE.match(text).end()  # type: ignore[union-attr]
    with suppress(ValueError):
        if text[at : at + 1] != "[" and json.loads(text[at:].partition("\n")[0]) is not None:
            return [], 0
    with suppress(ValueError):
        while at < len(text):
            value, end = json.JSONDecoder().raw_decode(text, at)
            found.append(value)
            at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    return found, len(text) - at


def _first_time(rows: list[Any]) -> str:
    for row in rows:
        if isinstance(row, Mapping):
            time = row.get("timestamp") or row.get("time") or row.get("start_time")
            if time:
                return str(time)
    return ""
