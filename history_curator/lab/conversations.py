"""Recorded conversations: from memory, files, folders, patterns and object stores."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError, a_type
from history_curator.formats import parse_json, read_entries
from history_curator.lab.files import import_extra, naming, read_file
from history_curator.tokens import entry_time, parse_time

_SUFFIXES = (".json", ".jsonl", ".ndjson")


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
        messages: the messages in order.
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
        with naming(self.id):
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
        elif isinstance(value, str):
            values.append(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            values.append(str(value))
    return values


def as_conversations(source: Any) -> list[LabConversation]:
    """Return conversations from lists of messages, mappings with ``messages``, or paths.

    One plain list of messages is one conversation. A mapping may also hold ``id``, ``tools`` and
    ``times``. A path is read by `load_conversations`.

    Raises:
        ConversionError: naming the conversation that cannot be read.
    """
    if isinstance(source, (str, Path)):
        return load_conversations(source)
    items = [source] if isinstance(source, (LabConversation, Mapping)) else list(source)
    if items and _is_message(items[0]):
        items = [items]
    return [_as_conversation(item, number) for number, item in enumerate(items)]


def _is_message(item: Any) -> bool:
    if isinstance(item, Mapping):
        return "role" in item
    return not isinstance(item, (LabConversation, str, Iterable)) or hasattr(item, "content")


def _as_conversation(item: Any, number: int) -> LabConversation:
    name = f"conversation {number}"
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
    """Return the conversations of files, folders, patterns and URLs.

    A folder is searched with everything below it for JSON, JSON lines and their gzipped forms. A
    pattern may hold ``*``, ``**``, ``?`` and ``[…]``. A URL such as ``s3://bucket/logs`` goes
    through fsspec and may be a file, a folder or a pattern, too.

    Raises:
        ConversionError: naming the source with nothing in it, or the file that cannot be read.
        ImportError: with the command that installs fsspec, for a URL without it.
    """
    return [
        LabConversation(each.id, each.messages, each.tools)
        for source in sources
        for path in _find_files(str(source))
        for each in read_file(path).conversations
    ]


def _find_files(source: str) -> list[str]:
    """Return the files a source stands for, in order of their names."""
    path, any_suffix = Path(source), False
    if "://" in source:
        files, remote = import_extra("fsspec.core", "scale").url_to_fs(source)
        if glob.has_magic(remote):
            found = files.glob(remote)
        else:
            found = files.find(remote) if files.isdir(remote) else [remote]
        found = map(files.unstrip_protocol, found)
    elif path.is_dir():
        found = (str(each) for each in path.rglob("*") if each.is_file())
    elif glob.has_magic(source) and not path.exists():
        found, any_suffix = glob.glob(source, recursive=True), True
    else:
        return [source]
    chosen = sorted(
        each for each in found if any_suffix or each.lower().removesuffix(".gz").endswith(_SUFFIXES)
    )
    if not chosen:
        raise ConversionError(
            f"{source} holds no conversations.",
            fix=f"name files that end on {', '.join(_SUFFIXES)}, gzipped or not.",
        )
    return chosen
