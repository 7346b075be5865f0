"""Edited entries become messages that keep every block, field and keyword that was not edited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_not
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    CitableBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.base.llms.types import MessageRole as LlamaRole

from history_curator.formats import text_first
from history_curator.entries import ContentPart, ConversationEntry, MessageRole, ToolCall
from llamaindex_history_curator._calls import write_block, write_wire

ROLES = {
    LlamaRole.SYSTEM: MessageRole.SYSTEM,
    LlamaRole.DEVELOPER: MessageRole.SYSTEM,
    LlamaRole.USER: MessageRole.USER,
    LlamaRole.ASSISTANT: MessageRole.ASSISTANT,
    LlamaRole.CHATBOT: MessageRole.ASSISTANT,
    LlamaRole.MODEL: MessageRole.ASSISTANT,
    LlamaRole.TOOL: MessageRole.TOOL,
    LlamaRole.FUNCTION: MessageRole.TOOL,
}

RESULT_ID_KEYS = ("tool_call_id", "call_id")


def is_content(block: Any) -> bool:
    """Whether a block is said, as opposed to thought or called."""
    return not isinstance(block, (ThinkingBlock, ToolCallBlock))


def rebuild(entry: ConversationEntry) -> ChatMessage:
    """Return the message of an entry that was edited or invented."""
    source = entry.source
    if not isinstance(source, ChatMessage):
        return _invent(entry)
    placed = list(_place(entry, source))
    changes = {
        "role": _role(entry, source),
        "blocks": [block for block, _ in placed],
        "additional_kwargs": _keywords(entry, source, placed),
    }
    return source.model_copy(update=changes)


def _role(entry: ConversationEntry, source: ChatMessage) -> LlamaRole:
    same = ROLES.get(source.role) is entry.role
    return source.role if same else LlamaRole(entry.role.value)


def _invent(entry: ConversationEntry) -> ChatMessage:
    kwargs: dict[str, Any] = {}
    if entry.role is MessageRole.TOOL:
        kwargs["tool_call_id"] = entry.tool_call_id or ""
        if entry.tool_name:
            kwargs["name"] = entry.tool_name
    elif entry.name:
        kwargs["name"] = entry.name
    blocks = [block.raw for block in entry.reasoning or () if block.raw is not None]
    if entry.parts is not None:
        blocks += map(_part_block, entry.parts)
    elif entry.content is not None:
        blocks.append(TextBlock(text=entry.content))
    blocks += map(write_block, entry.tool_calls or ())
    role = LlamaRole(entry.role.value)
    return ChatMessage(role=role, blocks=blocks, additional_kwargs=kwargs)


def _part_block(part: ContentPart) -> Any:
    raw = part.raw
    if part.kind != "text":
        return raw if raw is not None else TextBlock(text=part.text or "")
    if isinstance(raw, CitableBlock) and part.text == citable_text(raw):
        return raw
    if isinstance(raw, TextBlock):
        return raw if raw.text == part.text else raw.model_copy(update={"text": part.text or ""})
    return TextBlock(text=part.text or "")


def _place(entry: ConversationEntry, source: ChatMessage) -> Iterator[tuple[Any, int | None]]:
    """Yield the blocks of an edited entry, each with its place in the source or None."""
    given = [block for block in source.blocks if is_content(block)]
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
    if entry.parts == before.parts and entry.content == before.content:
        return given
    if entry.parts is not None:
        parts = text_first(entry) if entry.parts == before.parts else entry.parts
    else:
        raw = given[0] if len(given) == 1 else None
        parts = () if entry.content is None else (ContentPart("text", entry.content, raw),)
    return [_part_block(part) for part in parts]


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
        present = [key for key in RESULT_ID_KEYS if key in kwargs]
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


def citable_text(block: CitableBlock) -> str:
    """Return what a citable block says: what it is called, where it is from, its text."""
    texts = [part.text for part in block.content if isinstance(part, TextBlock)]
    return "\n".join(part for part in (block.title, block.source, *texts) if part)
