"""LlamaIndex messages to entries and back, to JSON and back, and as copies: no field is lost."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, get_args

from llama_index.core.base.llms.types import (
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.base.llms.types import MessageRole as LlamaRole
from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
    decode_value,
    encode_value,
)
from history_curator.errors import ConversionError
from history_curator.formats import arguments_text, freeze, image_size, parse_object
from history_curator.formats.blocks import Slots, entry_fields, restore_order

_ALIASES = {"developer": "system", "chatbot": "assistant", "model": "assistant", "function": "tool"}
ROLES = {role: MessageRole(_ALIASES.get(role.value, role.value)) for role in LlamaRole}
RESULT_ID_KEYS = ("tool_call_id", "call_id")
_PART_KINDS = {"audio": "audio", "video": "video", "document": "file"}
_IMAGE_HEADER_BYTES = 1 << 16
_BLOCKS: dict[str, type[Any]] = {
    kind.model_fields["block_type"].default: kind for kind in get_args(get_args(ContentBlock)[0])
}


class LlamaIndexFormat:
    """Reads `ChatMessage` objects into entries and writes entries back.

    An untouched entry is written as the message it was read from; an edited one as a copy in which
    every block, field and keyword that was not edited survives. A call encoded both as a block and
    in ``additional_kwargs`` is one call. A message with ``additional_kwargs={"pinned": True}`` is in
    every view.

    Examples:
        >>> from llama_index.core.llms import ChatMessage
        >>> format, message = LlamaIndexFormat(), ChatMessage("hello")
        >>> entries = format.read(message, 0)
        >>> entries[0].content, format.write(entries)[0] is message
        ('hello', True)
    """

    name = "llamaindex"

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entry of one message."""
        if not isinstance(message, ChatMessage):
            raise ConversionError(
                f"expected a ChatMessage, got {type(message).__name__}.",
                index=index,
                fix='pass llama_index.core.llms.ChatMessage(role="user", content=…).',
            )
        role, keywords = ROLES[message.role], message.additional_kwargs
        is_tool = role is MessageRole.TOOL
        slots = _read_slots(message, role)
        fields = entry_fields(slots)
        parts = fields["parts"]
        if len(parts) == 1 and isinstance(parts[0].raw, TextBlock):
            fields |= {"content": parts[0].text, "parts": ()}
        fields["parts"] = fields["parts"] or None
        if role is MessageRole.ASSISTANT:
            fields["tool_calls"] = fields["tool_calls"] or read_calls(message) or None
        entry = ConversationEntry(
            role,
            sequence=index,
            source=message,
            tool_call_id=_read_result_id(message) if is_tool else None,
            tool_name=keywords.get("name") if is_tool else None,
            name=None if is_tool else keywords.get("name"),
            pinned=bool(keywords.get("pinned")),
            **fields,
        )
        return (entry,)

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return one message per entry; untouched entries come back as their very messages."""
        return list(map(_write, entries))

    def key_of(self, message: Any) -> Hashable:
        """Return what a message says, exactly."""
        blocks = (
            block.text if type(block) is TextBlock else (type(block), freeze(vars(block)))
            for block in message.blocks
        )
        return (message.role, freeze(message.additional_kwargs), *blocks)

    def snapshot(self, message: Any) -> Any:
        """Return a copy of one message that shares nothing that can be edited with it."""
        return copy.deepcopy(message)


FORMAT = LlamaIndexFormat()


def _read_slots(message: ChatMessage, role: MessageRole | None) -> Slots:
    """Return what stands in each block of a message."""
    slots: Slots = []
    # Gemini keeps one thought signature per block, by position.
    signatures = dict(enumerate(message.additional_kwargs.get("thought_signatures") or ()))
    for place, block in enumerate(message.blocks):
        if isinstance(block, ThinkingBlock):
            slots.append(("reasoning", _read_reasoning(block)))
        elif isinstance(block, ToolCallBlock) and role is MessageRole.ASSISTANT:
            given = (block.tool_call_id, block.tool_name, block.tool_kwargs)
            slots.append(("call", _read_call(*given, block, signatures.get(place))))
        else:
            slots.append(("part", _read_part(block)))
    return slots


def _read_reasoning(block: ThinkingBlock) -> Reasoning:
    details = block.additional_information
    signature = details.get("signature") or details.get("thought_signature")
    signature = signature if isinstance(signature, str) else None
    return Reasoning(block.content, signature, block, encrypted=not block.content and bool(details))


def _read_part(block: Any) -> ContentPart:
    if isinstance(block, TextBlock):
        return ContentPart("text", block.text, block)
    if isinstance(block, CitableBlock):
        return ContentPart("text", citable_text(block), block)
    if isinstance(block, (CachePoint, CitationBlock)):
        return ContentPart("other", None, block, tokens=0)
    if isinstance(block, ImageBlock):
        image = block.image if isinstance(block.image, bytes) else b""
        data = str(block.url or image[:_IMAGE_HEADER_BYTES].decode("ascii", "ignore"))
        return ContentPart("image", None, block, *image_size({"data": data}))
    kind: Any = _PART_KINDS.get(getattr(block, "block_type", ""), "other")
    return ContentPart(kind, None, block)


def citable_text(block: CitableBlock) -> str:
    """Return the title, the source and the texts of a citable block."""
    texts = [part.text for part in block.content if isinstance(part, TextBlock)]
    return "\n".join(part for part in (block.title, block.source, *texts) if part)


def _read_result_id(message: ChatMessage) -> str | None:
    keywords = message.additional_kwargs
    return next((str(keywords[key]) for key in RESULT_ID_KEYS if keywords.get(key)), None)


def read_calls(message: ChatMessage) -> tuple[ToolCall, ...]:
    """Return the calls of a message: its blocks, or what ``additional_kwargs`` hold without them."""
    calls = [item for kind, item in _read_slots(message, MessageRole.ASSISTANT) if kind == "call"]
    return tuple(calls or map(_read_wire, message.additional_kwargs.get("tool_calls") or ()))


def _read_call(
    call_id: str | None, name: str, arguments: Any, block: Any = None, signature: Any = None
) -> ToolCall:
    # Gemini has no ids: its adapter answers a call by the name of the function.
    extra = {"block": block, "thought_signature": signature}
    return ToolCall(call_id or name, name, arguments_text(arguments), extra)


def _read_wire(wire: Any) -> ToolCall:
    """Read a call as OpenAI's adapters keep it: a mapping, or an object of the SDK."""
    fields = wire if isinstance(wire, Mapping) else vars(wire)
    function = fields.get("function") or fields
    inside = function if isinstance(function, Mapping) else vars(function)
    call_id = fields.get("call_id") or fields.get("id")
    return _read_call(call_id, inside.get("name", ""), inside.get("arguments"))


def _write(entry: ConversationEntry) -> Any:
    source = entry.source
    if entry.original is None and source is not None:
        return source
    if not isinstance(source, ChatMessage):
        source = ChatMessage(role=LlamaRole(entry.role.value), blocks=[])
    keywords = copy.deepcopy(source.additional_kwargs)
    role, calls = ROLES[source.role], entry.tool_calls or ()
    recorded = _read_slots(source, role)
    if role is MessageRole.ASSISTANT and calls == read_calls(source):
        calls = tuple(call for call in calls if _block_of(call))
    elif calls or role is MessageRole.ASSISTANT:  # as blocks alone, which every adapter sends
        keywords.pop("tool_calls", None)
    reasoning = [one for one in entry.reasoning or () if one.raw is not None]
    placed = restore_order(entry, recorded, calls, reasoning)
    blocks = [
        _write_slot(kind, item, None if place is None else recorded[place][1])
        for kind, item, place in placed
    ]
    signatures = keywords.get("thought_signatures")
    if isinstance(signatures, list):
        by_place: dict[int | None, Any] = dict(enumerate(signatures))
        keywords["thought_signatures"] = [by_place.get(place) for _, _, place in placed]
    _write_names(entry, source, keywords)
    update: dict[str, Any] = {"blocks": blocks, "additional_kwargs": keywords}
    if role is not entry.role:
        update["role"] = LlamaRole(entry.role.value)
    return source.model_copy(update=update)


def _write_slot(kind: str, item: Any, before: Any) -> Any:
    """Return the block of a slot: a copy of the one it was read from, patched where it differs."""
    if kind == "call":
        return write_call(item)
    block = item.raw if item.raw is not None else getattr(before, "raw", None)
    if isinstance(block, TextBlock):
        return block.model_copy(update={"text": item.text or ""})
    is_text = kind == "part" and item.kind == "text"
    if is_text and not (isinstance(block, CitableBlock) and item.text == citable_text(block)):
        return TextBlock(text=item.text or "")
    return copy.deepcopy(block)


def write_call(call: ToolCall) -> ToolCallBlock:
    """Return a call as a block: a copy of the one it was read from, if there was one."""
    block, arguments = _block_of(call), parse_object(call.arguments)
    is_text = arguments is None or (block is not None and isinstance(block.tool_kwargs, str))
    fields: dict[str, Any] = {"tool_kwargs": call.arguments if is_text else arguments}
    fields["tool_name"] = call.name
    if block is None:
        return ToolCallBlock(tool_call_id=call.id, **fields)
    if call.id not in (block.tool_call_id, block.tool_name):
        fields["tool_call_id"] = call.id
    return block.model_copy(update=fields)


def _block_of(call: ToolCall) -> ToolCallBlock | None:
    return (call.extra or {}).get("block")


def _write_names(entry: ConversationEntry, source: ChatMessage, keywords: dict[str, Any]) -> None:
    name = entry.tool_name if entry.role is MessageRole.TOOL else entry.name
    if name != keywords.get("name"):
        keywords["name"] = name
    if entry.role is MessageRole.TOOL and entry.tool_call_id != _read_result_id(source):
        present = [key for key in RESULT_ID_KEYS if key in keywords] or ["tool_call_id"]
        keywords.update(dict.fromkeys(present, entry.tool_call_id))


def message_to_dict(message: ChatMessage) -> dict[str, Any]:
    """Return a message as plain JSON values. SDK objects become dicts; bytes stay bytes.

    Examples:
        >>> message_from_dict(message_to_dict(ChatMessage("hi"))) == ChatMessage("hi")
        True
    """
    return {
        "role": message.role.value,
        "blocks": [_encode(block) for block in message.blocks],
        "additional_kwargs": _encode(message.additional_kwargs),
    }


def _encode(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _encode(value.model_dump())
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_encode(item) for item in value]
    is_bytes = isinstance(value, (bytes, bytearray))
    return encode_value(value) if is_bytes else to_jsonable_python(value, fallback=str)


def message_from_dict(data: Mapping[str, Any]) -> ChatMessage:
    """Return the message that `message_to_dict` wrote."""
    try:
        message = ChatMessage(role=data["role"])
    except (KeyError, ValidationError) as error:
        raise ConversionError(
            f"not a stored message ({error}).", fix="pass what message_to_dict returned."
        ) from error
    # Set afterwards: given to the constructor, a legacy "images" keyword adds its images again.
    message.additional_kwargs = decode_value(data.get("additional_kwargs") or {})
    message.blocks = [_read_block(decode_value(block)) for block in data.get("blocks", ())]
    return message


def _read_block(fields: Mapping[str, Any]) -> Any:
    kind = _BLOCKS.get(fields.get("block_type", "text"), TextBlock)
    try:
        return kind(**fields)
    except ValidationError:  # such as an image whose file is gone: the record has to load
        return kind.model_construct(**fields)


def load(data: dict[str, Any]) -> ChatMessage:
    """Return the message of a row."""
    return ChatMessage.model_validate(data)


def dump(message: ChatMessage) -> dict[str, Any]:
    """Return what a row holds of a message."""
    return message.model_dump(mode="json")
