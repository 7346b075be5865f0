"""Read conversations from files, folders and patterns."""

from __future__ import annotations

import glob
import gzip
import io
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from history_curator.entries import write_private
from history_curator.errors import ConversionError, a_type
from history_curator.formats import RESPONSE_ITEMS, parse_json
from history_curator.lab.conversations import LabConversation
from history_curator.lab.logs import Reader, read_log

MAX_BYTES = 2**31
"""A gzipped file may unpack to so many bytes, and to a hundred times its size or 64 MiB."""
_ENDINGS = (".json", ".jsonl", ".ndjson")
_MESSAGE_KEYS = ("messages", "input", "contents")


def as_conversations(source: Any) -> list[LabConversation]:
    """Return conversations from a path, one list of messages, or several lists or mappings."""
    if isinstance(source, (str, Path)):
        return load_conversations(source)
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
        if path.is_dir():
            names = (str(each) for each in path.rglob("*") if each.is_file())
            inside = sorted(n for n in names if n.lower().removesuffix(".gz").endswith(_ENDINGS))
        elif glob.has_magic(source) and not path.exists():
            inside = sorted(glob.glob(source, recursive=True))
        if not inside:
            fix = f"name files that end on {', '.join(_ENDINGS)}, gzipped or not."
            raise ConversionError(f"{source} holds no file to read.", fix=fix)
        found += inside
    return list(dict.fromkeys(found))


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
    raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
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
