"""Conversations in files: JSON, JSON lines, gzip, standard input; written back as they came."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from history_curator.cli._shapes import Shape, shape_of
from history_curator.errors import ConversionError

__all__ = [
    "ConversationFile",
    "StoredConversation",
    "read_conversations",
    "read_file",
    "write_text",
]

_NESTED = ("messages", "conversation", "conversation_history", "history", "chat_history")


@dataclass(frozen=True)
class StoredConversation:
    """One conversation of a file.

    Attributes:
        id: its own id, or its place in the file.
        messages: dicts, or messages of the framework it was dumped by.
        tools: tool schemas stored beside the messages.
        holder: the object it was found in, with everything else that is in there.
        key: where in the holder the messages are, or None for a bare list.
    """

    id: str
    messages: list[Any]
    tools: Sequence[Any] | None = None
    holder: Mapping[str, Any] | None = None
    key: str | None = None
    shape: Shape = field(default_factory=Shape)

    def with_messages(self, messages: Sequence[Any]) -> Any:
        """Return the stored object with other messages in it, in the same dialect."""
        written = self.shape.dump(messages)
        if self.holder is None or self.key is None:
            return written
        changed = dict(self.holder)
        if "system" in changed and written and written[0].get("role") == "system":
            changed["system"] = written[0]["content"]
            written = written[1:]
        changed[self.key] = written
        return changed


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
        stored = [
            each.with_messages(messages)
            for each, messages in zip(self.conversations, conversations, strict=True)
        ]
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
    raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
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
    return _arrange(path, root, lines)


def write_text(text: str, path: Path | None) -> None:
    """Write to a file, gzipped when its name says so, or to standard output."""
    if path is None:
        sys.stdout.write(text)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        path.write_text(text, encoding="utf-8")


def _parse_lines(path: str, text: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
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
            return ConversationFile(path, [_stored(root, path, path)], "jsonl" if lines else "json")
    if not isinstance(root, list):
        raise ConversionError(f"{path} holds a {type(root).__name__}, not a conversation.")
    if not root or _looks_like_message(root[0]):
        one = _stored(root, path, path)
        return ConversationFile(path, [one], "message lines" if lines else "json")
    stored = [_stored(row, f"{path}#{number}", path) for number, row in enumerate(root)]
    return ConversationFile(path, stored, "jsonl" if lines else "list")


def _looks_like_message(item: Any) -> bool:
    return isinstance(item, Mapping) and _find_key(item) is None and (
        "role" in item or "lc" in item or ("type" in item and ("data" in item or "content" in item))
    )  # fmt: skip


def _find_key(holder: Mapping[str, Any]) -> str | None:
    return next((key for key in _NESTED if isinstance(holder.get(key), list)), None)


def _stored(item: Any, name: str, path: str) -> StoredConversation:
    if isinstance(item, list):
        shape = shape_of(item)
        return StoredConversation(name, shape.load(item), shape=shape)
    if isinstance(item, Mapping):
        key = _find_key(item)
        store = item.get("store")
        if key is None and isinstance(store, Mapping) and len(store) == 1:
            inner = next(iter(store))
            stored = _stored({"messages": store[inner]}, name, path)
            return StoredConversation(name, stored.messages, holder=item, key="store",
                                      shape=stored.shape.inside(inner))  # fmt: skip
        if key is not None:
            rows = list(item[key])
            system = item.get("system")
            if system and key == "messages":
                rows.insert(0, {"role": "system", "content": system})
            shape = shape_of(rows)
            return StoredConversation(
                str(item.get("id", name)), shape.load(rows), item.get("tools"), item, key, shape
            )
    raise ConversionError(
        f"{path}: {name} is no conversation.",
        fix='each must be a list of messages, or an object with a "messages" list.',
    )


def _lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
