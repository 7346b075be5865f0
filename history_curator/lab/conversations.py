"""Conversations to replay: from memory, from files (written back in the same layout), a sample."""

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
from functools import cached_property
from importlib import import_module
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from history_curator.entries import ConversationEntry, MessageRole, write_private
from history_curator.errors import ConversionError, HistoryCuratorError, a_type
from history_curator.formats import RESPONSE_ITEMS, parse_json, read_entries
from history_curator.tokens import entry_time, parse_time

MAX_BYTES = 2**31
"""A file may unpack to so many bytes."""
_ENDINGS = (".json", ".jsonl", ".ndjson")
_MESSAGE_KEYS = ("messages", "conversation", "conversation_history", "history", "chat_history")
_SYSTEM_ROLES = ("system", "developer")


def import_extra(module: str, extra: str = "lab", package: str | None = None) -> Any:
    """Return an optional module, or raise with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        install = package or f'"history-curator[{extra}]"'
        name = package or module.partition(".")[0]
        raise ImportError(f"{name} is not installed. Fix: pip install {install}") from error


@dataclass(frozen=True, slots=True)
class LabConversation:
    """One conversation to replay.

    Examples:
        >>> talk = LabConversation(
        ...     "t1", [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        ... )
        >>> talk.read().calls
        (1,)

    Attributes:
        id: its name in tables and errors.
        tools: tool schemas sent with every request.
        times: when each message was written; by default the times that the messages carry. With
            times, a request after a pause is charged for a cold cache.
        hidden: tokens of every request that the record lacks, such as a system prompt.
    """

    id: str
    messages: Sequence[Any]
    tools: Sequence[Any] | None = None
    times: Sequence[Any] | None = None
    hidden: int = 0

    def read(self) -> ReadConversation:
        """Return the conversation as entries.

        Raises:
            ConversionError: naming the conversation, the message and the field.
        """
        with name_in_errors(self.id):
            entries = read_entries(self.messages)
        own = bool(self.messages) and isinstance(self.messages[0], ConversationEntry)
        homes = tuple(range(len(entries)) if own else (entry.sequence for entry in entries))
        if self.times is None:
            times = tuple(map(entry_time, entries))
        else:
            given = [when for when, _ in zip_longest(self.times, self.messages)]
            times = tuple(parse_time(given[home]) for home in homes)
        calls = tuple(
            index
            for index, entry in enumerate(entries)
            if index and entry.role is MessageRole.ASSISTANT
        )
        return ReadConversation(
            self.id, homes, tuple(entries), calls, self.tools, times, self.hidden
        )


@dataclass(frozen=True)
class ReadConversation:
    """The entries of one conversation; see `LabConversation`.

    Attributes:
        homes: for each entry the index of the message it was read from.
        calls: indexes of the entries that the model wrote, one for each call.
        times: when each entry was written, in seconds since 1970, where known.
    """

    id: str
    homes: tuple[int, ...]
    entries: tuple[ConversationEntry, ...]
    calls: tuple[int, ...]
    tools: Sequence[Any] | None = None
    times: tuple[float | None, ...] = ()
    hidden: int = 0

    @cached_property
    def index_of(self) -> dict[int, int]:
        """The index of each entry, by the identity of the entry; equal entries differ."""
        return {id(entry): index for index, entry in enumerate(self.entries)}

    @cached_property
    def texts(self) -> list[str]:
        """For each entry its text and the values of its arguments."""
        return list(map(searchable_text, self.entries))

    def idle_seconds(self, previous_call: int, call: int) -> float | None:
        """Return the seconds between an answer and the request for a later one, where known.

        The request went out when the last entry before its answer was there.
        """
        if call > len(self.times) or previous_call >= call:
            return None
        answered, sent = self.times[previous_call], self.times[call - 1]
        return None if answered is None or sent is None else max(0.0, sent - answered)


def searchable_text(entry: ConversationEntry) -> str:
    """Return the text of an entry followed by the values of its calls' arguments."""
    pieces = [entry.content or ""]
    for call in entry.tool_calls or ():
        pieces.extend(argument_values(call.arguments))
    return "\n".join(pieces)


def argument_values(arguments: str) -> list[str]:
    """Return the scalar values inside JSON arguments as text; malformed text is one value."""
    try:
        pending = [parse_json(arguments)]
    except ValueError:
        return [arguments]
    values: list[str] = []
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            values.append(str(value))
    return values


def as_conversations(source: Any) -> list[LabConversation]:
    """Return conversations from lists of messages, mappings with ``messages``, or a path.

    One plain list of messages is one conversation. A mapping may also hold ``id``, ``tools`` and
    ``times``.

    Raises:
        ConversionError: naming the conversation that cannot be read.
    """
    if isinstance(source, (str, Path)):
        return load_conversations(source)
    items = [source] if isinstance(source, (LabConversation, Mapping)) else list(source)
    first = items[0] if items else None
    if (isinstance(first, Mapping) and "role" in first) or hasattr(first, "content"):
        items = [items]
    return [_as_conversation(item, f"conversation {number}") for number, item in enumerate(items)]


def _as_conversation(item: Any, name: str) -> LabConversation:
    if isinstance(item, LabConversation):
        return item
    if isinstance(item, Mapping) and isinstance(item.get("messages"), Sequence):
        name = str(item.get("id", name))
        return LabConversation(name, item["messages"], item.get("tools"), item.get("times"))
    if isinstance(item, Sequence) and not isinstance(item, (str, bytes)):
        return LabConversation(name, item)
    raise ConversionError(
        f"{name} is {a_type(item)}.",
        fix='pass lists of messages, or mappings with a "messages" list.',
    )


def load_conversations(*sources: str | Path) -> list[LabConversation]:
    """Return the conversations of files, folders and patterns (``*``, ``**``, ``?``, ``[…]``).

    Raises:
        ConversionError: naming the source with nothing in it, or the file that cannot be read.
    """
    return [each for path in find_files(sources) for each in read_file(path).conversations]


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


@dataclass(frozen=True, slots=True)
class ConversationFile:
    """The conversations of one file.

    Attributes:
        layout: ``json`` (one conversation), ``list`` (a JSON list of them), ``jsonl`` (one in
            each line) or ``message lines`` (one message in each line).
        holders: what held the messages of each conversation: a list, or an object.
    """

    conversations: list[LabConversation]
    layout: str
    holders: list[Any]

    def dumps(self, conversations: Sequence[Sequence[Any]]) -> str:
        """Return the file's text with the messages of each conversation replaced."""
        stored = list(map(_put_messages, self.holders, conversations))
        if self.layout in ("jsonl", "message lines"):
            lines = stored if self.layout == "jsonl" else stored[0]
            return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines)
        root = stored if self.layout == "list" else stored[0]
        return json.dumps(root, ensure_ascii=False, indent=2) + "\n"


def read_file(path: str) -> ConversationFile:
    """Read a file of conversations; ``-`` reads standard input, gzip is recognised by content.

    Raises:
        ConversionError: naming the file and line that cannot be read.
        OSError: when the file cannot be opened.
    """
    text, is_lines = read_text(path), False
    if not text.strip():
        raise ConversionError(f"{path} is empty.", fix="pass a file with a conversation in it.")
    try:
        root = parse_json(text)
    except json.JSONDecodeError:
        root, is_lines = _parse_lines(path, text), True
    except ValueError as error:
        raise ConversionError(f"{path}: {error}.", fix="pass messages only.") from error
    if not is_lines and path.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        is_several = isinstance(root, list) and root and not any(map(_is_message, root))
        if "\n" not in text.strip() and not is_several:
            root, is_lines = [root], True
    if isinstance(root, Mapping):
        if "role" not in root:
            return ConversationFile([_read_holder(root, path)], "json", [root])
        root, is_lines = [root], True
    if not isinstance(root, list):
        raise ConversionError(f"{path} holds {a_type(root)}, not a conversation.")
    if not root or any(map(_is_message, root)):
        layout = "message lines" if is_lines else "json"
        return ConversationFile([_read_holder(root, path)], layout, [root])
    found = [_read_holder(row, f"{path}#{number}") for number, row in enumerate(root)]
    return ConversationFile(found, "jsonl" if is_lines else "list", root)


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
                raise ConversionError(f"{path} unpacks to more than {MAX_BYTES:,} bytes.")
        return raw.decode("utf-8-sig")
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        raise ConversionError(f"{path} is not UTF-8 text or gzip: {error}.") from error


def write_text(text: str, path: Path | None) -> None:
    """Write to a file, gzipped when its name says so, or to standard output."""
    if path is None:
        sys.stdout.write(text)
    elif path.suffix == ".gz":
        write_private(path, gzip.compress(text.encode("utf-8", "backslashreplace"), mtime=0))
    else:
        write_private(path, text)


@contextmanager
def name_in_errors(name: str) -> Iterator[None]:
    """Put the name of a conversation into the library's errors."""
    try:
        yield
    except ConversionError as error:
        problem = f"in {name}: {error.problem}"
        raise ConversionError(
            problem, index=error.index, field=error.field, fix=error.fix
        ) from error
    except HistoryCuratorError as error:
        raise HistoryCuratorError(f"{name}: {error}") from error


def _parse_lines(path: str, text: str) -> list[Any]:
    rows, number = [], 0
    try:
        for line in text.split("\n"):  # JSON text may hold other line ends
            number += 1
            rows += [parse_json(line)] if line.strip() else []
    except ValueError as error:
        raise ConversionError(
            f"{path}, line {number}: not JSON ({error}).",
            fix="the file must be one JSON document, or one JSON object per line.",
        ) from error
    return rows


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
    """Return the conversation in an object; a system message beside it becomes its first message."""
    if isinstance(item, list):
        return LabConversation(name, item)
    key = _messages_key(item)
    if key is None:
        raise ConversionError(
            f"{name} is no conversation.",
            fix='each must be a list of messages, or an object with a "messages" list. Logs of '
            "Claude Code, LangSmith runs and OpenTelemetry spans are read by `history-curator "
            "doctor`.",
        )
    messages = list(item[key])
    if _has_system_beside(item, key):
        messages.insert(0, {"role": "system", "content": item["system"]})
    return LabConversation(str(item.get("id", name)), messages, item.get("tools"))


def _has_system_beside(item: Mapping[str, Any], key: str) -> bool:
    beside = bool(item.get("system")) and isinstance(item["system"], (str, list))
    return beside and not any(map(_is_system, item[key]))


def _is_system(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") in _SYSTEM_ROLES


def _put_messages(holder: Any, messages: Sequence[Any]) -> Any:
    """Return the stored object with other messages in it."""
    key = _messages_key(holder) if isinstance(holder, Mapping) else None
    if key is None:
        return list(messages)
    if _has_system_beside(holder, key) and messages and _is_system(messages[0]):
        holder, messages = {**holder, "system": messages[0]["content"]}, messages[1:]
    return {**holder, key: list(messages)}


def sample_conversation(seed: int = 20) -> list[dict[str, Any]]:
    """Return an agent's session as OpenAI-style messages: tools, parallel calls, long results.

    Examples:
        >>> sample_conversation()[1]["content"]
        "Checkout p95 went from 300 ms to 4 s after yesterday's release. Find out why and propose the smallest safe fix."
        >>> sample_conversation(1) == sample_conversation(1)
        True

    Args:
        seed: other numbers give other logs and metrics of the same story.
    """
    text = (files("history_curator.lab") / "sample.json").read_text(encoding="utf-8")
    messages: list[dict[str, Any]] = json.loads(text)
    random = Random(seed)
    for message in messages if seed != 20 else ():
        if message["role"] == "tool":
            message["content"] = re.sub(
                r'(duration_ms=\d|"v": \d)\d+',
                lambda found: f"{found[1]}{random.randint(100, 999)}",
                message["content"],
            )
    return messages
