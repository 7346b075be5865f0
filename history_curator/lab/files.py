"""Read conversations from files and object stores, and write texts and rows to files."""

from __future__ import annotations

import glob
import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from heapq import nsmallest
from pathlib import Path
from typing import Any

from history_curator.entries import write_private
from history_curator.errors import ConversionError, a_type
from history_curator.formats import RESPONSE_ITEMS, parse_json
from history_curator.lab.conversations import LabConversation, import_extra
from history_curator.lab.logs import Reader, read_log

MAX_BYTES = 2**31
"""A gzipped file may unpack to so many bytes, and to a hundred times its size or 64 MiB."""
_ENDINGS = (".json", ".jsonl", ".ndjson")
_MESSAGE_KEYS = ("messages", "input", "contents")
_BATCH = 10_000
"""Rows that are held before they are written to a Parquet file."""
Rows = Sequence[Mapping[str, Any]]


def choose_files(files: Sequence[str], sample: int | None) -> tuple[list[str], str]:
    """Return a sample of the files, the same every time, and a line that says what it is."""
    if sample is None or sample >= len(files):
        return list(files), ""
    chosen = set(nsmallest(sample, files, key=lambda path: hashlib.sha256(path.encode()).digest()))
    told = f"A sample: {sample:,} of {len(files):,} files, chosen by their names."
    return [path for path in files if path in chosen], told


def as_paths(source: Any) -> list[str | Path]:
    """Return a path or a list of paths as a list, and an empty one for anything else."""
    given = [source] if isinstance(source, (str, Path)) else source
    is_paths = isinstance(given, (list, tuple)) and all(isinstance(n, (str, Path)) for n in given)
    return list(given) if is_paths else []


def as_conversations(source: Any) -> list[LabConversation]:
    """Return conversations from one list of messages, or several lists or mappings."""
    items = [source] if isinstance(source, (LabConversation, Mapping)) else list(source)
    if items and (_is_message(items[0]) or hasattr(items[0], "content")):
        items = [items]
    return [
        item if isinstance(item, LabConversation) else _read_object(item, f"conversation {number}")
        for number, item in enumerate(items)
    ]


def load_conversations(
    *sources: str | Path, problems: list[str] | None = None
) -> list[LabConversation]:
    """Return the conversations of files, folders and patterns (``*``, ``**``, ``?``, ``[…]``).

    Files and conversations that cannot be read are listed in ``problems``, or else raise.
    """
    found: list[LabConversation] = []
    for path in find_files(sources):
        with collect_errors(problems, path):
            for each in read_file(path, problems):
                with collect_errors(problems, path):
                    assert each.entries is not None  # read here, so that errors are found here
                    found.append(each)
    return found


@contextmanager
def collect_errors(problems: list[str] | None, path: str) -> Iterator[None]:
    """List an error of reading a file, in one line, where there is a list; raise it otherwise."""
    try:
        yield
    except (ConversionError, OSError) as error:
        if problems is None:
            raise
        text = describe_error(error)
        problems.append(text if path in text else f"{path}: {text}")


def describe_error(error: Exception) -> str:
    """Return an error in one line, with the file and the fix where the system does not name them."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error).removeprefix("messages: ")
    name = "" if error.filename is None else f"{error.filename}: "
    return f"{name}{error.strerror}.{'' if 'Fix:' in error.strerror else ' Fix: check the path.'}"


def find_files(sources: Iterable[str | Path]) -> list[str]:
    """Return the files that paths stand for; of a folder its JSON and JSON lines, gzipped or not."""
    found: list[str] = []
    for source in map(str, sources):
        inside, path = [source], Path(source)
        if "://" in source:
            inside = _find_objects(source)
        elif path.is_dir():
            inside = _keep_readable(str(each) for each in path.rglob("*") if each.is_file())
        elif glob.has_magic(source) and not path.exists():
            inside = sorted(glob.glob(source, recursive=True))
        if not inside:
            fix = f"name files that end on {', '.join(_ENDINGS)}, gzipped or not."
            raise ConversionError(f"{source} holds no file to read.", fix=fix)
        found += inside
    return list(dict.fromkeys(found))


def _find_objects(url: str) -> list[str]:
    """Return the objects that a URL such as ``s3://bucket/logs`` stands for, as `find_files` does."""
    with _name_store_errors(url):
        system, place = import_extra("fsspec", "scale").core.url_to_fs(url)
        if glob.has_magic(place):
            return sorted(map(system.unstrip_protocol, system.glob(place)))
        if not system.isdir(place):
            return [url]
        return _keep_readable(map(system.unstrip_protocol, system.find(place)))


@contextmanager
def _name_store_errors(url: str) -> Iterator[None]:
    """Turn the errors of an object store's own library into one that names the URL."""
    try:
        yield
    except (OSError, ImportError):
        raise
    except Exception as error:
        problem = (
            f"{url}: {error} ({type(error).__name__}). Fix: check the URL and your credentials."
        )
        raise OSError(problem) from error


def _keep_readable(names: Iterable[str]) -> list[str]:
    """Return the names that end like files of conversations, in order."""
    return sorted(n for n in names if n.lower().removesuffix(".gz").endswith(_ENDINGS))


def read_file(
    path: str, problems: list[str] | None = None, default: Reader | None = None
) -> list[LabConversation]:
    """Read a file of conversations or a log, or what ``default`` reads; ``-`` is standard input.

    A broken line is an error, or passed over where there is a list of ``problems`` to put it on.
    """
    rows = _read_rows(path, problems)
    logged = read_log(rows, path, default)
    if logged is not None:
        return logged
    if not rows or any(map(_is_message, rows)):
        return [LabConversation(path, rows)]
    found = []
    for number, row in enumerate(rows):
        with collect_errors(problems, path):
            found.append(_read_object(row, f"{path}#{number}" if len(rows) > 1 else path))
    return found


def _read_rows(path: str, problems: list[str] | None) -> list[Any]:
    """Return the JSON values of a file: those of a list, or of each line."""
    text = read_text(path).strip()
    if not text:
        raise ConversionError(f"{path} is empty.", fix="pass a file with a conversation in it.")
    root, problem = _parse(text)
    if not problem:
        return root if isinstance(root, list) else [root]
    values = [(n, *_parse(line)) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    rows = [value for _, value, reason in values if not reason]
    broken = [f"line {number}: {reason}" for number, _, reason in values if reason]
    if broken and (problems is None or not rows):
        fix = "the file must be one JSON document, or one JSON object per line."
        raise ConversionError(f"{path}, {broken[0] if rows else problem}.", fix=fix)
    if broken and problems is not None:
        more = f" and {len(broken) - 1:,} more lines" if len(broken) > 1 else ""
        problems.append(f"{path}, {broken[0]}{more}; the rest of it was read.")
    return rows


def _parse(text: str) -> tuple[Any, str]:
    """Return a JSON value and no reason, or the reason why the text is none."""
    try:
        return parse_json(text), ""
    except ValueError as error:
        return None, f"not JSON ({error})"


def read_text(path: str) -> str:
    """Return the text of a file or standard input (``-``), unpacked where it is gzip."""
    raw = _read_bytes(path)
    try:
        if raw[:2] == b"\x1f\x8b":
            most = min(MAX_BYTES, max(2**26, 100 * len(raw)))
            raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(most + 1)
            if len(raw) > most:
                problem = f"{path} unpacks to more than {most:,} bytes."
                raise ConversionError(problem, fix="split it.")
        return raw.decode("utf-8-sig")
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        problem = f"{path} is not UTF-8 text or gzip: {error}."
        raise ConversionError(problem, fix="save it as UTF-8, or pack it again.") from error


def _read_bytes(path: str) -> bytes:
    if path == "-":
        return _read_once(sys.stdin.buffer)
    if "://" in path:
        with _name_store_errors(path), import_extra("fsspec", "scale").open(path, "rb") as file:
            return bytes(file.read())
    return Path(path).read_bytes()


@lru_cache(maxsize=1)
def _read_once(stream: Any) -> bytes:
    """Return what a stream holds, also when it is asked for again."""
    return bytes(stream.read())


def write_text(text: str, path: Path | None) -> None:
    """Write to a file, gzipped when its name says so, or to standard output."""
    if path is None:
        sys.stdout.write(text)
    elif path.suffix == ".gz":
        write_private(path, gzip.compress(text.encode("utf-8", "backslashreplace"), mtime=0))
    else:
        write_private(path, text)


def _messages_key(item: Any) -> str | None:
    """Return the key under which an object keeps its messages."""
    given = item if isinstance(item, Mapping) else {}
    return next((key for key in _MESSAGE_KEYS if isinstance(given.get(key), list)), None)


def _is_message(item: Any) -> bool:
    if not isinstance(item, Mapping) or _messages_key(item):
        return False
    return bool({"role", "content", "parts"} & item.keys()) or item.get("type") in RESPONSE_ITEMS


def _read_object(item: Any, name: str) -> LabConversation:
    """Return the conversation in an object; a system prompt beside it becomes its first message."""
    if isinstance(item, (list, tuple)):
        return LabConversation(name, list(item))
    key = _messages_key(item)
    if key is None:
        fix = 'each must be a list of messages, or an object with a "messages" list.'
        raise ConversionError(f"{name} is {a_type(item)} without messages.", fix=fix)
    messages, times = list(item[key]), item.get("times")
    system = item.get("system") or item.get("instructions")
    roles = [each.get("role") for each in messages if isinstance(each, Mapping)]
    if isinstance(system, (str, list)) and not {"system", "developer"} & set(roles):
        messages, times = [{"role": "system", "content": system}, *messages], None
    return LabConversation(str(item.get("id", name)), messages, item.get("tools"), times)


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
