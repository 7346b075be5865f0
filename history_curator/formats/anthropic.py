"""Messages as dicts with a role and content: Anthropic and Chat Completions, also in one list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, cast
from uuid import UUID

from history_curator.entries import ContentPart, ConversationEntry, MessageRole, Reasoning, ToolCall
from history_curator.errors import ConversionError
from history_curator.formats.base import Reading, as_mapping, copy_value, count_untouched, type_of
from history_curator.formats.block_format import BlockFormat, BlockKind, Groups
from history_curator.formats.blocks import (
    join_text,
    read_part,
    read_thinking,
    update_text,
    write_part,
)
from history_curator.formats.json_text import parse_object
from history_curator.formats.openai_chat import (
    KNOWN_KEYS,
    PlainMessages,
    build_entry,
    is_sent,
    read_message,
    read_role,
    write_message,
)

_KEYS = frozenset(("role", "content"))
_TOOL, _ASSISTANT = MessageRole.TOOL, MessageRole.ASSISTANT
_REASONING = frozenset(("thinking", "redacted_thinking", "reasoning"))
_OWN = frozenset(
    [
        "tool_use",
        "tool_result",
        "server_tool_use",
        "mcp_tool_use",
        "compaction",
        "container_upload",
        "search_result",
    ]
)
"""Blocks that only Anthropic has."""
_CALL: Mapping[str, Any] = {"anthropic": {}}
"""The `extra` of a call that has nothing beside it: whose call it is."""


class DictFormat(PlainMessages, BlockFormat):
    """Messages as dicts, as the OpenAI and Anthropic clients take them.

    Each message is written in the style it was read in, and a result in the style of its call. At
    Anthropic, calls, results and thinking are blocks of the content, and results speak as the user.
    """

    name = "dicts"

    def read_message(self, message: Any, reading: Reading) -> tuple[ConversationEntry, ...]:
        """Read a dict; one without blocks is of Chat Completions."""
        content = message.get("content") if isinstance(message, Mapping) else ()
        if not isinstance(content, (list, tuple)):
            return (read_message(message, read_role(message, reading), reading),)
        is_anthropic = speaks_anthropic(message)
        reading.known = _KEYS if is_anthropic else KNOWN_KEYS
        if is_anthropic and message.get("tool_calls"):
            reading.repairs.append("tool_calls: the message keeps its calls as blocks")
        return super().read_message(message, reading)

    def _read_role(self, message: Mapping[str, Any], reading: Reading) -> MessageRole:
        role = read_role(message, reading)
        if role is _TOOL and "tool_result" in map(type_of, message["content"]):
            reading.repairs.append(f"role: {message['role']!r} is read as user: results are blocks")
            return MessageRole.USER
        return role

    def _read_blocks(self, message: Mapping[str, Any], reading: Reading) -> Sequence[Any]:
        given = message["content"]
        if isinstance(given, str):
            return ()
        for place, block in enumerate(given):
            reading.check_json(block, f"content[{place}]")
        return cast("Sequence[Any]", given)

    def _read_group(
        self, blocks: Sequence[Any], role: MessageRole, reading: Reading, start: int
    ) -> dict[str, Any]:
        """Return the fields of an entry that is no result; calls and thoughts of anybody's."""
        fields = super()._read_group(blocks, _ASSISTANT, reading, start)
        # A compaction without content failed, and what was before it is sent on.
        is_barrier = any(
            type_of(block) == "compaction" and block.get("content") for block in blocks
        )
        return {**fields, "barrier": is_barrier}

    def _build_entry(
        self, message: Mapping[str, Any], reading: Reading, **fields: Any
    ) -> ConversationEntry:
        """Return an entry, with what the message says beside its blocks."""
        if "tool_call_id" not in fields:
            return build_entry(message, reading=reading, known=reading.known, **fields)
        fields["span"] = fields["span"] or (0, 1)
        return super()._build_entry(message, reading, **fields)

    def write_mixed(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return dicts, each in the style of its own; untouched ones are the same objects."""
        out: list[Any] = []
        groups: Groups = {}
        read = (each for each in entries if each.tool_calls and each.source is not None)
        first = next(read, None)
        prefer = first is not None and _is_in_blocks(first, prefer=False)
        answers_in_blocks: bool | None = None
        position = 0
        while position < len(entries):
            entry = entries[position]
            is_tool, was_block = entry.role is _TOOL, entry.span is not None
            if not is_tool:
                answers_in_blocks = (
                    _is_in_blocks(entry, prefer=prefer) if entry.tool_calls else None
                )
            untouched = count_untouched(entries, position)
            end = position + (untouched or 1)
            if untouched and (was_block or not answers_in_blocks or not is_tool):
                out.append(entry.source)
            elif is_tool and (was_block if answers_in_blocks is None else answers_in_blocks):
                end = _end_of_results(entries, position)
                out.append(copy_value(self._write_user(entries[position:end], groups)))
            else:
                end = position + 1
                out.append(copy_value(self._write_dict(entry, groups, prefer=prefer)))
            position = end
        return out

    def _write_dict(
        self, entry: ConversationEntry, groups: Groups, *, prefer: bool
    ) -> dict[str, Any]:
        is_anthropic = speaks_anthropic(entry.source)
        source = as_mapping(entry.source)
        if entry.role is _ASSISTANT and _is_in_blocks(entry, prefer=prefer):
            known = source if is_anthropic else {}
            message = {key: known[key] for key in known if is_sent(key, entry, _KEYS)}
            return {
                **message,
                "role": entry.role.value,
                "content": self._write_blocks(entry, groups),
            }
        reasoning, content = entry.reasoning or (), source.get("content") or ()
        if entry.parts is not None and reasoning and reasoning[0].raw in content:
            blocks = self._write_blocks(entry, groups, calls=False)
            return write_message(entry, patch=not is_anthropic, blocks=blocks)
        return write_message(entry, patch=not is_anthropic)

    def _write_user(self, results: Sequence[ConversationEntry], groups: Groups) -> dict[str, Any]:
        """Write results as one user message, with the fields of the message they all stood in."""
        source = results[0].source
        fields: dict[str, Any] = {}
        if speaks_anthropic(source) and all(entry.source is source for entry in results):
            fields = {key: source[key] for key in source if is_sent(key, results[0], _KEYS)}
        return {**fields, "role": "user", "content": self._write_results(results, {}, groups)}

    def _kind_of(self, block: Any) -> BlockKind:
        kind = type_of(block)
        if kind == "tool_use":
            return "call"
        if kind == "tool_result":
            return "result"
        return "reasoning" if kind in _REASONING else "part"

    def _read_call(self, block: Mapping[str, Any], reading: Reading, field: str) -> ToolCall:
        extra = {key: block[key] for key in block if key not in ("type", "id", "name", "input")}
        return ToolCall(
            reading.text_of(block.get("id"), f"{field}.id"),
            reading.text_of(block.get("name"), f"{field}.name"),
            reading.object_text(block.get("input"), f"{field}.input"),
            {"anthropic": extra} if extra else _CALL,
        )

    def _read_result(
        self, block: Mapping[str, Any], reading: Reading, field: str
    ) -> dict[str, Any]:
        content, parts = block.get("content"), None
        if isinstance(content, (list, tuple)):
            parts = tuple(
                [read_part(b, reading.index, f"{field}.content", typed=True) for b in content]
            )
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

    def _read_reasoning(self, block: Mapping[str, Any], reading: Reading, field: str) -> Reasoning:
        key = "data" if block["type"] == "redacted_thinking" else "thinking"
        if block["type"] != "reasoning":
            reading.require(block.get(key), (str, list), f"{field}.{key}")
        return read_thinking(block)

    def _read_part(self, block: Any, reading: Reading, field: str) -> ContentPart:
        return read_part(block, reading.index, field, typed=True)

    def _write_part(self, part: ContentPart) -> Any:
        return write_part(part)

    def _write_call(self, call: ToolCall) -> dict[str, Any]:
        block = {"type": "tool_use", "id": call.id, "name": call.name}
        extra = (call.extra or {}).get("anthropic") or {}
        return {**block, "input": parse_object(call.arguments) or {}, **extra}

    def _write_result(
        self, entry: ConversationEntry, recorded: Mapping[str, Any], call: ToolCall | None
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


def _is_in_blocks(entry: ConversationEntry, *, prefer: bool) -> bool:
    """Return whether an entry is written in blocks: its calls say so, else its message.

    An invented call is written as the calls that were read are, which `prefer` tells.
    """
    if entry.tool_calls:
        if any("anthropic" in (call.extra or ()) for call in entry.tool_calls):
            return True
        return prefer and entry.source is None
    return entry.source is not None and (entry.span is not None or speaks_anthropic(entry.source))


def speaks_anthropic(message: Any) -> bool:
    """Return whether a message is of Anthropic; others have thinking among their blocks, too."""
    content = as_mapping(message).get("content")
    blocks = content if isinstance(content, (list, tuple)) else ()
    if any(kind in _OWN or kind.endswith("_tool_result") for kind in map(type_of, blocks)):
        return True
    thinks = any(kind in _REASONING for kind in map(type_of, blocks))
    return thinks and not message.get("tool_calls")


def _end_of_results(entries: Sequence[ConversationEntry], position: int) -> int:
    """Return where a run of results ends that are written as one message."""
    end = position + 1
    while (
        end < len(entries)
        and entries[end].role is _TOOL
        and not (entries[end].span is not None and count_untouched(entries, end))
    ):
        end += 1
    return end


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
