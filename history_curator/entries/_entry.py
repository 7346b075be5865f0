"""`ConversationEntry`: one message, frozen, in a form no provider owns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import Enum
from typing import Any, Literal
from uuid import UUID

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

    Attributes:
        id: correlates the call with its result. Not unique across a conversation.
        name: the tool.
        arguments: JSON text, exactly as the model wrote it (it may be malformed).
        extra: what a provider keeps beside a call and wants back, such as a thought signature.
    """

    id: str
    name: str
    arguments: str = "{}"
    extra: Mapping[str, Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ContentPart:
    """One block of a multi-part message.

    Attributes:
        kind: what it is; anything we do not know is ``other`` and passes through untouched.
        text: the text of a text block.
        raw: the block as it was given, for writing it back.
        width, height: size in pixels of an image, where known.
        tokens: a given estimate for media whose cost cannot be derived.
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
    """A thinking block: bound to what came before it and to the calls that follow it.

    ``encrypted`` marks blocks whose text is opaque (redacted or encrypted reasoning).
    """

    text: str | None = None
    signature: str | None = None
    raw: Any = None
    encrypted: bool = False


class _Slots:
    """Where an entry keeps its fields.

    A long record is made of entries, and most fields only mean something for a few of them: those
    named in `_SELDOM` share one slot, which is empty for an ordinary message.
    """

    __slots__ = (
        "checked",
        "content",
        "created_at",
        "evaluation_id",
        "memo",
        "memo_of",
        "original",
        "parts",
        "pinned",
        "reasoning",
        "role",
        "seldom",
        "sequence",
        "source",
        "status",
        "tool_call_id",
        "tool_calls",
        "tool_name",
        "written",
    )
    seldom: dict[str, Any] | None


@dataclass(frozen=True)
class ConversationEntry(_Slots):
    """One message of a conversation.

    Examples:
        >>> entry = ConversationEntry(MessageRole.USER, "hello")
        >>> entry.evolve(content="hi").original is entry
        True
    """

    __slots__ = ()

    role: MessageRole
    """Who speaks."""

    content: str | None = None
    """The text, all text blocks joined. None for a message that only carries calls."""

    evaluation_id: UUID | None = None
    """Correlates all entries of one run."""

    sequence: int = 0
    """Zero-based position within the run."""

    created_at: datetime | None = None
    """When the entry was recorded."""

    tool_calls: tuple[ToolCall, ...] | None = None
    """Calls asked for by the assistant."""

    tool_call_id: str | None = None
    """The call this result answers. Tool role only."""

    tool_name: str | None = None
    """The tool that produced this result. Tool role only."""

    name: str | None = None
    """The author's name, where a provider takes one."""

    parts: tuple[ContentPart, ...] | None = None
    """All content blocks in order, when the message is more than plain text."""

    reasoning: tuple[Reasoning, ...] | None = None
    """Thinking blocks, in order."""

    status: Literal["success", "error"] | None = None
    """Outcome of a tool result, where known."""

    pinned: bool = False
    """A pinned entry survives every manager."""

    truncated: bool = False
    """Whether the text was shortened."""

    original_length: int | None = None
    """Characters of the text before it was shortened."""

    handle: str | None = None
    """What the recall tool takes to return the original text."""

    origin: str | None = None
    """None for what was said; else why it was invented: ``placeholder``, ``bridge``, ``user``,
    ``summary``, ``recollection``, ``note``."""

    role_name: str | None = None
    """What the provider calls the role, where it has another name for it: ``developer``,
    ``function``. None when it is called as we call it."""

    barrier: bool = False
    """Whether the provider keeps in here what came before: an Anthropic ``compaction`` block, a
    ``compaction`` item of OpenAI Responses. Nothing before a barrier is sent again, and a barrier
    is never left out."""

    repairs: str | None = field(default=None, compare=False, repr=False)
    """What was wrong with the message and had to be read as something else, in words for a person:
    an unknown spelling of a role, arguments that are not text, an id that is a number. The entry
    is what was meant; the message as it stands would be refused. None when nothing was wrong."""

    metadata: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """What the caller attached; never sent."""

    action: str | None = field(default=None, compare=False, repr=False)
    """What was done to this entry: ``truncated``, ``cleared``, ``merged``, ``moved``,
    ``inserted``, ``summarised``, ``repaired``. None when untouched."""

    reason: str | None = field(default=None, compare=False, repr=False)
    """Why, in words for a person."""

    source: Any = field(default=None, compare=False, repr=False)
    """The message this entry was read from. Returned as is while the entry is untouched."""

    span: tuple[int, int] | None = field(default=None, compare=False, repr=False)
    """(k, n) when the source message was read as n entries and this is the k-th."""

    original: ConversationEntry | None = field(default=None, compare=False, repr=False)
    """The entry as recorded, when this one is an edited copy."""

    memo: Any = field(default=None, init=False, compare=False, repr=False)
    """Private to the counter: the cached token count."""

    memo_of: Any = field(default=None, init=False, compare=False, repr=False)
    """Private to the counter: whose count it is."""

    checked: Any = field(default=None, init=False, compare=False, repr=False)
    """Private to the profiles: the cached verdict of the rules that look at one entry alone."""

    written: Any = field(default=None, init=False, compare=False, repr=False)
    """Private to the formats: the message an edited entry was written as."""

    def __post_init__(self) -> None:
        for name in ("memo", "memo_of", "checked", "written"):
            object.__setattr__(self, name, None)
        if not hasattr(self, "seldom"):
            object.__setattr__(self, "seldom", None)

    def evolve(self, **changes: Any) -> ConversationEntry:
        """Return an edited copy that remembers the recorded entry as `original`."""
        draft: Any = _Draft()
        draft.role, draft.content, draft.parts = self.role, self.content, self.parts
        draft.sequence, draft.source, draft.reasoning = self.sequence, self.source, self.reasoning
        draft.tool_calls, draft.tool_call_id = self.tool_calls, self.tool_call_id
        draft.tool_name, draft.status, draft.pinned = self.tool_name, self.status, self.pinned
        draft.evaluation_id, draft.created_at = self.evaluation_id, self.created_at
        draft.original = self if self.original is None else self.original
        draft.memo = draft.memo_of = draft.checked = draft.written = None
        seldom = dict(self.seldom) if self.seldom else {}
        for name, value in changes.items():
            if name in _SELDOM:
                if value is _SELDOM[name]:
                    seldom.pop(name, None)
                else:
                    seldom[name] = value
            elif name in _OFTEN:
                setattr(draft, name, value)
            else:
                raise TypeError(f"{name!r} is not a field of an entry")
        draft.seldom = seldom or None
        draft.__class__ = ConversationEntry
        return draft  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, ({name: getattr(self, name) for name in (*_OFTEN, *_SELDOM)},)

    @property
    def root(self) -> ConversationEntry:
        """The entry as recorded: itself, unless it is an edited copy."""
        return self if self.original is None else self.original

    @property
    def is_real_user(self) -> bool:
        """A user entry that was said by the user and says something."""
        return (
            self.role is MessageRole.USER
            and self.origin is None
            and (bool(self.content and not self.content.isspace()) or self.has_media)
        )

    @property
    def has_media(self) -> bool:
        """Whether a part is something other than text and marks."""
        return self.parts is not None and any(
            part.kind != "text" and not part.is_mark for part in self.parts
        )


class _Seldom:
    """A field that is kept in the slot shared by those that are seldom set."""

    def __init__(self, name: str, default: Any) -> None:
        self._name = name
        self._default = default

    def __get__(self, entry: Any, owner: type) -> Any:
        if entry is None or entry.seldom is None:
            return self._default
        return entry.seldom.get(self._name, self._default)

    def __set__(self, entry: Any, value: Any) -> None:
        # Only ever called while an entry is being made.
        if value is not self._default:
            known = getattr(entry, "seldom", None) or {}
            object.__setattr__(entry, "seldom", {**known, self._name: value})


_SELDOM = {
    **dict.fromkeys(("action", "handle", "metadata", "name", "origin"), None),
    **dict.fromkeys(("original_length", "reason", "span", "role_name", "repairs"), None),
    **dict.fromkeys(("truncated", "barrier"), False),
}
"""The fields that are seldom set, and what they are otherwise."""
_OFTEN = tuple(
    known.name for known in fields(ConversationEntry) if known.init and known.name not in _SELDOM
)
# A dataclass leaves the defaults behind as class attributes, where the slots should be seen.
for _known in fields(ConversationEntry):
    if _known.name in _SELDOM:
        setattr(ConversationEntry, _known.name, _Seldom(_known.name, _known.default))
    elif _known.name != "role":
        delattr(ConversationEntry, _known.name)


def _restored(values: dict[str, Any]) -> ConversationEntry:
    return ConversationEntry(**values)


class _Draft(_Slots):
    """An entry that is not frozen yet: the same slots, so that it can become one."""

    __slots__ = ()


class _CallDraft:
    """The same for a call."""

    __slots__ = ToolCall.__slots__


def new_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """Return the call of a message that was read; see `new_entry`."""
    draft: Any = _CallDraft()
    draft.id = call_id
    draft.name = name
    draft.arguments = arguments
    draft.extra = None
    draft.__class__ = ToolCall
    return draft  # type: ignore[no-any-return]


def new_entry(
    role: MessageRole,
    content: str | None,
    sequence: int,
    source: Any,
    *,
    tool_calls: tuple[ToolCall, ...] | None = None,
    tool_call_id: str | None = None,
    tool_name: str | None = None,
    name: str | None = None,
    parts: tuple[ContentPart, ...] | None = None,
    reasoning: tuple[Reasoning, ...] | None = None,
    status: Literal["success", "error"] | None = None,
    pinned: bool = False,
    metadata: Mapping[str, Any] | None = None,
    span: tuple[int, int] | None = None,
    seldom: dict[str, Any] | None = None,
) -> ConversationEntry:
    """Return the entry of a message that was read; `seldom` are fields few entries have.

    The same as calling the class, four times as fast: a frozen dataclass sets every field through
    ``object.__setattr__``, which is most of what reading a long record costs.
    """
    draft: Any = _Draft()
    draft.role = role
    draft.content = content
    draft.sequence = sequence
    draft.source = source
    draft.tool_calls = tool_calls
    draft.tool_call_id = tool_call_id
    draft.tool_name = tool_name
    draft.parts = parts
    draft.reasoning = reasoning
    draft.status = status
    draft.pinned = pinned
    draft.evaluation_id = draft.created_at = draft.original = None
    draft.memo = draft.memo_of = draft.checked = draft.written = None
    if name is not None or metadata is not None or span is not None:
        given = {"name": name, "metadata": metadata, "span": span, **(seldom or {})}
        seldom = {key: value for key, value in given.items() if value is not None}
    draft.seldom = seldom
    draft.__class__ = ConversationEntry
    return draft  # type: ignore[no-any-return]
