"""OpenAI Responses items: reasoning, text, calls and outputs are items of one flat list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from history_curator.formats._chat import ROLES, entry_of, is_kept, read_role
from history_curator.formats._dicts import whole_source
from history_curator.formats._fields import Reading, mapping, type_of
from history_curator.formats._parts import join_text, text_first
from history_curator.formats._protocol import Gathered, GatheredDicts
from history_curator.formats._response_answers import (
    MESSAGE_KEYS,
    SERVER_ITEMS,
    fields_of,
    own_output,
    read_slots,
    write_answer,
)
from history_curator.formats._response_calls import (
    CALL_TYPES,
    OUTPUT_TYPES,
    answers,
    read_output,
    read_parts,
    write_output,
    write_part,
)
from history_curator.formats._slots import Known, said
from history_curator.errors import named
from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    ToolCall,
    new_entry,
)

RESPONSE_ITEMS = frozenset(
    (*CALL_TYPES, *OUTPUT_TYPES, *SERVER_ITEMS, "reasoning", "compaction", "item_reference")
)
"""Types of items that no other format has."""
_TOOL, _ASSISTANT = MessageRole.TOOL, MessageRole.ASSISTANT
_ALONE = {"compaction": _ASSISTANT, "compaction_trigger": MessageRole.USER}
_ALONE["additional_tools"] = MessageRole.SYSTEM


class ResponsesFormat(GatheredDicts):
    """Items as the ``input`` of a Responses request takes them.

    What the model put out in one go (reasoning, text, calls) is one entry, so that a reasoning
    item and the items behind it stay together; where the reasoning is taken off, the ids behind it
    go, too. Calls of every kind pair with their outputs: function, custom, computer, shell, patch
    and the approval of an MCP call. A ``compaction`` item is a barrier.

    Examples:
        >>> items = [
        ...     {"type": "reasoning", "id": "rs_1", "summary": []},
        ...     {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        ... ]
        >>> format = ResponsesFormat()
        >>> (together,) = format.gather(items)
        >>> [entry.tool_calls[0].name for entry in format.read(together, 0)]
        ['look']
    """

    name = "responses"

    def gather(self, messages: Sequence[Any]) -> Sequence[Any]:
        """The output items of one answer belong together.

        So does everything from a program to its output: the calls it makes in between, too.
        Messages without a type, as one writes them by hand, are answers of their own where only
        such stand side by side.
        """
        out: list[Any] = []
        held: list[Any] = []
        running: set[str] = set()
        for item in messages:
            kind = type_of(item)
            if kind == "program":
                running.add(_id_of(item))
            inside = bool(running) and kind in OUTPUT_TYPES
            if not (_is_output(item) or inside):
                _close(held, out)
                running.clear()
                out.append(item)
                continue
            held.append(item)
            if kind == "program_output":
                running.discard(_id_of(item))
        _close(held, out)
        return messages if len(out) == len(messages) else out

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entries of an item, or of items that belong together."""
        reading = Reading(index)
        if message.__class__ is Gathered:
            return self._read_answer(message, message, reading)
        if not isinstance(message, Mapping):
            raise reading.error(
                f"expected a mapping, got {type(message).__name__}.",
                None,
                "pass items of a Responses input; one list holds one kind of message.",
            )
        kind = type_of(message)
        if kind in OUTPUT_TYPES:
            return (read_output(message, message, kind, reading),)
        if _is_output(message):
            return self._read_answer(message, (message,), reading)
        if kind in _ALONE:
            part = ContentPart("other", None, reading.checked(message, kind))
            seldom: dict[str, Any] = {"barrier": True} if kind == "compaction" else {}
            if reading.repairs:
                seldom["repairs"] = reading.note
            return (
                new_entry(
                    _ALONE[kind],
                    None,
                    index,
                    message,
                    parts=(part,),
                    pinned="barrier" in seldom,
                    seldom=seldom or None,
                ),
            )
        return (self._read_said(message, reading),)

    def _read_said(self, message: Mapping[str, Any], reading: Reading) -> ConversationEntry:
        if "role" not in message:
            raise reading.error(
                f"an item of an unknown type: {named(message.get('type'))}.",
                "type",
                "use an item of a Responses input, or add a role to a message.",
            )
        role = read_role(message, reading)
        fields_of(message, reading)
        if role is _TOOL:
            raise reading.error(
                "a tool result has no role in this format.",
                "role",
                'use {"type": "function_call_output", "call_id": …, "output": …}.',
            )
        content = message.get("content")
        if isinstance(content, (list, tuple)):
            parts = tuple(read_parts(content, reading, "content"))
            return entry_of(message, role, join_text(parts), parts, reading, known=MESSAGE_KEYS)
        if not isinstance(content, str):
            raise reading.missing(content, "content", "make it a string or a list of blocks.")
        return entry_of(message, role, content, None, reading, known=MESSAGE_KEYS)

    def _read_answer(
        self, message: Any, items: Sequence[Any], reading: Reading
    ) -> tuple[ConversationEntry, ...]:
        fields = said(read_slots(items, reading))
        if len(items) == 1 and isinstance(mapping(items[0]).get("content"), str):
            fields |= {"content": items[0]["content"], "parts": None}
        head = new_entry(
            _ASSISTANT,
            sequence=reading.index,
            source=message,
            metadata=_unknown(items) or None,
            seldom={"repairs": reading.note} if reading.repairs else None,
            **{**fields, "parts": fields["parts"] or None},
        )
        results = [
            read_output(item, message, kind, reading)
            for item in items
            if (kind := type_of(item)) in OUTPUT_TYPES
        ]
        entries = (head, *results)
        if results:
            for place, entry in enumerate(entries):
                object.__setattr__(entry, "span", (place, len(entries)))  # still private to us
        return entries

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return items; untouched ones are the same objects."""
        out: list[Any] = []
        position = 0
        asked: dict[str, ToolCall] = {}
        known: Known = {}
        while position < len(entries):
            entry = entries[position]
            end = position + 1
            if entry.tool_calls:
                while end < len(entries) and entries[end].role is _TOOL:
                    end += 1
                asked = {call.id: call for call in entry.tool_calls}
            whole = whole_source(entries, position)
            call = asked.get(entry.tool_call_id or "")
            if entry.role is _TOOL and not answers(call, own_output(entry.root)):
                whole = 0
            if whole:
                out.append(entry.source)
                position += whole
            elif entry.role is _TOOL:
                out.append(write_output(entry, own_output(entry.root), call))
                position += 1
            elif entry.role is _ASSISTANT and type_of(entry.root.source) not in _ALONE:
                items, used = write_answer(entry, entries[position + 1 : end], asked, known)
                out.append(items[0] if len(items) == 1 else Gathered(items))
                position += 1 + used
            else:
                out.append(_write_said(entry))
                position += 1
        return [message for message in out if message != ()]


def _close(held: list[Any], out: list[Any]) -> None:
    if len(held) > 1 and any(map(type_of, held)):
        out.append(Gathered(held))
    else:
        out += held
    held.clear()


def _id_of(item: Mapping[str, Any]) -> str:
    name = item.get("call_id")
    return name if isinstance(name, str) else ""


def _is_output(item: Any) -> bool:
    """Whether an item is something the model put out."""
    if not isinstance(item, Mapping):
        return False
    if "role" in item:
        role = item["role"]
        plain = ROLES.get(role.strip().lower()) if isinstance(role, str) else None
        return plain is _ASSISTANT
    kind = type_of(item)
    return bool(kind) and kind not in OUTPUT_TYPES and kind not in _ALONE and kind != "message"


def _unknown(items: Sequence[Any]) -> dict[str, Any]:
    """Keys of the messages among the items that no provider knows."""
    return {
        key: value
        for item in items
        if "role" in item
        for key, value in item.items()
        if key not in MESSAGE_KEYS
    }


def _write_said(entry: ConversationEntry) -> dict[str, Any]:
    source = entry.root.source
    if type_of(source) in _ALONE:
        return dict(Reading(0).checked(source, "item"))
    kept = {
        key: value
        for key, value in fields_of(mapping(source), Reading(0)).items()
        if is_kept(key, entry, MESSAGE_KEYS)
    }
    role = entry.role_name if entry.role_name == "developer" else entry.role.value
    content: Any = entry.content or ""
    if entry.parts is not None:
        content = [write_part(part, "input_text") for part in text_first(entry)]
    return {**kept, "role": role, "content": content}
