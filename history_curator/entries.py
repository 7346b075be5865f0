"""Entries, the messages of a conversation in a form that no provider owns; their data and handles."""

from __future__ import annotations

import base64
import errno
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from history_curator.errors import ConfigurationError, ConversionError

__all__ = [
    "ContentPart", "ConversationEntry", "MessageRole", "PartKind", "Reasoning", "ToolCall",
    "entry_from_dict", "entry_to_dict", "handle_of", "span_handle", "write_private",
]  # fmt: skip

PartKind = Literal["text", "image", "audio", "video", "file", "other"]


class MessageRole(str, Enum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool invocation asked for by the assistant.

    The `id` is not unique across a conversation; `arguments` is JSON text, exactly as the model
    wrote it (it may be malformed); `extra` is what a provider keeps beside a call and wants back.
    """

    id: str
    name: str
    arguments: str = "{}"
    extra: Mapping[str, Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ContentPart:
    """One block of a multi-part message; a `kind` we do not know is ``other`` and passes untouched.

    `raw` is the block as given, `width` and `height` are pixels, `tokens` an estimate for media.
    """

    kind: PartKind
    text: str | None = None
    raw: Any = None
    width: int | None = None
    height: int | None = None
    tokens: int | None = None

    @property
    def is_mark(self) -> bool:
        """Whether it only marks a place, such as a cache point, and says nothing."""
        return self.kind == "other" and self.tokens == 0


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A thinking block, bound to the messages around it; `encrypted` where its text is opaque."""

    text: str | None = None
    signature: str | None = None
    raw: Any = None
    encrypted: bool = False


FILLERS = (
    "Please continue.",
    "[Start of the conversation.]",
    "[Earlier messages are not shown.]",
)
"""User texts that complete a view where a provider insists on one; nobody asked them."""


@dataclass(frozen=True, slots=True)
class ConversationEntry:
    """One message of a conversation.

    Attributes:
        content: all text blocks joined; None where there are calls only.
        evaluation_id, sequence: the run it belongs to, and its place there.
        tool_call_id, tool_name: the call that a result answers, and the tool that produced it.
        name, role_name: the author's name, and the provider's own name for the role: ``developer``.
        parts: all content blocks in order, when the message is more than plain text.
        pinned: a pinned entry survives every manager.
        original_length: the characters of a truncated text before.
        handle: the id under which the recall tool returns the original text.
        origin: None for a recorded message; else why it was invented: ``placeholder``, ``bridge``,
            ``user``, ``summary``, ``recollection``, ``note``.
        barrier: whether the provider keeps earlier messages in here, as in a ``compaction``: they
            are not sent again, and it is never left out.
        repairs: the faulty parts of the message that were read as something else, in words for a
            person, such as an id that is a number. The message as it stands would be refused.
        metadata: data that the caller attached; never sent.
        action, reason: the change made to it, such as ``truncated``, and why, for a person.
        source: the message this entry was read from, or the library's private copy of it.
        span: (k, n) when the source message was read as n entries and this is the k-th.
        original: the entry as recorded, when this one is an edited copy.

    Examples:
        >>> entry = ConversationEntry(MessageRole.USER, "hello")
        >>> entry.evolve(content="hi").original is entry
        True
    """

    role: MessageRole
    content: str | None = None
    evaluation_id: UUID | None = None
    sequence: int = 0
    created_at: datetime | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    name: str | None = None
    parts: tuple[ContentPart, ...] | None = None
    reasoning: tuple[Reasoning, ...] | None = None
    status: Literal["success", "error"] | None = None
    pinned: bool = False
    truncated: bool = False
    original_length: int | None = None
    handle: str | None = None
    origin: str | None = None
    role_name: str | None = None
    barrier: bool = False
    repairs: str | None = field(default=None, compare=False, repr=False)
    metadata: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    action: str | None = field(default=None, compare=False, repr=False)
    reason: str | None = field(default=None, compare=False, repr=False)
    source: Any = field(default=None, compare=False, repr=False)
    span: tuple[int, int] | None = field(default=None, compare=False, repr=False)
    original: ConversationEntry | None = field(default=None, compare=False, repr=False)

    def evolve(self, **changes: Any) -> ConversationEntry:
        """Return an edited copy that remembers the recorded entry as `original`."""
        return replace(self, **{"original": self.root, **changes})

    @property
    def root(self) -> ConversationEntry:
        """The entry as recorded: itself, unless it is an edited copy."""
        return self if self.original is None else self.original

    @property
    def is_real_user(self) -> bool:
        """Whether the user wrote it and it is not blank; a text that completed a view is neither."""
        return (
            self.role is MessageRole.USER
            and self.origin is None
            and (bool(self.content and not self.content.isspace()) or self.has_media)
            and self.content not in FILLERS
        )

    @property
    def has_media(self) -> bool:
        """Whether a part is something other than text and marks."""
        return self.parts is not None and any(
            part.kind != "text" and not part.is_mark for part in self.parts
        )


BYTES = "__bytes__"
"""Marks bytes in JSON."""

_PLAIN = (
    *("content", "sequence", "tool_call_id", "tool_name", "name", "status", "pinned", "truncated"),
    *("original_length", "handle", "origin", "role_name", "barrier", "repairs", "action", "reason"),
)
_DEFAULTS = {name: ConversationEntry.__dataclass_fields__[name].default for name in _PLAIN}
_NESTED = {"tool_calls": ToolCall, "parts": ContentPart, "reasoning": Reasoning}


def entry_to_dict(entry: ConversationEntry) -> dict[str, Any]:
    """Return an entry as JSON data, without `source`, `original` and fields at their default."""
    plain = {name: getattr(entry, name) for name in _PLAIN}
    data = {name: value for name, value in plain.items() if value != _DEFAULTS[name]}
    data["role"] = entry.role.value
    if entry.evaluation_id is not None:
        data["evaluation_id"] = str(entry.evaluation_id)
    if entry.created_at is not None:
        data["created_at"] = entry.created_at.isoformat()
    for name in _NESTED:
        if getattr(entry, name) is not None:
            data[name] = [_fields_to_dict(item) for item in getattr(entry, name)]
    if entry.metadata:
        data["metadata"] = {key: value for key, value in entry.metadata.items() if key != "merged"}
    return data


def entry_from_dict(data: Mapping[str, Any]) -> ConversationEntry:
    """Return the entry that `entry_to_dict` wrote, or raise a `ConversionError`."""
    try:
        fields = {name: data[name] for name in _PLAIN if name in data}
        for name, kind in _NESTED.items():
            if data.get(name) is not None:
                fields[name] = tuple(kind(**item) for item in data[name])
        for name, read in (("evaluation_id", UUID), ("created_at", datetime.fromisoformat)):
            fields[name] = read(data[name]) if data.get(name) else None
        role, metadata = MessageRole(data["role"]), data.get("metadata") or None
        return ConversationEntry(role, metadata=metadata, **fields)
    except (KeyError, TypeError, ValueError) as error:
        problem = f"not an entry as written by entry_to_dict ({error})."
        raise ConversionError(problem, fix="pass the data unchanged.") from error


def _fields_to_dict(value: Any) -> dict[str, Any]:
    data = {name: getattr(value, name) for name in value.__slots__}
    return {name: item for name, item in data.items() if item is not None and item is not False}


def encode_value(value: Any) -> Any:
    """Return plain data with bytes made safe for JSON."""
    if isinstance(value, Mapping):
        return {str(key): encode_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode_value(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return {BYTES: base64.b64encode(value).decode("ascii")}
    return value


def decode_value(value: Any) -> Any:
    """Return plain data with the bytes that `encode_value` hid in it."""
    if isinstance(value, Mapping):
        if value.keys() == {BYTES}:
            return base64.b64decode(value[BYTES])
        return {key: decode_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    return value


RECALL_TOOL_NAME = "recall"
"""The name of the tool, and the one placeholders mention, where no other is given."""

_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def handle_of(entry: ConversationEntry) -> str:
    """Return the handle of one recorded entry, and of every copy of it that was edited."""
    root = entry.root
    text = f"{root.role.value}\0{root.content or ''}"
    if root.tool_call_id:
        text += f"\1{root.tool_call_id}"
    for call in root.tool_calls or ():
        text += f"\3{call.id}\2{call.name}\2{call.arguments}"
    return "r" + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def span_handle(entries: Sequence[ConversationEntry]) -> str:
    """Return one handle for a run of one or more recorded entries."""
    handles = [handle_of(entry) for entry in entries]
    digest = blake2b("".join(handles).encode(), digest_size=8)
    return handles[0] if len(handles) == 1 else f"{handles[0]}-{digest.hexdigest()}"


def find_handle(handle: str, handles: Sequence[str]) -> tuple[int, int] | None:
    """Return where a handle's entries start and end, given the handles of every entry in order."""
    first, _, run = handle.partition("-")
    for start in [at for at, candidate in enumerate(handles) if candidate == first]:
        digest = blake2b(digest_size=8)
        for end in range(start, len(handles)):
            digest.update(handles[end].encode())
            if handle == first or digest.hexdigest() == run:
                return start, end + 1
    return None


def recall_tool_name(recall_tool: bool | str) -> str:
    """Return what the recall tool is called; refuse a name that no provider would take."""
    name = recall_tool if isinstance(recall_tool, str) else RECALL_TOOL_NAME
    if _TOOL_NAME.fullmatch(name) is None:
        fix = "True, False, or a name for the tool: letters, digits, _ and -, at most 64"
        raise ConfigurationError(f"recall_tool is {name!r}. Fix: {fix}.")
    return name


def recall_hint(handle: str, recall_tool: bool | str = True) -> str:
    """Return the words a placeholder uses to say how to get the original back."""
    return f'{recall_tool_name(recall_tool)}(handle="{handle}")'


def check_folder(path: str | Path) -> Path:
    """Return the place a file will have, links followed; raise where there is no folder."""
    place = Path(path).resolve()
    if place.parent.is_dir():
        return place
    problem = f"there is no folder {place.parent}. Fix: make it, or give another path"
    raise FileNotFoundError(errno.ENOENT, problem, str(path))


def write_private(path: str | Path, data: str | bytes) -> Path:
    """Write a file in one step, so that a full disk or a crash leaves the old one; return its path.

    The file is its owner's only; one that was there keeps its mode. A link is followed; a path that
    is no file, such as ``/dev/stdout``, is written to.
    """
    target = Path(path)
    content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return target
    place = check_folder(target)
    handle, name = tempfile.mkstemp(prefix=f".{place.name[:32]}.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            Path(name).chmod(place.stat().st_mode & 0o777)
        Path(name).replace(place)
    finally:
        Path(name).unlink(missing_ok=True)
    return target
