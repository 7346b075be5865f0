"""Messages as dicts with a role and content: Anthropic and Chat Completions, also in one list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

from history_curator.entries import ContentPart, ConversationEntry, MessageRole
from history_curator.errors import ConversionError
from history_curator.formats.base import (
    MappingFormat,
    Reading,
    copy_value,
    count_untouched,
    type_of,
)
from history_curator.formats.blocks import (
    TypedBlocks,
    entry_fields,
    join_text,
    read_part,
    speaks_anthropic,
    update_text,
    write_part,
)
from history_curator.formats.openai_chat import (
    KNOWN_KEYS,
    build_entry,
    is_sent,
    read_message,
    read_plain,
    read_role,
    write_message,
)

_KEYS = frozenset(("role", "content"))
_TOOL = MessageRole.TOOL


class DictFormat(TypedBlocks, MappingFormat):
    """Messages as dicts, as the OpenAI and Anthropic clients take them.

    Each message is written in the style it was read in, and a result in the style of its call. At
    Anthropic, calls, results and thinking are blocks of the content, and results speak as the user.

    Examples:
        >>> entries = DictFormat().read({"role": "user", "content": "hi"}, 0)
        >>> entries[0].role, entries[0].content
        (<MessageRole.USER: 'user'>, 'hi')
    """

    name = "dicts"

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entries of one dict."""
        plain = read_plain(message, index)
        return super().read(message, index) if plain is None else (plain,)

    def read_message(self, message: Any, reading: Reading) -> tuple[ConversationEntry, ...]:
        """Read a dict: each tool result among its blocks is an entry, what lies between is one."""
        if not isinstance(message, Mapping):
            fix = 'pass {"role": …, "content": …}; one list holds one kind of message.'
            raise reading.error(f"expected a mapping, got {type(message).__name__}.", None, fix)
        role = read_role(message, reading)
        blocks = message.get("content")
        if not isinstance(blocks, (list, tuple)):
            return (read_message(message, role, reading),)
        is_anthropic = speaks_anthropic(message)
        known = _KEYS if is_anthropic else KNOWN_KEYS
        if is_anthropic and message.get("tool_calls"):
            reading.note_repair("tool_calls: the message keeps its calls as blocks")
        groups = self.split(blocks, role) or [(False, 0, [])]
        entries = []
        for k, (is_result, start, group) in enumerate(groups):
            span = (k, len(groups)) if len(groups) > 1 else None
            if is_result:
                entries.append(_read_result(message, group[0], reading, start, span or (0, 1)))
                continue
            fields = entry_fields(self.read_slots(group, reading, "content", start))
            fields["barrier"] = any(type_of(block) == "compaction" for block in group)
            entries.append(build_entry(message, role, reading, **fields, known=known, span=span))
        return tuple(entries)

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return dicts; untouched ones are the same objects."""
        out: list[Any] = []
        last: list[Any] = []
        first = next(
            (each for each in entries if each.tool_calls and each.source is not None), None
        )
        prefer_blocks = first is not None and _is_in_blocks(first, prefer=False)
        answers_in_blocks: bool | None = None
        position = 0
        while position < len(entries):
            entry = entries[position]
            is_tool = entry.role is _TOOL
            if not is_tool:
                answers_in_blocks = None
                if entry.tool_calls:
                    answers_in_blocks = _is_in_blocks(entry, prefer=prefer_blocks)
            was_block = entry.span is not None
            untouched = count_untouched(entries, position)
            end = position + (untouched or 1)
            if untouched and (was_block or not answers_in_blocks or not is_tool):
                out.append(entry.source)
            elif is_tool and (was_block if answers_in_blocks is None else answers_in_blocks):
                end = _end_of_results(entries, position)
                out.append(copy_value(self._write_results(entries[position:end], last)))
            else:
                end = position + 1
                out.append(copy_value(self._write_entry(entry, prefer_blocks, last)))
            position = end
        return out

    def _write_entry(self, entry: ConversationEntry, prefer: bool, last: list[Any]) -> Any:
        is_anthropic = speaks_anthropic(entry.source)
        if entry.role is not MessageRole.ASSISTANT or not _is_in_blocks(entry, prefer=prefer):
            return write_message(entry, patch=not is_anthropic)
        source = entry.source if is_anthropic else {}
        message = {key: value for key, value in source.items() if is_sent(key, entry, _KEYS)}
        blocks = self.own_blocks(entry.root, last)
        recorded = self.read_slots(blocks, Reading(0), "content", 0)
        calls, reasoning = entry.tool_calls or (), entry.reasoning or ()
        content = self.write_slots(entry, recorded, calls, reasoning)
        return {**message, "role": entry.role.value, "content": content}

    def _write_results(
        self, entries: Sequence[ConversationEntry], last: list[Any]
    ) -> dict[str, Any]:
        """Write results as one user message, with the fields of the message they all stood in."""
        source = entries[0].source
        fields: dict[str, Any] = {}
        if speaks_anthropic(source) and all(entry.source is source for entry in entries):
            fields = {key: source[key] for key in source if is_sent(key, entries[0], _KEYS)}
        blocks = [self._write_result(entry, last) for entry in entries]
        return {**fields, "role": "user", "content": blocks}

    def _write_result(self, entry: ConversationEntry, last: list[Any]) -> dict[str, Any]:
        root = entry.root
        own = self.own_blocks(root, last) if root.role is _TOOL else ()
        recorded = own[0] if own and type_of(own[0]) == "tool_result" else {}
        block = {**recorded, "type": "tool_result", "tool_use_id": entry.tool_call_id}
        is_edited = entry.content != root.content or entry.parts != root.parts
        if is_edited or root.repairs is not None or "content" not in recorded:
            block["content"] = entry.content or ""
            if entry.parts is not None:
                block["content"] = [write_part(part) for part in update_text(entry)]
        if entry.status == "error":
            block["is_error"] = True
        return block


def _is_in_blocks(entry: ConversationEntry, *, prefer: bool) -> bool:
    """Return whether an entry is written in blocks: its calls say so, else its message.

    An invented call is written as the calls that were read are, which `prefer` tells.
    """
    if entry.tool_calls:
        if any("anthropic" in (call.extra or ()) for call in entry.tool_calls):
            return True
        return prefer and entry.source is None
    return entry.source is not None and (entry.span is not None or speaks_anthropic(entry.source))


def _read_result(
    message: Mapping[str, Any], block: Mapping[str, Any], given: Reading, start: int, span: Any
) -> ConversationEntry:
    reading = Reading(given.index)  # what is repaired in a result is noted on its own entry
    field = f"content[{start}]"
    block = reading.clean_value(block, field)
    content = block.get("content")
    parts: tuple[ContentPart, ...] | None = None
    if isinstance(content, (list, tuple)):
        parts = tuple([read_part(b, given.index, f"{field}.content", reading) for b in content])
        content = join_text(parts)
    elif content is not None and not isinstance(content, str):
        fix = "make it a string or a list of blocks."
        raise reading.type_error("the tool result", content, f"{field}.content", fix)
    call_id = block.get("tool_use_id")
    if call_id is not None:
        call_id = reading.text_of(call_id, f"{field}.tool_use_id", "the call id")
    return ConversationEntry(
        _TOOL,
        content,
        sequence=given.index,
        source=message,
        tool_call_id=call_id,
        parts=parts,
        status="error" if block.get("is_error") else None,
        span=span,
        metadata={key: value for key, value in message.items() if key not in _KEYS} or None,
        repairs=reading.note,
    )


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
    """Return an entry as an OpenAI-style message, a new dict.

    Examples:
        >>> entry_to_provider_message(ConversationEntry(MessageRole.USER, "hi"))
        {'role': 'user', 'content': 'hi'}
    """
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
    return replace(
        entries[0],
        evaluation_id=evaluation_id,
        sequence=sequence,
        created_at=created_at or datetime.now(timezone.utc),
    )
