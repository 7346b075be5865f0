"""LlamaIndex messages to entries and back, without losing a field."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from llama_index.core.base.llms.types import (
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
)
from llama_index.core.base.llms.types import MessageRole as LlamaRole

from history_curator.dialects import image_size, written_once
from history_curator.errors import ConversionError, named
from history_curator.model import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
    new_entry,
)
from llamaindex_history_curator._calls import read_calls
from llamaindex_history_curator._copies import copy_message
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


class LlamaIndexDialect:
    """Reads `ChatMessage` objects into entries and writes entries back.

    Reading never changes a message. An untouched entry is written as the message it came from;
    of an edited one every block, field and keyword that was not edited survives. A tool call
    encoded both as a block and in ``additional_kwargs`` is one call, and an edit reaches both.
    A message with ``additional_kwargs={"pinned": True}`` is pinned: every view holds it.

    Examples:
        >>> from llama_index.core.llms import ChatMessage
        >>> dialect, message = LlamaIndexDialect(), ChatMessage("hello")
        >>> entries = dialect.read(message, 0)
        >>> entries[0].content, dialect.write(entries)[0] is message
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
        blocks, kwargs = message.blocks, message.additional_kwargs
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


DIALECT = LlamaIndexDialect()
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
