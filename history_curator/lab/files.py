"""Read conversations from files, folders and patterns, and write them back in the same layout."""

from __future__ import annotations

import glob
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
_MESSAGE_KEYS = ("messages", "input", "contents", "conversation", "conversation_history",
                 "history", "chat_history")  # fmt: skip
_OS_FIXES = {FileNotFoundError: "check the path.", IsADirectoryError: "name a file in it."}


@dataclass(frozen=True, slots=True)
class ConversationFile:
    """The conversations of one file, and the lists or objects that held their messages.

    The layout is ``one`` conversation, a ``list`` or ``lines`` of them, or ``messages`` in lines.
    """

    conversations: list[LabConversation]
    holders: list[Any]
    layout: str

    def dumps(self, conversations: Sequence[Sequence[Any]]) -> str:
        """Return the file's text with the messages of each conversation replaced."""
        stored = list(map(_put_messages, self.holders, conversations))
        if self.layout in ("one", "list"):
            root = stored[0] if self.layout == "one" else stored
            return json.dumps(root, ensure_ascii=False, indent=2) + "\n"
        rows = stored if self.layout == "lines" else stored[0]
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def as_conversations(source: Any) -> list[LabConversation]:
    """Return conversations from a path, one list of messages, or several lists or mappings."""
    if isinstance(source, (str, Path)):
        return load_conversations(source)
    items = [source] if isinstance(source, (LabConversation, Mapping)) else list(source)
    first = items[0] if items else None
    if (isinstance(first, Mapping) and "role" in first) or hasattr(first, "content"):
        items = [items]
    return [
        item if isinstance(item, LabConversation) else _read_holder(item, f"conversation {number}")
        for number, item in enumerate(items)
    ]


def load_conversations(
    *sources: str | Path, problems: list[str] | None = None
) -> list[LabConversation]:
    """Return the conversations of files, folders and patterns (``*``, ``**``, ``?``, ``[…]``).

    Args:
        sources: files of conversations or logs; of a folder all its JSON and JSON lines.
        problems: where to list files and conversations that cannot be read, instead of raising.

    Raises:
        ConversionError: naming the source with nothing in it, or the file that cannot be read.
    """
    found: list[LabConversation] = []
    for path in find_files(sources):
        with collect_errors(problems, path):
            for each in read_file(path, problems).conversations:
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
    has_fix = "Fix:" in error.strerror
    fix = "" if has_fix else f" Fix: {_OS_FIXES.get(type(error), 'try another path.')}"
    return f"{name}{error.strerror}.{fix}"


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


def read_source(source: str) -> ConversationFile:
    """Read a file as `read_file` does; the files of a folder or pattern are read as one."""
    found = list(map(read_file, find_files([source])))
    together = [each for one in found for each in one.conversations]
    return found[0] if len(found) == 1 else _as_lines(together)


def read_file(
    path: str, problems: list[str] | None = None, default: Reader | None = None
) -> ConversationFile:
    """Read a file of conversations or a log, or what ``default`` reads; ``-`` is standard input.

    A broken line is an error, or passed over where there is a list of ``problems`` to put it on.
    """
    rows, layout = _read_rows(path, problems)
    logged = read_log(rows, path, default)
    if logged is not None:
        return _as_lines(logged)
    if not rows or any(map(_is_message, rows)):
        layout = "messages" if layout == "lines" else "one"
        return ConversationFile([LabConversation(path, rows)], [rows], layout)
    found = []
    for number, row in enumerate(rows):
        with collect_errors(problems, path):
            found.append(_read_holder(row, path if layout == "one" else f"{path}#{number}"))
    return ConversationFile(found, rows, layout)


def _as_lines(found: list[LabConversation]) -> ConversationFile:
    holders: list[Any] = [{"id": each.id, "messages": each.messages} for each in found]
    return ConversationFile(found, holders, "lines")


def _read_rows(path: str, problems: list[str] | None) -> tuple[list[Any], str]:
    """Return the JSON values of a file, and whether they are ``one``, a ``list`` or ``lines``."""
    text = read_text(path).strip()
    if not text:
        raise ConversionError(f"{path} is empty.", fix="pass a file with a conversation in it.")
    root, problem = _parse(text)
    is_lines = path.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson"))
    if not problem and not (is_lines and "\n" not in text):
        return (root, "list") if isinstance(root, list) else ([root], "one")
    values = [(n, *_parse(line)) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    rows = [value for _, value, reason in values if not reason]
    broken = [f"line {number}: {reason}" for number, _, reason in values if reason]
    if broken and (problems is None or not rows):
        fix = "the file must be one JSON document, or one JSON object per line."
        raise ConversionError(f"{path}, {broken[0] if rows else problem}.", fix=fix)
    if broken and problems is not None:
        more = f" and {len(broken) - 1:,} more lines" if len(broken) > 1 else ""
        problems.append(f"{path}, {broken[0]}{more}; the rest of it was read.")
    return rows, "lines"


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
    keys = (key for key in _MESSAGE_KEYS if isinstance(item, Mapping))
    return next((key for key in keys if isinstance(item.get(key), list)), None)


def _is_message(item: Any) -> bool:
    is_object = isinstance(item, Mapping) and not _messages_key(item)
    return is_object and (
        bool({"role", "content", "parts"} & item.keys()) or item.get("type") in RESPONSE_ITEMS
    )


def _read_holder(item: Any, name: str) -> LabConversation:
    """Return the conversation in an object; a system prompt beside it becomes its first message."""
    if isinstance(item, (list, tuple)):
        return LabConversation(name, list(item))
    key = _messages_key(item)
    if key is None:
        fix = 'each must be a list of messages, or an object with a "messages" list.'
        raise ConversionError(f"{name} is {a_type(item)} without messages.", fix=fix)
    system = _system_key(item, key)
    first = [{"role": "system", "content": item[system]}] if system else []
    times, messages = None if first else item.get("times"), [*first, *item[key]]
    return LabConversation(str(item.get("id", name)), messages, item.get("tools"), times)


def _system_key(item: Mapping[str, Any], key: str) -> str | None:
    """Return the key of a system prompt beside messages that have none of their own."""
    if any(map(_is_system, item[key])):
        return None
    beside = (name for name in ("system", "instructions") if item.get(name))
    return next((name for name in beside if isinstance(item[name], (str, list))), None)


def _is_system(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")


def _put_messages(holder: Any, messages: Sequence[Any]) -> Any:
    """Return the stored object with other messages in it."""
    key = _messages_key(holder)
    if key is None:
        return list(messages)
    system = _system_key(holder, key)
    if system and messages and _is_system(messages[0]):
        holder, messages = {**holder, system: messages[0]["content"]}, messages[1:]
    return {**holder, key: list(messages)}
