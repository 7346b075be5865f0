"""LlamaIndex messages to entries and back, without losing a field."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
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

from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
)
from history_curator.errors import ConversionError, name_value
from history_curator.formats import (
    arguments_text,
    freeze,
    image_size,
    join_text,
    parse_object,
    update_text,
)
from llamaindex_history_curator.plain_values import (
    copy_value,
    dump,
    find_key,
    get_field,
    get_first,
    load,
    message_from_dict,
    message_to_dict,
    set_field,
)

__all__ = ["FORMAT", "LlamaIndexFormat", "dump", "from_json", "load", "to_json"]

_ALIASES = {"developer": "system", "chatbot": "assistant", "model": "assistant", "function": "tool"}
ROLES = {role: MessageRole(_ALIASES.get(role.value, role.value)) for role in LlamaRole}
RESULT_ID_KEYS = ("tool_call_id", "call_id")
CALL_KEYS = ("tool_calls", "function_call")
_ID_KEYS = ("call_id", "tool_call_id", "tool_id", "toolUseId", "id")
_NAME_KEYS = ("name", "tool_name")
_ARGUMENT_KEYS = ("arguments", "args", "input", "tool_kwargs")
_PART_KINDS = {"audio": "audio", "video": "video", "document": "file"}
_IMAGE_HEADER_BYTES = 1 << 16
_OWN_FIELDS = frozenset(("role", "additional_kwargs", "blocks"))
_TEXTS = frozenset((str,))


class LlamaIndexFormat:
    """Reads `ChatMessage` objects into entries and writes entries back.

    Reading never changes a message. An untouched entry is written as the message it was read from;
    an edited one as a copy in which every block, field and keyword that was not edited survives.
    A tool call encoded both as a block and in ``additional_kwargs`` is one call, and an edit
    reaches both. A message with ``additional_kwargs={"pinned": True}`` is pinned: every view
    holds it.

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
                fix='pass llama_index.core.llms.ChatMessage(role="user", content=…).',
            )
        role = ROLES.get(message.role)
        if role is None:
            raise ConversionError(
                f"unknown role: {name_value(message.role)}.",
                index=index,
                field="role",
                fix=f"use one of {', '.join(known.value for known in ROLES)}.",
            )
        blocks: list[Any] = message.blocks
        keywords = message.additional_kwargs
        name = keywords.get("name")
        is_tool = role is MessageRole.TOOL
        is_text = len(blocks) == 1 and type(blocks[0]) is TextBlock
        parts = None if is_text else _read_parts(blocks)
        text = blocks[0].text if is_text else join_text(parts) if parts else message.content
        entry = ConversationEntry(
            role,
            text,
            sequence=index,
            source=message,
            tool_calls=(read_calls(message) or None) if role is MessageRole.ASSISTANT else None,
            tool_call_id=_read_result_id(message) if is_tool else None,
            tool_name=name if is_tool else None,
            name=None if is_tool else name,
            parts=parts,
            reasoning=None if is_text else _read_reasoning(blocks),
            pinned=bool(keywords.get("pinned")),
        )
        return (entry,)

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return one message per entry; untouched entries come back as their very messages."""
        return [
            entry.source
            if entry.original is None and entry.source is not None
            else _write_edited(entry)
            for entry in entries
        ]

    def key_of(self, message: Any) -> Hashable:
        """Return what a message says, exactly."""
        fields = message.__dict__
        keywords = fields["additional_kwargs"]
        key: list[Hashable] = [
            message.__class__,
            fields["role"],
            _freeze_keywords(keywords) if keywords else None,
        ]
        for block in fields["blocks"]:
            kind, inside = block.__class__, block.__dict__
            if kind is TextBlock:
                key.append(inside["text"])
            elif kind is ToolCallBlock:
                arguments = inside["tool_kwargs"]
                frozen = _freeze_keywords(arguments) if arguments.__class__ is dict else arguments
                key += (kind, inside["tool_call_id"], inside["tool_name"], frozen)
            else:
                key += (kind, freeze(inside), freeze(block.__pydantic_extra__))
        if len(fields) > len(_OWN_FIELDS):
            own = {name: fields[name] for name in fields if name not in _OWN_FIELDS}
            key.append(freeze(own))
        return tuple(key)

    def snapshot(self, message: Any) -> Any:
        """Return a copy of one message that shares nothing that can be edited with it."""
        return copy_value(message) if isinstance(message, ChatMessage) else message


FORMAT = LlamaIndexFormat()
to_json, from_json = message_to_dict, message_from_dict


def _freeze_keywords(given: dict[Any, Any]) -> Hashable:
    if _TEXTS.issuperset(map(type, given.values())) and _TEXTS.issuperset(map(type, given)):
        return tuple(given.items())
    return freeze(given)


# Reading.


def _is_content(block: Any) -> bool:
    return not isinstance(block, (ThinkingBlock, ToolCallBlock))


def citable_text(block: CitableBlock) -> str:
    """Return the title, the source and the texts of a citable block."""
    texts = [part.text for part in block.content if isinstance(part, TextBlock)]
    return "\n".join(part for part in (block.title, block.source, *texts) if part)


def _read_result_id(message: ChatMessage) -> str | None:
    keywords = message.additional_kwargs
    keys = (*RESULT_ID_KEYS, "name") if message.role is LlamaRole.FUNCTION else RESULT_ID_KEYS
    return next((str(keywords[key]) for key in keys if keywords.get(key)), None)


def _read_parts(blocks: Sequence[Any]) -> tuple[ContentPart, ...] | None:
    content = [block for block in blocks if _is_content(block)]
    if not content or (len(content) == 1 and isinstance(content[0], TextBlock)):
        return None
    return tuple(map(_read_part, content))


def _read_part(block: Any) -> ContentPart:
    if isinstance(block, TextBlock):
        return ContentPart("text", block.text, block)
    if isinstance(block, CitableBlock):
        return ContentPart("text", citable_text(block), block)
    if isinstance(block, (CachePoint, CitationBlock)):
        return ContentPart("other", None, block, tokens=0)
    if isinstance(block, ImageBlock):
        return ContentPart("image", None, block, *_read_image_size(block))
    kind: Any = _PART_KINDS.get(getattr(block, "block_type", ""), "other")
    return ContentPart(kind, None, block)


def _read_image_size(block: ImageBlock) -> tuple[int | None, int | None]:
    data = str(block.url or "")
    if isinstance(block.image, bytes):
        data = block.image[:_IMAGE_HEADER_BYTES].decode("ascii", "ignore")
    elif not data.startswith("data:"):
        return None, None  # a link is never followed
    return image_size({"data": data[:_IMAGE_HEADER_BYTES]})


def _read_reasoning(blocks: Sequence[Any]) -> tuple[Reasoning, ...] | None:
    found = []
    for block in blocks:
        if isinstance(block, ThinkingBlock):
            details = block.additional_information
            signature = details.get("signature") or details.get("thought_signature")
            signature = signature if isinstance(signature, str) else None
            is_encrypted = not block.content and bool(details)
            found.append(Reasoning(block.content, signature, block, encrypted=is_encrypted))
    return tuple(found) or None


def read_calls(message: ChatMessage) -> tuple[ToolCall, ...]:
    """Return the calls of a message, each once: OpenAI's adapter writes every call twice."""
    keywords = message.additional_kwargs
    blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if not blocks and not keywords:
        return ()
    wires = list(keywords.get("tool_calls") or ())
    if not wires and not blocks and keywords.get("function_call"):
        wires = [keywords["function_call"]]
    # Gemini keeps one thought signature per block, by position.
    listed = keywords.get("thought_signatures")
    signed = zip(message.blocks, listed if isinstance(listed, list) else (), strict=False)
    signatures = {id(block): signature for block, signature in signed}
    calls = [_read_call(one, _take_wire(one, wires), signatures.get(id(one))) for one in blocks]
    return (*calls, *(_read_call(None, wire) for wire in wires))


def _read_call(block: ToolCallBlock | None, wire: Any, signature: Any = None) -> ToolCall:
    holder = _function_of(wire)
    written = get_first(holder, _ARGUMENT_KEYS)
    if block is not None and not isinstance(written, str):
        written = block.tool_kwargs
    name = get_first(holder, _NAME_KEYS) if block is None else block.tool_name
    call_id = (None if block is None else block.tool_call_id) or get_first(wire, _ID_KEYS)
    extra: dict[str, Any] = {"block": block, "wire": wire}
    if signature := signature or get_field(wire, "thought_signature"):
        extra["thought_signature"] = signature
    # Gemini has no ids: its adapter answers a call by the name of the function.
    return ToolCall(str(call_id or name or ""), str(name or ""), arguments_text(written), extra)


def _take_wire(block: ToolCallBlock, wires: list[Any]) -> Any:
    """Remove and return the ``additional_kwargs`` form of a block, or None."""
    for index, wire in enumerate(wires):
        wire_id = get_first(wire, _ID_KEYS)
        if block.tool_call_id and wire_id:
            is_same = block.tool_call_id in (wire_id, get_field(wire, "id"))
        else:
            is_same = get_first(_function_of(wire), _NAME_KEYS) == block.tool_name
        if is_same:
            return wires.pop(index)
    return None


def _function_of(wire: Any) -> Any:
    function = get_field(wire, "function")
    return wire if function is None else function


# Writing: a copy of the source in which only the edited blocks and keywords are replaced.


def _write_edited(entry: ConversationEntry) -> ChatMessage:
    if isinstance(entry.source, ChatMessage):
        message, before = copy_value(entry.source), entry.root
    else:
        thoughts = tuple(one for one in entry.reasoning or () if one.raw is not None)
        before = ConversationEntry(entry.role, reasoning=thoughts)
        blocks = [copy_value(one.raw) for one in thoughts]
        message = ChatMessage(role=LlamaRole(entry.role.value), blocks=blocks)
    count = len(message.blocks)
    placed = _write_blocks(entry, before, message)
    message.blocks = [block for block, _ in placed]
    if ROLES.get(message.role) is not entry.role:
        message.role = LlamaRole(entry.role.value)
    _write_keywords(entry, before, message)
    keywords = message.additional_kwargs
    signatures = keywords.get("thought_signatures")
    if isinstance(signatures, list):
        # One per block, by position; calls kept only in the keywords come after the blocks.
        padded = [*signatures, *[None] * (count - len(signatures))]
        own = [None if place is None else padded[place] for _, place in placed]
        keywords["thought_signatures"] = [*own, *signatures[count:]]
    return message


def _write_blocks(
    entry: ConversationEntry, before: ConversationEntry, message: ChatMessage
) -> list[tuple[Any, int | None]]:
    """Return the blocks of an edited entry, each with its place in the source or None."""
    content = _write_content(entry, before, [one for one in message.blocks if _is_content(one)])
    thoughts, calls_before = iter(before.reasoning or ()), iter(before.tool_calls or ())
    kept_thoughts = {id(one.raw) for one in entry.reasoning or ()}
    calls = {id(call.extra): call for call in entry.tool_calls or ()}
    own_calls = {id(call.extra) for call in before.tool_calls or ()}
    placed: list[tuple[Any, int | None]] = []
    has_content = False
    for place, block in enumerate(message.blocks):
        if isinstance(block, ThinkingBlock):
            thought = next(thoughts, None)
            if thought is None or id(thought.raw) in kept_thoughts:
                placed.append((block, place))
        elif isinstance(block, ToolCallBlock):
            call_before = next(calls_before, None)
            if call_before is None:  # only an assistant's calls are read
                placed.append((block, place))
            elif call := calls.get(id(call_before.extra)):
                placed.append((_edit_call(block, call, call_before, ("tool_call_id",)), place))
        elif content is None:
            placed.append((block, place))
        elif not has_content:
            # An edited text takes the place, and the signature, of the first one.
            has_content = True
            placed += [(one, None if number else place) for number, one in enumerate(content)]
    if content and not has_content:  # before the calls, after the thinking
        lead = sum(isinstance(block, ThinkingBlock) for block, _ in placed)
        placed[lead:lead] = [(block, None) for block in content]
    is_wired = any(key in message.additional_kwargs for key in CALL_KEYS)
    for call in entry.tool_calls or ():
        block, wire = _origin(call, "block"), _origin(call, "wire")
        only_keyword = block is None and (wire is not None or is_wired)
        if id(call.extra) not in own_calls and not only_keyword:
            placed.append((write_block(call), None))
    return placed


def _write_content(
    entry: ConversationEntry, before: ConversationEntry, given: Sequence[Any]
) -> list[Any] | None:
    """Return the content blocks of an edited entry, None where they are as they were."""
    if entry.parts == before.parts and entry.content == before.content:
        return None
    if entry.parts is None:
        block = given[0] if len(given) == 1 else None
        part = ContentPart("text", entry.content)
        return [] if entry.content is None else [_write_part(part, block)]
    own = {id(part.raw): block for part, block in zip(before.parts or (), given, strict=False)}
    parts = update_text(entry) if entry.parts == before.parts else entry.parts
    return [_write_part(part, own.get(id(part.raw)) or copy_value(part.raw)) for part in parts]


def _write_part(part: ContentPart, block: Any) -> Any:
    if part.kind != "text" and block is not None:
        return block
    if isinstance(block, CitableBlock) and part.text == citable_text(block):
        return block
    if isinstance(block, TextBlock):
        block.text = part.text or ""
        return block
    return TextBlock(text=part.text or "")


def _write_keywords(
    entry: ConversationEntry, before: ConversationEntry, message: ChatMessage
) -> None:
    keywords, calls = message.additional_kwargs, entry.tool_calls or ()
    is_tool = entry.role is MessageRole.TOOL
    name = entry.tool_name if is_tool else entry.name
    if name != (before.tool_name if is_tool else before.name):
        _put(keywords, "name", name)
    if is_tool and entry.tool_call_id != before.tool_call_id:
        present = [key for key in RESULT_ID_KEYS if key in keywords]
        if not present and message.role is not LlamaRole.FUNCTION:
            present = ["tool_call_id"]
        keywords.update(dict.fromkeys(present, entry.tool_call_id))
    if entry.tool_calls == before.tool_calls:
        return
    if "function_call" in keywords and "tool_calls" not in keywords:
        _put(keywords, "function_call", _write_wire(calls[0]) if calls else None)
    elif "tool_calls" in keywords or any(_origin(call, "wire") is not None for call in calls):
        # An empty list is refused by OpenAI, so the key goes with the last call.
        _put(keywords, "tool_calls", list(map(_write_wire, calls)) or None)


def _put(keywords: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        keywords.pop(key, None)
    else:
        keywords[key] = value


def _origin(call: ToolCall, key: str) -> Any:
    return (call.extra or {}).get(key)


def write_block(call: ToolCall) -> ToolCallBlock:
    """Return a call as a block: a copy of the one it was read from, if there was one."""
    block: ToolCallBlock | None = _origin(call, "block")
    if block is None:
        found = parse_object(call.arguments)
        arguments = call.arguments if found is None else found
        return ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=arguments)
    before = _read_call(block, _origin(call, "wire"))
    edited: ToolCallBlock = _edit_call(copy_value(block), call, before, ("tool_call_id",))
    return edited


def _write_wire(call: ToolCall) -> Any:
    """Return a call as ``additional_kwargs`` hold it, in the shape it came in."""
    wire = copy.deepcopy(_origin(call, "wire"))
    if wire is None:
        function = {"name": call.name, "arguments": call.arguments}
        return {"id": call.id, "type": "function", "function": function}
    id_key = find_key(wire, _ID_KEYS)
    return _edit_call(wire, call, _read_call(None, wire), (id_key,) if id_key else ())


def _edit_call(wire: Any, call: ToolCall, before: ToolCall, id_keys: Sequence[str]) -> Any:
    function = _function_of(wire)
    if call.id != before.id and id_keys:
        set_field(wire, id_keys[0], call.id)
    if call.name != before.name and (key := find_key(function, _NAME_KEYS)):
        set_field(function, key, call.name)
    if call.arguments != before.arguments and (key := find_key(function, _ARGUMENT_KEYS)):
        found = None if isinstance(get_field(function, key), str) else parse_object(call.arguments)
        set_field(function, key, call.arguments if found is None else found)
    return wire
