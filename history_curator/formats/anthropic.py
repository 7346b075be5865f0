"""Messages as dicts with a role and content: Anthropic and Chat Completions, also in one list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

from history_curator.entries import ContentPart, ConversationEntry, MessageRole, Reasoning, ToolCall
from history_curator.errors import ConversionError
from history_curator.formats.base import Reading, as_mapping, copy_value, count_untouched, type_of
from history_curator.formats.blocks import (
    Block,
    BlockFormat,
    BlockKind,
    Entries,
    Writing,
    join_text,
    read_call,
    read_part,
    read_thinking,
    update_text,
    write_call,
    write_part,
)
from history_curator.formats.openai_chat import (
    KNOWN_KEYS,
    build_entry,
    is_sent,
    read_role,
    write_message,
)

_KEYS = frozenset(("role", "content"))
_TOOL, _ASSISTANT = MessageRole.TOOL, MessageRole.ASSISTANT
_REASONING = ("thinking", "redacted_thinking", "reasoning")
_BLOCKS: dict[str, BlockKind] = {"tool_use": "call", "tool_result": "result"}
_BLOCKS |= dict.fromkeys(_REASONING, "reasoning")
_OWN = frozenset(("tool_use", "tool_result", "server_tool_use", "mcp_tool_use", "compaction"))
_OWN |= {"container_upload", "search_result"}
"""Blocks that only Anthropic has."""


class DictFormat(BlockFormat):
    """Messages as dicts, as the OpenAI and Anthropic clients take them.

    Each message is written in the style it was read in, and a result in the style of its call. At
    Anthropic, calls, results and thinking are blocks of the content, and results speak as the user.
    """

    name = "dicts"
    anybody_calls = True

    def read_message(self, message: Any, reading: Reading) -> tuple[ConversationEntry, ...]:
        """Read a dict; one without blocks is of Chat Completions."""
        content = message.get("content")
        if not isinstance(content, (list, tuple)):
            return (self._read_text(message, content, reading),)
        is_anthropic = speaks_anthropic(message)
        reading.known = _KEYS if is_anthropic else KNOWN_KEYS
        if is_anthropic and message.get("tool_calls"):
            reading.repairs.append("tool_calls: the message keeps its calls as blocks")
        return super().read_message(message, reading)

    def _read_text(self, message: Block, content: Any, reading: Reading) -> ConversationEntry:
        """Read a message whose content is one text, or none."""
        role = read_role(message, reading)
        if content is not None:
            reading.require(content, str, "content")
        if "content" not in message and role in (MessageRole.USER, MessageRole.SYSTEM):
            fix = "add the text, or leave the message out."
            raise reading.error(f"a {role} message has no content.", "content", fix)
        return build_entry(message, role, reading, content)

    def _read_role(self, message: Mapping[str, Any], reading: Reading) -> MessageRole:
        role = read_role(message, reading)
        if role is _TOOL and "tool_result" in map(type_of, message["content"]):
            reading.repairs.append(f"role: {message['role']!r} is read as user: results are blocks")
            return MessageRole.USER
        return role

    def _build_entry(self, message: Block, reading: Reading, **fields: Any) -> ConversationEntry:
        """Return an entry, with the keys of the message beside its blocks."""
        if "tool_call_id" in fields:
            return super()._build_entry(message, reading, **fields)
        blocks = [as_mapping(part.raw) for part in fields["parts"]]
        # A compaction without content failed, and what was before it is sent on.
        fields["barrier"] = any(b.get("type") == "compaction" and b.get("content") for b in blocks)
        return build_entry(message, reading=reading, known=reading.known, **fields)

    def _count_results(self, writing: Writing, position: int) -> int:
        """Return how many results from a position on are written as one message of blocks."""
        entries, asked, end = writing.entries, writing.asked, position
        in_blocks = entries[position].span is not None
        if asked is not None and asked.tool_calls:
            if id(asked) not in writing.in_blocks:  # once for all of its results
                writing.in_blocks[id(asked)] = _is_in_blocks(asked, writing)
            in_blocks = writing.in_blocks[id(asked)]
        while in_blocks and end < len(entries) and entries[end].role is _TOOL:
            if entries[end].span is not None and count_untouched(entries, end):
                break
            end += 1
        return end - position

    def _write_entry(self, entry: ConversationEntry, writing: Writing) -> dict[str, Any]:
        is_anthropic = entry.span is not None or speaks_anthropic(entry.source)
        source = as_mapping(entry.source)
        if entry.role is _ASSISTANT and _is_in_blocks(entry, writing):
            known = source if is_anthropic else {}
            message = {key: known[key] for key in known if is_sent(key, entry, _KEYS)}
            message |= {"role": entry.role.value, "content": self._write_blocks(entry, writing)}
            return message
        reasoning, content = entry.reasoning or (), source.get("content") or ()
        blocks: list[Any] | None = None
        if entry.parts is not None and reasoning and reasoning[0].raw in content:
            blocks = self._write_blocks(entry, writing, calls=False)
        return write_message(entry, patch=not is_anthropic, blocks=blocks)

    def _write_results(self, results: Entries, writing: Writing) -> dict[str, Any]:
        """Write results as one user message, with the fields of the message they all stood in."""
        source = results[0].source
        fields: dict[str, Any] = {}
        if speaks_anthropic(source) and all(entry.source is source for entry in results):
            fields = {key: source[key] for key in source if is_sent(key, results[0], _KEYS)}
        return fields | super()._write_results(results, writing)

    def _role_name(self, role: MessageRole, entry: ConversationEntry) -> str:
        return role.value

    def _kind_of(self, block: Any) -> BlockKind:
        return _BLOCKS.get(type_of(block), "part")

    def _read_call(self, block: Block, reading: Reading, field: str) -> ToolCall:
        return read_call(block, "anthropic", "id", reading, field)

    def _read_result(self, block: Block, reading: Reading, field: str) -> dict[str, Any]:
        content, parts = block.get("content"), None
        if isinstance(content, (list, tuple)):
            parts = tuple([self._read_part(b, reading, f"{field}.content") for b in content])
            content = join_text(parts)
        elif content is not None:
            reading.require(content, str, f"{field}.content")
        call_id = block.get("tool_use_id")
        return {
            "content": content,
            "parts": parts,
            "tool_call_id": None if call_id is None else reading.text_of(call_id, field),
            "status": "error" if block.get("is_error") else None,
        }

    def _read_reasoning(self, block: Block, reading: Reading, field: str) -> Reasoning:
        key = "data" if block["type"] == "redacted_thinking" else "thinking"
        if block["type"] != "reasoning":
            reading.require(block.get(key), (str, list), f"{field}.{key}")
        return read_thinking(block)

    def _read_part(self, block: Any, reading: Reading, field: str) -> ContentPart:
        return read_part(block, reading.index, field, typed=True)

    def _write_part(self, part: ContentPart) -> Any:
        return write_part(part)

    def _write_call(self, call: ToolCall) -> dict[str, Any]:
        return {"type": "tool_use", **write_call(call, "anthropic", "id")}

    def _write_result(
        self, entry: ConversationEntry, recorded: Block, call: ToolCall | None
    ) -> dict[str, Any]:
        root = entry.root
        own = recorded if type_of(recorded) == "tool_result" else {}
        block = {**own, "type": "tool_result", "tool_use_id": entry.tool_call_id}
        is_edited = entry.content != root.content or entry.parts != root.parts
        if is_edited or root.repairs is not None or "content" not in own:
            block["content"] = entry.content or ""
            if entry.parts is not None:
                block["content"] = [write_part(part) for part in update_text(entry)]
        if entry.status != root.status:
            block.pop("is_error", None)
        return block | {"is_error": True} if entry.status == "error" else block


def _is_in_blocks(entry: ConversationEntry, writing: Writing) -> bool:
    """Return whether an entry is written in blocks: its calls say so, else its message.

    An invented call is written as the first calls that were read.
    """
    if not entry.tool_calls:
        is_read = entry.source is not None
        return is_read and (entry.span is not None or speaks_anthropic(entry.source))
    if any("anthropic" in (call.extra or ()) for call in entry.tool_calls):
        return True
    read = (each for each in writing.entries if each.tool_calls and each.source is not None)
    first = next(read, None) if entry.source is None else None
    return first is not None and _is_in_blocks(first, writing)


def speaks_anthropic(message: Any) -> bool:
    """Return whether a message is of Anthropic; others have thinking among their blocks, too."""
    content = as_mapping(message).get("content")
    blocks = content if isinstance(content, (list, tuple)) else ()
    kinds = set(map(type_of, blocks))
    if any(kind in _OWN or kind.endswith("_tool_result") for kind in kinds):
        return True
    return not kinds.isdisjoint(_REASONING) and not message.get("tool_calls")


def entry_to_provider_message(entry: ConversationEntry) -> dict[str, Any]:
    """Return an entry as an OpenAI-style message, a new dict."""
    return copy_value(write_message(entry))  # type: ignore[no-any-return]


def provider_message_to_entry(
    msg: Mapping[str, Any],
    *,
    evaluation_id: UUID | None = None,
    sequence: int = 0,
    created_at: datetime | None = None,
) -> ConversationEntry:
    """Return one OpenAI-style message as an entry.

    Raises:
        ConversionError: when the message cannot be read, or holds more than one entry.
    """
    entries = DictFormat().read(msg, sequence)
    if len(entries) != 1:
        problem = f"the message holds {len(entries)} entries (tool results and text)."
        fix = "read it with Curator, or pass one message per tool result."
        raise ConversionError(problem, index=sequence, field="content", fix=fix)
    created_at = created_at or datetime.now(timezone.utc)
    return replace(
        entries[0], evaluation_id=evaluation_id, sequence=sequence, created_at=created_at
    )
