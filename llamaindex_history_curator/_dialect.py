"""LlamaIndex messages to entries and back, without losing a field."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from operator import attrgetter, is_not
from typing import Any

from llama_index.core.base.llms.types import (
    CachePoint,
    ChatMessage,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.base.llms.types import MessageRole as LlamaRole

from history_curator.dialect import write_each
from history_curator.errors import ConversionError
from history_curator.model import ContentPart, ConversationEntry, MessageRole, Reasoning, ToolCall
from history_curator.read._parts import image_size
from llamaindex_history_curator._calls import read_calls, write_block, write_wire

__all__ = ["LlamaIndexDialect", "copy_message"]

_ROLES = {
    LlamaRole.SYSTEM: MessageRole.SYSTEM,
    LlamaRole.DEVELOPER: MessageRole.SYSTEM,
    LlamaRole.USER: MessageRole.USER,
    LlamaRole.ASSISTANT: MessageRole.ASSISTANT,
    LlamaRole.CHATBOT: MessageRole.ASSISTANT,
    LlamaRole.MODEL: MessageRole.ASSISTANT,
    LlamaRole.TOOL: MessageRole.TOOL,
    LlamaRole.FUNCTION: MessageRole.TOOL,
}
_KINDS = {"audio": "audio", "video": "video", "document": "file"}
_RESULT_ID_KEYS = ("tool_call_id", "call_id")
_HEADER = 1 << 16
_get_blocks = attrgetter("blocks")


class LlamaIndexDialect:
    """Reads `ChatMessage` objects into entries and writes entries back.

    Reading never changes a message. An untouched entry is written as the message it came from;
    of an edited one every block, field and keyword that was not edited survives. A tool call
    encoded both as a block and in ``additional_kwargs`` is one call, and an edit reaches both.

    Example:
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
        role = _ROLES.get(message.role)
        if role is None:
            raise ConversionError(
                f"unknown role {message.role!r}.",
                index=index,
                field="role",
                fix=f"use one of {', '.join(known.value for known in _ROLES)}.",
            )
        blocks, kwargs = message.blocks, message.additional_kwargs
        if not kwargs and len(blocks) == 1 and type(blocks[0]) is TextBlock:
            return (ConversationEntry(role, blocks[0].text, sequence=index, source=message),)
        is_tool = role is MessageRole.TOOL
        name = kwargs.get("name")
        return (
            ConversationEntry(
                role,
                message.content,
                sequence=index,
                tool_calls=(read_calls(message) or None) if role is MessageRole.ASSISTANT else None,
                tool_call_id=_result_id(message) if is_tool else None,
                tool_name=name if is_tool else None,
                name=None if is_tool else name,
                parts=_parts(blocks),
                reasoning=_reasoning(blocks),
                source=message,
            ),
        )

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return one message per entry; untouched entries come back as their very messages."""
        return write_each(entries, _rebuild)

    def glance(self, messages: Sequence[Any]) -> list[Any]:
        """Return the block lists: assigning ``content`` or ``blocks`` replaces the list."""
        try:
            return list(map(_get_blocks, messages))
        except AttributeError:
            return [getattr(message, "blocks", None) for message in messages]

    def fingerprint(self, message: Any) -> Hashable:
        """Return everything `read` looks at in one message."""
        kwargs = message.additional_kwargs
        blocks = message.blocks
        if not kwargs and len(blocks) == 1 and type(blocks[0]) is TextBlock:
            return (message.role, blocks[0].text)
        calls = tuple(read_calls(message))
        wired = kwargs.get("tool_calls")
        return (
            message.role,
            tuple(_block_print(block) for block in blocks),
            calls,
            None if wired is None else len(wired),
            _result_id(message),
            kwargs.get("name"),
        )


def copy_message(message: ChatMessage) -> ChatMessage:
    """Return a copy that shares nothing that can be edited in place.

    LlamaIndex rewrites ``block.text`` of the messages a memory returns, so what is stored and
    what is handed out must not be the same objects.
    """
    return message.model_copy(
        update={
            "blocks": [_copy_block(block) for block in message.blocks],
            "additional_kwargs": _copy_tree(message.additional_kwargs),
        }
    )


def _copy_block(block: Any) -> Any:
    if isinstance(block, ToolCallBlock):
        return block.model_copy(update={"tool_kwargs": _copy_tree(block.tool_kwargs)})
    return block.model_copy()


def _copy_tree(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy_tree(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy_tree(item) for item in value]
    return value


def _result_id(message: ChatMessage) -> str | None:
    kwargs = message.additional_kwargs
    for key in _RESULT_ID_KEYS:
        if kwargs.get(key):
            return str(kwargs[key])
    if message.role is LlamaRole.FUNCTION and kwargs.get("name"):
        return str(kwargs["name"])
    return None


def _is_content(block: Any) -> bool:
    return not isinstance(block, (ThinkingBlock, ToolCallBlock))


def _parts(blocks: Sequence[Any]) -> tuple[ContentPart, ...] | None:
    content = [block for block in blocks if _is_content(block)]
    if not content or (len(content) == 1 and isinstance(content[0], TextBlock)):
        return None
    return tuple(_part(block) for block in content)


def _part(block: Any) -> ContentPart:
    if isinstance(block, TextBlock):
        return ContentPart("text", block.text, block)
    if isinstance(block, CachePoint):
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


def _block_print(block: Any) -> Hashable:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ToolCallBlock):
        return "tool_call"
    # Media bytes compare by identity first, so an unchanged block costs next to nothing.
    return (type(block), tuple(map(_hashable, block.__dict__.values())))


def _hashable(value: Any) -> Hashable:
    if isinstance(value, (dict, list)):
        return repr(value)
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value  # type: ignore[no-any-return]


def _rebuild(entry: ConversationEntry) -> ChatMessage:
    source = entry.source
    if not isinstance(source, ChatMessage):
        return _invent(entry)
    placed = list(_place(entry, source))
    return source.model_copy(
        update={
            "role": _role(entry, source),
            "blocks": [block for block, _ in placed],
            "additional_kwargs": _keywords(entry, source, placed),
        }
    )


def _role(entry: ConversationEntry, source: ChatMessage) -> LlamaRole:
    same = _ROLES.get(source.role) is entry.role
    return source.role if same else LlamaRole(entry.role.value)


def _invent(entry: ConversationEntry) -> ChatMessage:
    kwargs: dict[str, Any] = {}
    if entry.role is MessageRole.TOOL:
        kwargs["tool_call_id"] = entry.tool_call_id or ""
        if entry.tool_name:
            kwargs["name"] = entry.tool_name
    elif entry.name:
        kwargs["name"] = entry.name
    return ChatMessage(
        role=LlamaRole(entry.role.value),
        blocks=[*_invented_blocks(entry), *map(write_block, entry.tool_calls or ())],
        additional_kwargs=kwargs,
    )


def _invented_blocks(entry: ConversationEntry) -> list[ContentBlock]:
    thinking = [block.raw for block in entry.reasoning or () if block.raw is not None]
    if entry.parts is not None:
        return [*thinking, *map(_part_block, entry.parts)]
    return [*thinking, *([TextBlock(text=entry.content)] if entry.content is not None else [])]


def _part_block(part: ContentPart) -> Any:
    raw = part.raw
    if part.kind != "text":
        return raw if raw is not None else TextBlock(text=part.text or "")
    if isinstance(raw, TextBlock):
        return raw if raw.text == part.text else raw.model_copy(update={"text": part.text or ""})
    return TextBlock(text=part.text or "")


def _place(entry: ConversationEntry, source: ChatMessage) -> Iterator[tuple[Any, int | None]]:
    """Yield the blocks of an edited entry, each with its place in the source or None."""
    given = [block for block in source.blocks if _is_content(block)]
    content = _content_blocks(entry, given)
    edited = len(content) != len(given) or any(map(is_not, content, given))
    calls = {id(_origin(call, "block")): call for call in entry.tool_calls or ()}
    kept_thinking = {id(block.raw) for block in entry.reasoning or ()}
    if not given:
        # A text given to a message without one goes before its calls, after its thinking.
        lead = [block for block in source.blocks if isinstance(block, ThinkingBlock)]
        yield from ((block, None) for block in lead if id(block) in kept_thinking)
        yield from ((block, None) for block in content)
        kept_thinking = set()
    for place, block in enumerate(source.blocks):
        if isinstance(block, ThinkingBlock):
            if id(block) in kept_thinking:
                yield block, place
        elif isinstance(block, ToolCallBlock):
            if entry.role is not MessageRole.ASSISTANT:
                yield block, place
            elif id(block) in calls:
                yield write_block(calls[id(block)]), place
        elif not edited:
            yield block, place
        elif block is given[0]:
            # An edited text takes the place, and the signature, of the first one.
            yield from ((item, place if at == 0 else None) for at, item in enumerate(content))
    yield from ((block, None) for block in _added_calls(entry, source))


def _added_calls(entry: ConversationEntry, source: ChatMessage) -> Iterator[ToolCallBlock]:
    """Yield blocks for calls that came from elsewhere, unless they are only kept as keywords."""
    own = {id(block) for block in source.blocks}
    wired = "tool_calls" in source.additional_kwargs or "function_call" in source.additional_kwargs
    for call in entry.tool_calls or ():
        origin, wire = _origin(call, "block"), _origin(call, "wire")
        if origin is None and (wire is not None or wired):
            continue
        if id(origin) not in own:
            yield write_block(call)


def _origin(call: ToolCall, key: str) -> Any:
    return (call.extra or {}).get(key)


def _content_blocks(entry: ConversationEntry, given: Sequence[Any]) -> Sequence[Any]:
    before = entry.root
    if entry.parts is not None and entry.parts != before.parts:
        return [_part_block(part) for part in entry.parts]
    if entry.parts is None and before.parts is not None:
        return [TextBlock(text=entry.content)] if entry.content is not None else []
    if entry.content == before.content:
        return given
    fresh = [] if entry.content is None else [entry.content]
    out: list[Any] = []
    for block in given:
        if not isinstance(block, TextBlock):
            out.append(block)
        elif fresh:
            out.append(block.model_copy(update={"text": fresh.pop()}))
    return [*(TextBlock(text=text) for text in fresh), *out]


def _keywords(
    entry: ConversationEntry, source: ChatMessage, placed: Sequence[tuple[Any, int | None]]
) -> dict[str, Any]:
    kwargs = dict(source.additional_kwargs)
    before = entry.root
    if entry.role is MessageRole.TOOL:
        _rename_result(entry, before, source, kwargs)
    elif entry.name != before.name:
        _put(kwargs, "name", entry.name)
    if entry.tool_calls != before.tool_calls:
        _write_calls(entry.tool_calls or (), kwargs)
    signatures = kwargs.get("thought_signatures")
    if isinstance(signatures, list):
        # One per block, by position; calls kept only in the keywords come after the blocks.
        kwargs["thought_signatures"] = [
            *(
                signatures[place] if place is not None and place < len(signatures) else None
                for _, place in placed
            ),
            *signatures[len(source.blocks) :],
        ]
    return kwargs


def _rename_result(
    entry: ConversationEntry,
    before: ConversationEntry,
    source: ChatMessage,
    kwargs: dict[str, Any],
) -> None:
    if entry.tool_call_id != before.tool_call_id:
        present = [key for key in _RESULT_ID_KEYS if key in kwargs]
        if not present and source.role is not LlamaRole.FUNCTION:
            present = ["tool_call_id"]
        for key in present:
            kwargs[key] = entry.tool_call_id
    if entry.tool_name != before.tool_name:
        _put(kwargs, "name", entry.tool_name)


def _write_calls(calls: Sequence[ToolCall], kwargs: dict[str, Any]) -> None:
    if "function_call" in kwargs and "tool_calls" not in kwargs:
        _put(kwargs, "function_call", write_wire(calls[0]) if calls else None)
    elif "tool_calls" in kwargs or any(_origin(call, "wire") is not None for call in calls):
        # An empty list is refused by OpenAI, so the key goes with the last call.
        _put(kwargs, "tool_calls", [write_wire(call) for call in calls] or None)


def _put(kwargs: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        kwargs.pop(key, None)
    else:
        kwargs[key] = value
