"""LlamaIndex messages to entries and back, without losing a field."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from llama_index.core.base.llms.types import (
    BaseContentBlock,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.base.llms.types import MessageRole as LlamaRole
from pydantic import BaseModel

from history_curator.formats import freeze, image_size
from history_curator.formats import MAX_DEPTH, too_deep
from history_curator.errors import ConversionError, named
from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
    new_entry,
)
from history_curator.integrations import written_once
from llamaindex_history_curator._calls import read_calls
from llamaindex_history_curator._rewrite import (
    RESULT_ID_KEYS,
    ROLES,
    citable_text,
    is_content,
    rebuild,
)

_KINDS = {"audio": "audio", "video": "video", "document": "file"}
_HEADER = 1 << 16
_WIRES = frozenset(("tool_calls", "function_call"))
_made_of = attrgetter("__class__", "__dict__")
_OWN = frozenset(("role", "additional_kwargs", "blocks"))
"""The fields of every message; a class of its own may have more."""


class LlamaIndexFormat:
    """Reads `ChatMessage` objects into entries and writes entries back.

    Reading never changes a message. An untouched entry is written as the message it came from;
    of an edited one every block, field and keyword that was not edited survives. A tool call
    encoded both as a block and in ``additional_kwargs`` is one call, and an edit reaches both.
    A message with ``additional_kwargs={"pinned": True}`` is pinned: every view holds it.

    Examples:
        >>> from llama_index.core.llms import ChatMessage
        >>> format, message = LlamaIndexFormat(), ChatMessage("hello")
        >>> entries = format.read(message, 0)
        >>> entries[0].content, format.write(entries)[0] is message
        ('hello', True)
    """

    name = "llamaindex"

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entry of one message.

        Raises:
            ConversionError: when it is not a `ChatMessage`.
        """
        if not isinstance(message, ChatMessage):
            raise ConversionError(
                f"expected a ChatMessage, got {type(message).__name__}.",
                index=index,
                fix="pass llama_index.core.llms.ChatMessage objects.",
            )
        role = ROLES.get(message.role)
        if role is None:
            raise ConversionError(
                f"unknown role: {named(message.role)}.",
                index=index,
                field="role",
                fix=f"use one of {', '.join(known.value for known in ROLES)}.",
            )
        blocks: list[Any] = message.blocks
        kwargs = message.additional_kwargs
        is_tool = role is MessageRole.TOOL
        name = kwargs.get("name")
        is_text = len(blocks) == 1 and type(blocks[0]) is TextBlock
        entry = new_entry(
            role,
            blocks[0].text if is_text else _content(message),
            index,
            message,
            tool_calls=(read_calls(message) or None) if role is MessageRole.ASSISTANT else None,
            tool_call_id=_result_id(message) if is_tool else None,
            tool_name=name if is_tool else None,
            name=None if is_tool else name,
            parts=None if is_text else _parts(blocks),
            reasoning=None if is_text else _reasoning(blocks),
            pinned=bool(kwargs.get("pinned")),
        )
        return (entry,)

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return one message per entry; untouched entries come back as their very messages.

        An edited entry is written once: as long as nobody edits that message, it is the same one.
        """
        return [
            entry.source
            if entry.original is None and entry.source is not None
            else written_once(self.name, entry, rebuild, self._seen)
            for entry in entries
        ]

    def key_of(self, message: Any) -> Hashable:
        """Return what a message says, exactly."""
        return freeze((message.__class__, self.peek([message])[0]))

    def peek(self, messages: Sequence[Any]) -> list[Any]:
        """Return what every message is made of: its fields, those of its blocks, and their kinds.

        Never a block itself: comparing two of them costs more than everything else here.
        """
        found = []
        for message in messages:
            fields = message.__dict__
            blocks, kwargs = fields["blocks"], fields["additional_kwargs"]
            if len(blocks) == 1:
                (block,) = blocks
                seen: Any = (fields["role"], kwargs, block.__class__, block.__dict__)
            else:
                seen = (fields["role"], kwargs, *map(_made_of, blocks))
            if len(fields) > len(_OWN):
                seen += ({key: fields[key] for key in fields if key not in _OWN},)
            if kwargs and not _WIRES.isdisjoint(kwargs):
                seen += (_object_calls(message),)
            found.append(seen)
        return found

    def typed(self, seen: Any) -> Any:
        """Return the arguments of calls, the one place where a number is read."""
        _, keywords, *made = seen
        parts = (one[-1] if isinstance(one, tuple) and one else one for one in made)
        return [keywords, *(part.get("tool_kwargs") for part in parts if isinstance(part, dict))]

    def twin(self, message: Any) -> Any:
        """Return a copy of one message that shares nothing that can be edited with it."""
        return copy_message(message) if isinstance(message, ChatMessage) else message

    def _seen(self, message: Any) -> Any:
        return self.peek([message])[0]


DIALECT = LlamaIndexFormat()
"""One for all: it holds no conversation."""


def _object_calls(message: ChatMessage) -> tuple[ToolCall, ...]:
    """Return the calls of a message that keeps them as objects, whose fields nobody sees."""
    kwargs = message.additional_kwargs
    wires = [*(kwargs.get("tool_calls") or ()), kwargs.get("function_call") or {}]
    return () if set(map(type, wires)) == {dict} else read_calls(message)


def _result_id(message: ChatMessage) -> str | None:
    kwargs = message.additional_kwargs
    for key in RESULT_ID_KEYS:
        if kwargs.get(key):
            return str(kwargs[key])
    if message.role is LlamaRole.FUNCTION and kwargs.get("name"):
        return str(kwargs["name"])
    return None


def _parts(blocks: Sequence[Any]) -> tuple[ContentPart, ...] | None:
    content = [block for block in blocks if is_content(block)]
    if not content or (len(content) == 1 and isinstance(content[0], TextBlock)):
        return None
    return tuple(_part(block) for block in content)


def _content(message: ChatMessage) -> str | None:
    """Return the text of a message; what can be cited is text as well."""
    if not any(isinstance(block, CitableBlock) for block in message.blocks):
        return message.content
    return "\n".join(part.text or "" for part in _parts(message.blocks) or ())


def _part(block: Any) -> ContentPart:
    if isinstance(block, TextBlock):
        return ContentPart("text", block.text, block)
    if isinstance(block, CitableBlock):
        return ContentPart("text", citable_text(block), block)
    if isinstance(block, (CachePoint, CitationBlock)):
        return ContentPart("other", None, block, tokens=0)
    if isinstance(block, ImageBlock):
        width, height = _image_size(block)
        return ContentPart("image", None, block, width, height)
    kind: Any = _KINDS.get(getattr(block, "block_type", ""), "other")
    return ContentPart(kind, None, block)


def _image_size(block: ImageBlock) -> tuple[int | None, int | None]:
    """Width and height of an inline image. A link is never followed."""
    if isinstance(block.image, bytes):
        return image_size({"data": block.image[:_HEADER].decode("ascii", "ignore")})
    if block.url is not None and str(block.url).startswith("data:"):
        return image_size({"data": str(block.url)[:_HEADER]})
    return None, None


def _reasoning(blocks: Sequence[Any]) -> tuple[Reasoning, ...] | None:
    found = tuple(
        Reasoning(
            block.content,
            _signature(block),
            block,
            encrypted=not block.content and bool(block.additional_information),
        )
        for block in blocks
        if isinstance(block, ThinkingBlock)
    )
    return found or None


def _signature(block: ThinkingBlock) -> str | None:
    info = block.additional_information
    found = info.get("signature") or info.get("thought_signature")
    return found if isinstance(found, str) else None


# Copies.

M = TypeVar("M", bound=BaseModel)
_set, _new = object.__setattr__, object.__new__
_FLAT = {str, bytes, int, float, bool, type(None)}


def copy_message(message: ChatMessage) -> ChatMessage:
    """Return a copy that shares nothing that can be edited in place.

    LlamaIndex rewrites ``block.text`` of the messages a memory returns, so what is stored and
    what is handed out must not be the same objects. Texts and bytes are shared, and so are
    objects in the keywords that are neither plain data nor models of plain data.
    """
    twin: ChatMessage = _copy_plain(message) or _copy(message)
    return twin


def _twin(model: M, fields: dict[str, Any]) -> M:
    """A model of the same class with these fields, and nothing beside them."""
    twin: M = _new(model.__class__)
    _set(twin, "__dict__", fields)
    _set(twin, "__pydantic_fields_set__", model.__pydantic_fields_set__.copy())
    _set(twin, "__pydantic_extra__", None)
    _set(twin, "__pydantic_private__", None)
    return twin


def _is_flat(values: Iterable[Any]) -> bool:
    return _FLAT.issuperset(map(type, values))


def _copy_plain(message: ChatMessage) -> ChatMessage | None:
    """Return the same for a message of texts, calls and keywords; None for one that holds more."""
    if message.__class__ is not ChatMessage:
        return None
    fields = message.__dict__.copy()
    keywords = fields["additional_kwargs"]
    if keywords:
        if not _is_flat(keywords.values()):
            return None
        fields["additional_kwargs"] = keywords.copy()
    else:
        fields["additional_kwargs"] = {}
    blocks: list[Any] = []
    for block in fields["blocks"]:
        inside = block.__dict__.copy()
        if block.__class__ is ToolCallBlock and inside["tool_kwargs"].__class__ is dict:
            arguments = inside["tool_kwargs"]
            if not _is_flat(arguments.values()):
                return None
            inside["tool_kwargs"] = arguments.copy()
        elif block.__class__ is not TextBlock:
            return None
        blocks.append(_twin(block, inside))
    fields["blocks"] = blocks
    return _twin(message, fields)


def _copy(value: Any, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise too_deep()
    if isinstance(value, dict):
        return {key: _copy(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_copy(item, depth + 1) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, bytearray):
        return value[:]
    if not isinstance(value, BaseModel):
        return value
    if value.__pydantic_private__ is not None and not isinstance(value, BaseContentBlock):
        return value
    twin = value.model_copy()
    twin.__dict__.update(_copy(twin.__dict__, depth + 1))
    if twin.__pydantic_extra__:
        _set(twin, "__pydantic_extra__", _copy(twin.__pydantic_extra__, depth + 1))
    return twin
