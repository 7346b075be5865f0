"""Conversations in files: JSON, JSON lines, gzip, standard input; written back as they came."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from history_curator.cli._shapes import Shape, is_response_item, shape_of
from history_curator.errors import ConversionError, HistoryCuratorError, a_type
from history_curator.entries import write_private

_NESTED = ("messages", "conversation", "conversation_history", "history", "chat_history")
_REQUESTS = ("contents", "input")
"""Where Gemini and Responses requests keep their messages."""
_BESIDE = {
    "messages": ("system",),
    "contents": ("systemInstruction", "system_instruction"),
    "input": ("instructions",),
}
"""Where the system message stands that is not among them."""
_STORES = (("store",), ("chat_store", "store"))
"""Where a chat store of LlamaIndex keeps its conversations, and a memory the store it holds."""


@dataclass(frozen=True)
class StoredConversation:
    """One conversation of a file.

    Attributes:
        id: its own id, or its place in the file.
        messages: dicts, or messages of the framework it was dumped by.
        tools: tool schemas stored beside the messages.
        holder: the object it was found in, with everything else that is in there.
        path: where in the holder the messages are; empty for a bare list.
        row: which object of the file it is in; a chat store has one conversation per key.
        lifted: the key of the holder that was made the first message: its system message.
    """

    id: str
    messages: list[Any]
    tools: Sequence[Any] | None = None
    holder: Mapping[str, Any] | None = None
    path: tuple[str, ...] = ()
    shape: Shape = field(default_factory=Shape)
    row: int = 0
    lifted: str | None = None

    def with_messages(self, messages: Sequence[Any], holder: Any = None) -> Any:
        """Return the stored object with other messages in it, in the same format.

        ``holder`` stands in for the stored object when another conversation of it has changed.
        """
        holder = self.holder if holder is None else holder
        if holder is None:
            return self.shape.dump(messages)
        if self.lifted and messages and self.shape.is_system(messages[0]):
            said = self.shape.said_by_system(messages[0], holder[self.lifted])
            holder, messages = {**holder, self.lifted: said}, messages[1:]
        return _put(holder, self.path, self.shape.dump(messages))


@dataclass(frozen=True)
class ConversationFile:
    """The conversations of one file and how it was laid out.

    Attributes:
        path: where it was read; ``-`` is standard input.
        conversations: what it holds.
        layout: ``json`` (one conversation), ``list`` (a JSON list of them), ``jsonl`` (one per
            line) or ``message lines`` (one message per line).
    """

    path: str
    conversations: list[StoredConversation]
    layout: str

    def dumps(self, conversations: Sequence[Sequence[Any]]) -> str:
        """Return the file's text with each conversation's messages replaced."""
        rows: dict[int, Any] = {}
        for each, messages in zip(self.conversations, conversations, strict=True):
            rows[each.row] = each.with_messages(messages, rows.get(each.row))
        stored = list(rows.values())
        if self.layout == "jsonl":
            return _lines(stored)
        if self.layout == "message lines":
            return _lines(stored[0])
        return json.dumps(stored if self.layout == "list" else stored[0],
                          ensure_ascii=False, indent=2) + "\n"  # fmt: skip


def read_conversations(paths: Iterable[str]) -> list[StoredConversation]:
    """Return all conversations of several files."""
    return [each for path in paths for each in read_file(path).conversations]


def read_file(path: str) -> ConversationFile:
    """Read a file of conversations; ``-`` reads standard input, gzip is recognised by content.

    Raises:
        ConversionError: naming the file and line that cannot be read.
        OSError: when the file cannot be opened.
    """
    raw = _read_bytes(path)
    try:
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (UnicodeDecodeError, OSError, EOFError) as error:
        raise ConversionError(f"{path} is not UTF-8 text or gzip: {error}.") from error
    if not text.strip():
        raise ConversionError(f"{path} is empty.", fix="pass a file with a conversation in it.")
    try:
        root, lines = json.loads(text), False
    except json.JSONDecodeError:
        root, lines = _parse_lines(path, text), True
    if not lines and "\n" not in text.strip() and _is_named_lines(path) and not _is_list(root):
        root, lines = [root], True
    return _arrange(path, root, lines)


def _read_bytes(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    if "://" not in path:
        return Path(path).read_bytes()
    from history_curator.lab._extra import need

    with need("fsspec", "scale").open(path, "rb") as source:
        return bytes(source.read())


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of a conversation into the library's errors."""
    try:
        yield
    except ConversionError as error:
        raise ConversionError(
            f"in {name}: {error.problem}", index=error.index, field=error.field, fix=error.fix
        ) from error
    except HistoryCuratorError as error:
        raise HistoryCuratorError(f"{name}: {error}") from error


def write_text(text: str, path: Path | None) -> None:
    """Write to a file, gzipped when its name says so, or to standard output.

    A file is written whole or not at all, and for its owner only.
    """
    if path is None:
        sys.stdout.write(text)
    elif path.suffix == ".gz":
        write_private(path, gzip.compress(text.encode("utf-8", "backslashreplace"), mtime=0))
    else:
        write_private(path, text)


def _parse_lines(path: str, text: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ConversionError(
                f"{path}, line {number}: not JSON ({error.msg} at column {error.colno}).",
                fix="the file must be one JSON document, or one JSON object per line.",
            ) from error
    return rows


def _arrange(path: str, root: Any, lines: bool) -> ConversationFile:
    if isinstance(root, Mapping):
        if "role" in root or "lc" in root:
            root = [root]
            lines = True
        else:
            return ConversationFile(path, _stored(root, path), "json")
    if not isinstance(root, list):
        raise ConversionError(f"{path} holds {a_type(root)}, not a conversation.")
    if not root or (_is_plain(root[0]) and any(map(_looks_like_message, root))):
        one = _stored(root, path)
        return ConversationFile(path, one, "message lines" if lines else "json")
    stored = [
        replace(each, row=number)
        for number, row in enumerate(root)
        for each in _stored(row, f"{path}#{number}")
    ]
    return ConversationFile(path, stored, "jsonl" if lines else "list")


def _looks_like_message(item: Any) -> bool:
    if not _is_plain(item):
        return False
    if any(key in item for key in ("role", "lc", "content", "parts")):
        return True
    return {"type", "data"} <= set(item) or is_response_item(item)


def _is_plain(item: Any) -> bool:
    """Return whether an object holds no conversation of its own."""
    return isinstance(item, Mapping) and not _places(item)


def _is_list(root: Any) -> bool:
    """Return whether a document is a list of conversations."""
    return isinstance(root, list) and bool(root) and not any(map(_looks_like_message, root))


def _is_named_lines(path: str) -> bool:
    return path.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson"))


def _places(holder: Any) -> list[tuple[str, ...]]:
    """Return where an object keeps messages: under one key, or one list for each key of a store."""
    if not isinstance(holder, Mapping):
        return []
    is_request = "type" not in holder and "role" not in holder
    for key in (*_NESTED, *(_REQUESTS if is_request else ())):
        if isinstance(holder.get(key), list):
            return [(key,)]
    for path in _STORES:
        store = _at(holder, path)
        if (
            isinstance(store, Mapping)
            and store
            and all(isinstance(r, list) for r in store.values())
        ):
            return [(*path, key) for key in store]
    return []


def _at(holder: Any, path: Sequence[str]) -> Any:
    for key in path:
        holder = holder.get(key) if isinstance(holder, Mapping) else None
    return holder


def _put(holder: Mapping[str, Any], path: Sequence[str], rows: list[Any]) -> dict[str, Any]:
    """Return a copy of an object with other rows at a path."""
    key, *rest = path
    return {**holder, key: _put(holder[key], rest, rows) if rest else rows}


def _stored(item: Any, name: str) -> list[StoredConversation]:
    places = [()] if isinstance(item, list) else _places(item)
    if not places:
        raise ConversionError(
            f"{name} is no conversation.",
            fix='each must be a list of messages, or an object with a "messages" list. Logs of '
            "Claude Code, LangSmith runs and OpenTelemetry spans are read by `history-curator "
            "doctor`.",
        )
    if len(places[0]) == 1:
        name = str(item.get("id", name))
    many = len(places) > 1
    return [_held(item, path, f"{name}#{path[-1]}" if many else name) for path in places]


def _held(holder: Any, path: tuple[str, ...], name: str) -> StoredConversation:
    """Return the conversation at a place; a system message beside it becomes the first."""
    rows = _at(holder, path)
    shape = shape_of(rows)
    with naming(name):
        messages = shape.load(rows)
    if len(path) != 1:  # a list of messages, or one of a store
        return StoredConversation(name, messages, None, holder if path else None, path, shape)
    beside = _BESIDE.get(path[0], ())
    lifted = next((each for each in beside if shape.can_lift(holder.get(each))), None)
    if lifted is not None and any(map(shape.is_system, messages)):
        lifted = None
    if lifted is not None:
        messages.insert(0, shape.system(holder[lifted]))
    return StoredConversation(
        name, messages, holder.get("tools"), holder, path, shape, lifted=lifted
    )


def _lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
