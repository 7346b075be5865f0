"""Anthropic: calls, results and thoughts are blocks of the content; results speak as the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from history_curator.formats._chat import KNOWN_KEYS, entry_of, is_kept
from history_curator.formats._fields import Reading, mapping, parse_object, type_of
from history_curator.formats._parts import join_text, read_part, text_first, write_part
from history_curator.formats._slots import (
    Groups,
    Known,
    Slots,
    arranged,
    is_as_read,
    own_group,
    said,
    split,
)
from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
    new_entry,
)

_KEYS = frozenset(("role", "content"))
_REASONING = {"thinking", "redacted_thinking", "reasoning"}
_OWN = {"tool_use", "tool_result", "server_tool_use", "mcp_tool_use", "compaction"}
_OWN |= {"container_upload", "search_result"}
_CALL: Mapping[str, Any] = {"anthropic": {}}
"""What is kept beside a call that has nothing beside it: whose call it is."""


def has_blocks(message: Any) -> bool:
    """Whether calls, results or thoughts stand among the blocks of a message."""
    return any(kind in _REASONING or _is_own(kind) for kind in _kinds(message))


def speaks_blocks(message: Any) -> bool:
    """Whether a message is of this format; others have thoughts among their blocks, too."""
    if any(map(_is_own, _kinds(message))):
        return True
    return not _REASONING.isdisjoint(_kinds(message)) and not message.get("tool_calls")


def in_blocks(entry: ConversationEntry, others: bool = False) -> bool:
    """Whether an entry is written in this format: its calls say so, else its message.

    An invented call is where `others` of the conversation are.
    """
    if entry.tool_calls:
        for call in entry.tool_calls:
            if call.extra is not None and "anthropic" in call.extra:
                return True
        return others and entry.source is None
    if entry.source is None:
        return False
    return entry.span is not None or speaks_blocks(entry.source)


def read_blocks(
    message: Mapping[str, Any], role: MessageRole, reading: Reading
) -> tuple[ConversationEntry, ...]:
    """Split a message of blocks: each tool result is an entry, what lies between is one."""
    if speaks_blocks(message) and message.get("tool_calls"):
        reading.repaired("tool_calls: the message keeps its calls as blocks")
    groups = _split(message["content"], role)
    entries = [
        _read_result(message, blocks[0], reading, f"content[{start}]")
        if is_result
        else _read_said(message, role, blocks, reading, start)
        for is_result, start, blocks in groups
    ]
    if len(entries) > 1:
        for place, entry in enumerate(entries):
            object.__setattr__(entry, "span", (place, len(entries)))  # still private to us
    return tuple(entries)


def _split(blocks: Sequence[Any], role: MessageRole) -> Groups:
    return split(
        blocks, lambda block: role is not MessageRole.ASSISTANT and type_of(block) == "tool_result"
    )


def _read_said(
    message: Mapping[str, Any],
    role: MessageRole,
    blocks: Sequence[Any],
    reading: Reading,
    start: int,
) -> ConversationEntry:
    fields = said(_slots(blocks, reading, start))
    return entry_of(
        message,
        role,
        fields["content"],
        fields["parts"],
        reading,
        calls=fields["tool_calls"] or (),
        reasoning=fields["reasoning"] or (),
        known=_KEYS if speaks_blocks(message) else KNOWN_KEYS,
        barrier=any(type_of(block) == "compaction" for block in blocks),
    )


def _slots(blocks: Sequence[Any], reading: Reading, start: int = 0) -> Slots:
    found: Slots = []
    for at, block in enumerate(blocks, start):
        kind, field = type_of(block), f"content[{at}]"
        if kind == "tool_use":
            found.append(("call", _read_call(block, reading, field)))
        elif kind in _REASONING and not _is_thought(block):
            reading.repaired(f"{field}: a thought without text, which is left out")
        elif kind in _REASONING:
            found.append(("thought", reasoning_block(reading.checked(block, field))))
        else:
            found.append(("part", read_part(block, reading.index, field, reading)))
    return found


def _read_call(block: Mapping[str, Any], reading: Reading, field: str) -> ToolCall:
    block = reading.checked(block, field)
    kept = {key: block[key] for key in block if key not in ("type", "id", "name", "input")}
    return ToolCall(
        reading.name_of(block.get("id"), f"{field}.id", "the call id"),
        reading.name_of(block.get("name"), f"{field}.name", "the name of the tool"),
        reading.object_text(block.get("input"), f"{field}.input"),
        {"anthropic": kept} if kept else _CALL,
    )


def _is_thought(block: Mapping[str, Any]) -> bool:
    """Whether a block of thinking holds what such blocks hold."""
    kind, signature = block["type"], block.get("signature")
    if kind == "reasoning":
        return True
    if kind == "redacted_thinking":
        return isinstance(block.get("data"), str)
    held = block.get("thinking")  # a list of texts, as Mistral writes it
    return isinstance(held, (str, list)) and (signature is None or isinstance(signature, str))


def reasoning_block(block: Mapping[str, Any]) -> Reasoning:
    """Read one thinking block."""
    text = block.get("thinking", block.get("text", block.get("reasoning")))
    if isinstance(text, (list, tuple)):  # chunks of text, as some providers stream them
        chunks = (each.get("text") if isinstance(each, Mapping) else each for each in text)
        text = "".join(chunk for chunk in chunks if isinstance(chunk, str))
    encrypted = block.get("type") == "redacted_thinking" or "encrypted_content" in block
    signature = block.get("signature", block.get("data", block.get("encrypted_content")))
    return Reasoning(
        text if isinstance(text, str) else None,
        signature if isinstance(signature, str) else None,
        block,
        encrypted,
    )


def _read_result(
    message: Mapping[str, Any], block: Mapping[str, Any], reading: Reading, field: str
) -> ConversationEntry:
    mine = Reading(reading.index)
    block = mine.checked(block, field)
    content = block.get("content")
    parts: tuple[ContentPart, ...] | None = None
    if isinstance(content, (list, tuple)):
        field = f"{field}.content"
        parts = tuple(read_part(item, mine.index, field, mine) for item in content)
        content = join_text(parts)
    elif content is not None and not isinstance(content, str):
        fix = "make it a string or a list of blocks."
        raise mine.mistyped("the tool result", content, f"{field}.content", fix)
    call_id = block.get("tool_use_id")
    if call_id is not None:
        call_id = mine.name_of(call_id, f"{field}.tool_use_id", "the call id")
    extra = {key: value for key, value in message.items() if key not in _KEYS}
    return new_entry(
        MessageRole.TOOL,
        content,
        mine.index,
        message,
        tool_call_id=call_id,
        parts=parts,
        status="error" if block.get("is_error") else None,
        span=(0, 1),
        metadata=extra or None,
        seldom={"repairs": mine.note} if mine.repairs else None,
    )


def write_said(entry: ConversationEntry, known: Known | None = None) -> dict[str, Any]:
    """Return a message with the blocks of its source in their order, the edited ones replaced."""
    source = entry.source if speaks_blocks(entry.source) else {}
    message = {key: value for key, value in source.items() if is_kept(key, entry, _KEYS)}
    message["role"] = entry.role.value
    message["content"] = written_blocks(entry, entry.tool_calls or (), known)
    return message


def written_blocks(
    entry: ConversationEntry, calls: Sequence[ToolCall], known: Known | None = None
) -> list[Any]:
    """Return what an entry says, and these calls, as blocks."""
    known = {} if known is None else known
    made = arranged(entry, calls, known, lambda: _slots(_own_blocks(entry.root, known), Reading(0)))
    return [_write(kind, item) for kind, item in made]


def _own_blocks(root: ConversationEntry, known: Known) -> Sequence[Any]:
    source = root.source
    return own_group(
        root, known, lambda: _split(source["content"], root.role) if has_blocks(source) else []
    )


def _write(kind: str, item: Any) -> Any:
    if kind == "part":
        return write_part(item)
    if kind == "thought":
        return item.raw if item.raw is not None else {"type": "thinking", "thinking": item.text}
    return {
        "type": "tool_use",
        "id": item.id,
        "name": item.name,
        "input": parse_object(item.arguments) or {},
        **((item.extra or {}).get("anthropic") or {}),
    }


def write_results(entries: Sequence[ConversationEntry], known: Known) -> dict[str, Any]:
    """Return one user message with results, and what else their source message held."""
    sources = [entry.source for entry in entries]
    shared = sources[0] if speaks_blocks(sources[0]) else {}
    if any(source is not sources[0] for source in sources):
        shared = {}
    kept = {key: value for key, value in shared.items() if is_kept(key, entries[0], _KEYS)}
    blocks = [_write_result(entry, known) for entry in entries]
    return {**kept, "role": "user", "content": blocks}


def _write_result(entry: ConversationEntry, known: Known) -> dict[str, Any]:
    root = entry.root
    found = _own_blocks(root, known) if root.role is MessageRole.TOOL else ()
    recorded = mapping(found[0]) if found else {}
    block: dict[str, Any] = {
        **recorded,
        "type": "tool_result",
        "tool_use_id": entry.tool_call_id,
    }
    if not (is_as_read(entry) and "content" in recorded):
        if entry.parts is not None:
            block["content"] = [write_part(part) for part in text_first(entry)]
        else:
            block["content"] = entry.content or ""
    if entry.status == "error":
        block["is_error"] = True
    return block


def _kinds(message: Any) -> Iterable[str]:
    content = message.get("content") if isinstance(message, Mapping) else None
    return map(type_of, content) if isinstance(content, (list, tuple)) else ()


def _is_own(kind: str) -> bool:
    return kind in _OWN or kind.endswith("_tool_result")
