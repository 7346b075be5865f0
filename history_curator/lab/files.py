"""Conversations in files: JSON, JSON lines, gzip, standard input; written back in the same layout."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from history_curator.entries import write_private
from history_curator.errors import ConversionError, HistoryCuratorError, a_type
from history_curator.formats import RESPONSE_ITEMS, format_of, parse_json

MAX_BYTES = 2**31
"""A file may unpack to so many bytes."""
_NESTED = ("messages", "conversation", "conversation_history", "history", "chat_history")
_REQUESTS = ("contents", "input")
"""Keys under which requests to Gemini and Responses keep their messages."""
_BESIDE = {
    "messages": ("system",),
    "contents": ("systemInstruction", "system_instruction"),
    "input": ("instructions",),
}
"""Keys of the system message, by the key of the messages that it stands beside."""
_STORES = (("store",), ("chat_store", "store"))
"""Where a chat store of LlamaIndex, or a memory that holds one, keeps its conversations."""
_PLAIN = {"dicts", "responses", "gemini", "bedrock"}
_LANGCHAIN_TYPES = {"human", "ai", "system", "tool", "function", "chat", "remove"}


def import_extra(
    module: str,
    extra: str = "lab",
    *,
    package: str | None = None,
    error_class: type[Exception] = ImportError,
) -> Any:
    """Return an optional module, or raise with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        name = package or module.partition(".")[0]
        install = package or f'"history-curator[{extra}]"'
        raise error_class(f"{name} is not installed. Fix: pip install {install}") from error


@dataclass(frozen=True)
class StoredConversation:
    """One conversation of a file.

    Attributes:
        id: its own id, or its place in the file.
        messages: dicts, or messages of the framework that dumped them.
        tools: tool schemas stored beside the messages.
        holder: the object that holds the messages and everything beside them.
        path: keys from the holder to the messages; empty for a bare list.
        kind: the form of a message on disk: ``dicts``, ``responses``, ``gemini``, ``bedrock``,
            ``langchain`` (``dumpd``), ``langchain-dict`` (``messages_to_dict``),
            ``langchain-flat`` or ``llamaindex`` (``model_dump``).
        row: number of the object in the file; a chat store has one conversation for each key.
        system_key: key of the holder whose content became the first message.
    """

    id: str
    messages: list[Any]
    tools: Sequence[Any] | None = None
    holder: Mapping[str, Any] | None = None
    path: tuple[str, ...] = ()
    kind: str = "dicts"
    row: int = 0
    system_key: str | None = None

    def with_messages(self, messages: Sequence[Any], holder: Any = None) -> Any:
        """Return the stored object with other messages in it, in the same form.

        ``holder`` replaces the stored object when another conversation of it has changed.
        """
        holder = self.holder if holder is None else holder
        if self.system_key and messages and _is_system(self.kind, messages[0]):
            content = _system_content(messages[0], holder[self.system_key])
            holder, messages = {**holder, self.system_key: content}, messages[1:]
        rows = [_dump_message(self.kind, message) for message in messages]
        return rows if holder is None else _replace_at(holder, self.path, rows)


@dataclass(frozen=True)
class ConversationFile:
    """The conversations of one file.

    Attributes:
        path: its path; ``-`` is standard input.
        conversations: the conversations in order.
        layout: ``json`` (one conversation), ``list`` (a JSON list of them), ``jsonl`` (one in
            each line) or ``message lines`` (one message in each line).
    """

    path: str
    conversations: list[StoredConversation]
    layout: str

    def dumps(self, conversations: Sequence[Sequence[Any]]) -> str:
        """Return the file's text with the messages of each conversation replaced."""
        rows: dict[int, Any] = {}
        for each, messages in zip(self.conversations, conversations, strict=True):
            rows[each.row] = each.with_messages(messages, rows.get(each.row))
        stored = list(rows.values())
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
        raise ConversionError(
            f"{path}: {error}.", fix="pass messages, not their wrapping."
        ) from error
    named_lines = path.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson"))
    if not is_lines and named_lines and "\n" not in text.strip() and not _holds_conversations(root):
        root, is_lines = [root], True
    return _arrange(path, root, is_lines)


def read_text(path: str) -> str:
    """Return the text of a file, a URL or standard input (``-``), unpacked where it is gzip.

    Raises:
        ConversionError: when it is not UTF-8, not whole, or unpacks to more than 2 GiB.
    """
    if path == "-":
        raw = sys.stdin.buffer.read()
    elif "://" in path:
        with import_extra("fsspec", "scale").open(path, "rb") as remote:
            raw = bytes(remote.read())
    else:
        raw = Path(path).read_bytes()
    try:
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(MAX_BYTES + 1)
            if len(raw) > MAX_BYTES:
                raise ConversionError(f"{path} unpacks to more than {MAX_BYTES:,} bytes.")
        return raw.decode("utf-8-sig")
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        raise ConversionError(f"{path} is not UTF-8 text or gzip: {error}.") from error


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


@contextmanager
def naming(name: str) -> Iterator[None]:
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
    rows = []
    for number, line in enumerate(text.split("\n"), 1):  # JSON text may hold other line ends
        if not line.strip():
            continue
        try:
            rows.append(parse_json(line))
        except ValueError as error:
            raise ConversionError(
                f"{path}, line {number}: not JSON ({error}).",
                fix="the file must be one JSON document, or one JSON object per line.",
            ) from error
    return rows


def _arrange(path: str, root: Any, is_lines: bool) -> ConversationFile:
    if isinstance(root, Mapping):
        if "role" not in root and "lc" not in root:
            return ConversationFile(path, _read_holder(root, path), "json")
        root, is_lines = [root], True
    if not isinstance(root, list):
        raise ConversionError(f"{path} holds {a_type(root)}, not a conversation.")
    if not root or (_is_single(root[0]) and any(map(_is_message, root))):
        layout = "message lines" if is_lines else "json"
        return ConversationFile(path, _read_holder(root, path), layout)
    stored = [
        replace(each, row=number)
        for number, row in enumerate(root)
        for each in _read_holder(row, f"{path}#{number}")
    ]
    return ConversationFile(path, stored, "jsonl" if is_lines else "list")


def _is_message(item: Any) -> bool:
    if not _is_single(item):
        return False
    if any(key in item for key in ("role", "lc", "content", "parts")):
        return True
    return {"type", "data"} <= set(item) or item.get("type") in RESPONSE_ITEMS


def _is_single(item: Any) -> bool:
    """Return whether an object holds no conversation of its own."""
    return isinstance(item, Mapping) and not _find_messages(item)


def _holds_conversations(root: Any) -> bool:
    return isinstance(root, list) and bool(root) and not any(map(_is_message, root))


def _find_messages(holder: Any) -> list[tuple[str, ...]]:
    """Return the paths to an object's lists of messages: one, or one for each key of a store."""
    if not isinstance(holder, Mapping):
        return []
    is_request = "type" not in holder and "role" not in holder
    for key in (*_NESTED, *(_REQUESTS if is_request else ())):
        if isinstance(holder.get(key), list):
            return [(key,)]
    for path in _STORES:
        store = _value_at(holder, path)
        lists = store.values() if isinstance(store, Mapping) else ()
        if lists and all(isinstance(rows, list) for rows in lists):
            return [(*path, key) for key in store]
    return []


def _value_at(holder: Any, path: Sequence[str]) -> Any:
    for key in path:
        holder = holder.get(key) if isinstance(holder, Mapping) else None
    return holder


def _replace_at(holder: Mapping[str, Any], path: Sequence[str], rows: list[Any]) -> dict[str, Any]:
    """Return a copy of an object with other rows at a path."""
    key, *rest = path
    return {**holder, key: _replace_at(holder[key], rest, rows) if rest else rows}


def _read_holder(item: Any, name: str) -> list[StoredConversation]:
    paths: list[tuple[str, ...]] = [()] if isinstance(item, list) else _find_messages(item)
    if not paths:
        raise ConversionError(
            f"{name} is no conversation.",
            fix='each must be a list of messages, or an object with a "messages" list. Logs of '
            "Claude Code, LangSmith runs and OpenTelemetry spans are read by `history-curator "
            "doctor`.",
        )
    if len(paths[0]) == 1:
        name = str(item.get("id", name))
    several = len(paths) > 1
    return [_read_at(item, path, f"{name}#{path[-1]}" if several else name) for path in paths]


def _read_at(holder: Any, path: tuple[str, ...], name: str) -> StoredConversation:
    """Return the conversation at a path; a system message beside it becomes its first message."""
    rows = _value_at(holder, path)
    kind = _kind_of(rows)
    with naming(name):
        messages = [_load_message(kind, row, index) for index, row in enumerate(rows)]
    if len(path) != 1:  # a list of messages, or one of a store
        return StoredConversation(name, messages, None, holder if path else None, path, kind)
    beside = (key for key in _BESIDE.get(path[0], ()) if _can_lift(kind, holder.get(key)))
    system_key = next(beside, None)
    if any(_is_system(kind, message) for message in messages):
        system_key = None
    if system_key is not None:
        messages.insert(0, _system_message(kind, holder[system_key]))
    return StoredConversation(
        name, messages, holder.get("tools"), holder, path, kind, system_key=system_key
    )


def _can_lift(kind: str, content: Any) -> bool:
    if kind == "gemini" and isinstance(content, Mapping):
        return isinstance(content.get("parts"), list)
    kinds = {"gemini": str, "bedrock": list}.get(kind, (str, list))
    return bool(content) and isinstance(content, kinds)


def _kind_of(rows: Sequence[Any]) -> str:
    """Return the form of parsed messages, from the first message that shows it."""
    for row in rows:
        if not isinstance(row, Mapping):
            continue
        if "lc" in row and "kwargs" in row:
            return "langchain"
        if row.get("type") in _LANGCHAIN_TYPES and "role" not in row:
            return "langchain-dict" if "data" in row else "langchain-flat"
        if "role" in row and isinstance(row.get("blocks"), list):
            return "llamaindex"
    return format_of(rows)


def _load_message(kind: str, row: Any, index: int) -> Any:
    if kind in _PLAIN:
        return row
    try:
        if kind == "llamaindex":
            return _import_framework("llama_index.core.llms", "llama-index-core").ChatMessage(**row)
        if kind == "langchain":
            fields = row["kwargs"]
            name = str(row["id"][-1]).removesuffix("Message").removesuffix("MessageChunk").lower()
            row = {"type": fields.get("type") or name, "data": fields}
        elif kind == "langchain-flat":
            row = {"type": row["type"], "data": {**row, "type": row["type"]}}
        core = _import_framework("langchain_core.messages", "langchain-core")
        return core.messages_from_dict([row])[0]
    except (KeyError, TypeError, ValueError) as error:
        raise ConversionError(
            f"not a {kind} message: {error}.", index=index,
            fix="write it with the framework's own dump function.",
        ) from error  # fmt: skip


def _dump_message(kind: str, message: Any) -> Any:
    if kind in _PLAIN:
        return message
    if kind == "langchain":
        return _import_framework("langchain_core.load", "langchain-core").dumpd(message)
    if kind == "langchain-dict":
        core = _import_framework("langchain_core.messages", "langchain-core")
        return core.messages_to_dict([message])[0]
    return message.model_dump(mode="json")


def _is_system(kind: str, message: Any) -> bool:
    if kind in _PLAIN:
        return isinstance(message, Mapping) and message.get("role") in ("system", "developer")
    role = message.role if kind == "llamaindex" else message.type
    return str(getattr(role, "value", role)) in ("system", "developer")


def _system_message(kind: str, content: Any) -> Any:
    if kind == "llamaindex":
        core = _import_framework("llama_index.core.llms", "llama-index-core")
        return core.ChatMessage(role="system", content=content)
    if kind.startswith("langchain"):
        core = _import_framework("langchain_core.messages", "langchain-core")
        return core.SystemMessage(content=content)
    if kind == "gemini":  # the parts of a content, or a text
        parts = content["parts"] if isinstance(content, Mapping) else [{"text": content}]
        return {"role": "system", "parts": parts}
    return {"role": "system", "content": content}


def _system_content(message: Any, given: Any) -> Any:
    """Return the content that goes back beside the messages, in the form it was given in."""
    if not isinstance(message, Mapping):
        return message.content
    if "parts" not in message:
        return message["content"]
    return (
        {**given, "parts": message["parts"]}
        if isinstance(given, Mapping)
        else message["parts"][0]["text"]
    )


def _import_framework(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConversionError(
            f"these messages were dumped by {package}, which is not installed.",
            fix=f"pip install {package}",
        ) from error
