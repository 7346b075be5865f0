"""Read conversations from files, folders and patterns, and write them back in the same layout."""

from __future__ import annotations

import glob
import gzip
import io
import json
import re
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
from history_curator.lab.conversations import LabConversation, as_conversation
from history_curator.lab.logs import find_log_reader

MAX_BYTES = 2**31
"""A file may unpack to so many bytes."""
_ENDINGS = (".json", ".jsonl", ".ndjson")
_MESSAGE_KEYS = (
    "messages", "input", "contents", "conversation", "conversation_history", "history",
    "chat_history",
)  # fmt: skip
_OS_FIXES = {
    FileNotFoundError: "check the path.",
    IsADirectoryError: "name a file in it.",
    PermissionError: "change its permissions, or use another path.",
}
_SPACE = re.compile(r"\s*")
_SYSTEM_KEYS = ("system", "instructions")


@dataclass(frozen=True, slots=True)
class ConversationFile:
    """The conversations of one file.

    Attributes:
        layout: ``json`` (one conversation), ``list`` (a JSON list of them), ``jsonl`` (one in
            each line), ``message lines`` (one message in each line) or ``log``.
        holders: what held the messages of each conversation: a list, or an object.
    """

    conversations: list[LabConversation]
    layout: str
    holders: list[Any]

    def dumps(self, conversations: Sequence[Sequence[Any]]) -> str:
        """Return the file's text with the messages of each conversation replaced."""
        stored = list(map(_put_messages, self.holders, conversations))
        if self.layout in ("json", "list"):
            root = stored if self.layout == "list" else stored[0]
            return json.dumps(root, ensure_ascii=False, indent=2) + "\n"
        lines = stored[0] if self.layout == "message lines" else stored
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines)


def as_conversations(source: Any) -> list[LabConversation]:
    """Return conversations from lists of messages, mappings with ``messages``, or a path.

    One plain list of messages is one conversation.
    """
    if isinstance(source, (str, Path)):
        return load_conversations(source)
    items = [source] if isinstance(source, (LabConversation, Mapping)) else list(source)
    first = items[0] if items else None
    if (isinstance(first, Mapping) and "role" in first) or hasattr(first, "content"):
        items = [items]
    return [as_conversation(item, f"conversation {number}") for number, item in enumerate(items)]


def load_conversations(
    *sources: str | Path, problems: list[str] | None = None
) -> list[LabConversation]:
    """Return the conversations of files, folders and patterns (``*``, ``**``, ``?``, ``[…]``).

    Args:
        sources: files of conversations or logs; of a folder all its JSON and JSON lines.
        problems: where to list the files and conversations that cannot be read, with the reason.
            Without it the first of them is an error.

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
        return str(error)
    name = "" if error.filename is None else f"{error.filename}: "
    fixes = (fix for kind, fix in _OS_FIXES.items() if isinstance(error, kind))
    fix = "" if "Fix:" in error.strerror else f" Fix: {next(fixes, 'try another path.')}"
    return f"{name}{error.strerror}.{fix}"


def find_files(sources: Iterable[str | Path]) -> list[str]:
    """Return the files that paths stand for; of a folder its JSON and JSON lines, gzipped or not.

    Raises:
        ConversionError: naming the folder or pattern with no such file.
    """
    found: list[str] = []
    for source in map(str, sources):
        inside, path = [source], Path(source)
        if path.is_dir():
            names = (str(each) for each in path.rglob("*") if each.is_file())
            inside = sorted(n for n in names if n.lower().removesuffix(".gz").endswith(_ENDINGS))
        elif glob.has_magic(source) and not path.exists():
            inside = sorted(glob.glob(source, recursive=True))
        if not inside:
            raise ConversionError(
                f"{source} holds no file to read.",
                fix=f"name files that end on {', '.join(_ENDINGS)}, gzipped or not.",
            )
        found += inside
    return list(dict.fromkeys(found))


def read_source(source: str) -> ConversationFile:
    """Read a file as `read_file` does; the files of a folder or pattern are read as one."""
    found = list(map(read_file, find_files([source])))
    if len(found) == 1:
        return found[0]
    conversations = [each for one in found for each in one.conversations]
    holders = [{"id": each.id, "messages": each.messages} for each in conversations]
    return ConversationFile(conversations, "log", holders)


def read_file(path: str, problems: list[str] | None = None) -> ConversationFile:
    """Read a file of conversations or a log; ``-`` reads standard input.

    Args:
        path: the file.
        problems: where to list what is passed over; without it a broken line is an error.

    Raises:
        ConversionError: naming the file and line that cannot be read.
        OSError: when the file cannot be opened.
    """
    root, is_lines = _parse_file(path, problems)
    rows = root if isinstance(root, list) else [root]
    if reader := find_log_reader(rows):
        sessions = reader(rows, set(), Path(path).name.partition(".")[0])
        holders: list[Any] = [{"id": each.id, "messages": each.messages} for each in sessions]
        return ConversationFile(sessions, "log", holders)
    if isinstance(root, Mapping):
        if "role" not in root:
            return ConversationFile([_read_holder(root, path)], "json", [root])
        root, is_lines = [root], True
    if not isinstance(root, list):
        raise ConversionError(f"{path} holds {a_type(root)}.", fix="pass a list of messages.")
    if not root or any(map(_is_message, root)):
        layout = "message lines" if is_lines else "json"
        return ConversationFile([_read_holder(root, path)], layout, [root])
    found = [_read_holder(row, f"{path}#{number}") for number, row in enumerate(root)]
    return ConversationFile(found, "jsonl" if is_lines else "list", root)


def read_rows(path: str, problems: list[str]) -> list[Any]:
    """Return the JSON values of a file; what is passed over is listed in ``problems``."""
    root, _ = _parse_file(path, problems)
    return root if isinstance(root, list) else [root]


def _parse_file(path: str, problems: list[str] | None) -> tuple[Any, bool]:
    """Return the JSON of a file, and whether it is the values of its lines."""
    text = read_text(path)
    if not text.strip():
        raise ConversionError(f"{path} is empty.", fix="pass a file with a conversation in it.")
    root, is_lines, problem = parse_values(text)
    if problem and (problems is None or root is None):
        raise ConversionError(
            f"{path}, {problem}.",
            fix="the file must be one JSON document, or one JSON object per line.",
        )
    if problem and problems is not None:
        problems.append(f"{path}, {problem}; the rest of it was read.")
    is_named_lines = path.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson"))
    if not is_lines and is_named_lines and "\n" not in text.strip():
        is_several = isinstance(root, list) and root and not any(map(_is_message, root))
        return (root, False) if is_several else ([root], True)
    return root, is_lines


def read_text(path: str) -> str:
    """Return the text of a file or standard input (``-``), unpacked where it is gzip.

    Raises:
        ConversionError: when it is not UTF-8, not whole, or unpacks to more than 2 GiB.
    """
    raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(MAX_BYTES + 1)
            if len(raw) > MAX_BYTES:
                raise ConversionError(
                    f"{path} unpacks to more than {MAX_BYTES:,} bytes.", fix="split it."
                )
        return raw.decode("utf-8-sig")
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        raise ConversionError(
            f"{path} is not UTF-8 text or gzip: {error}.", fix="save it as UTF-8."
        ) from error


def parse_values(text: str) -> tuple[Any, bool, str]:
    """Return the JSON of a text, whether it is a list of several values, and the first problem.

    A text may be one document, one value in each line, or documents that follow each other. What
    is not JSON is passed over; None when there is nothing else.
    """
    try:
        return parse_json(text), False, ""
    except ValueError as error:
        problem = f"not JSON ({error})"
    lines = ((n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip())
    values: list[Any] = []
    broken: list[str] = []
    for number, line in lines:  # JSON text may hold other line ends
        value, error = _parse_line(line)
        if not error:
            values.append(value)
        elif not values and not broken and (found := _parse_texts(text.lstrip())):
            return found
        else:
            broken.append(f"line {number}: not JSON ({error})")
    if not values:
        return None, False, problem
    more = f" and {len(broken) - 1:,} more lines" if len(broken) > 1 else ""
    return values, True, broken[0] + more if broken else ""


def _parse_line(line: str) -> tuple[Any, str]:
    try:
        return parse_json(line), ""
    except ValueError as error:
        return None, str(error)


def _parse_texts(text: str) -> tuple[list[Any], bool, str] | None:
    """Return JSON documents that follow each other, as `parse_values` does."""
    values: list[Any] = []
    start = 0
    try:
        while start < len(text):
            _, end = json.JSONDecoder().raw_decode(text, start)
            values.append(parse_json(text[start:end]))
            start = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError):
        rest = f"its last {len(text) - start:,} characters are not JSON"
        return (values, True, rest) if values else None
    return values, True, ""


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
    if not isinstance(item, Mapping):
        return None
    return next((key for key in _MESSAGE_KEYS if isinstance(item.get(key), list)), None)


def _is_message(item: Any) -> bool:
    if not isinstance(item, Mapping) or _messages_key(item):
        return False
    has_content = any(key in item for key in ("role", "content", "parts"))
    return has_content or item.get("type") in RESPONSE_ITEMS


def _read_holder(item: Any, name: str) -> LabConversation:
    """Return the conversation in an object; a system prompt beside it becomes its first message."""
    if isinstance(item, list):
        return LabConversation(name, item)
    key = _messages_key(item)
    if key is None:
        raise ConversionError(
            f"{name} is no conversation.",
            fix='each must be a list of messages, or an object with a "messages" list.',
        )
    messages = list(item[key])
    if system := _system_key(item, key):
        messages.insert(0, {"role": "system", "content": item[system]})
    return LabConversation(str(item.get("id", name)), messages, item.get("tools"))


def _system_key(item: Mapping[str, Any], key: str) -> str | None:
    """Return the key of a system prompt beside messages that have none of their own."""
    if any(map(_is_system, item[key])):
        return None
    beside = (name for name in _SYSTEM_KEYS if item.get(name))
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
