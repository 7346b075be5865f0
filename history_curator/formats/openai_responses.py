"""OpenAI Responses items: reasoning, text, calls and outputs are items of one flat list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
)
from history_curator.errors import a_type, named
from history_curator.formats.base import (
    MappingFormat,
    MessageGroup,
    Reading,
    as_mapping,
    copy_value,
    count_untouched,
    type_of,
)
from history_curator.formats.blocks import (
    Slots,
    entry_fields,
    join_text,
    restore_order,
    update_text,
)
from history_curator.formats.openai_chat import ROLES, build_entry, is_sent, read_role
from history_curator.formats.response_calls import (
    CALLS,
    OUTPUTS,
    answers,
    output_of,
    read_call,
    read_output,
    read_parts,
    without_id,
    write_block,
    write_call,
    write_output,
)

_ALONE = {
    "compaction": MessageRole.ASSISTANT,
    "compaction_trigger": MessageRole.USER,
    "additional_tools": MessageRole.SYSTEM,
}
"""Items that are no part of an answer, and who speaks in them."""
ANONYMOUS = "anonymous"
"""Says in the metadata of an answer that its items are written without their ids."""
_MESSAGE_KEYS = frozenset(("type", "role", "content", "id", "status", "phase"))
_ASSISTANT, _TOOL = MessageRole.ASSISTANT, MessageRole.TOOL


class ResponsesFormat(MappingFormat):
    """Items as the ``input`` of a Responses request takes them.

    The items the model put out in one go (reasoning, text, calls) are one entry, so that a
    reasoning item and the items behind it stay together; where the reasoning is taken off, the ids
    behind it go, too. Calls of every kind pair with their outputs: function, custom, computer,
    shell, patch and the approval of an MCP call. A ``compaction`` item is a barrier. An item of any
    other type is passed on unread, as a part of its answer.

    Examples:
        >>> items = [
        ...     {"type": "reasoning", "id": "rs_1", "summary": []},
        ...     {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        ... ]
        >>> format = ResponsesFormat()
        >>> (group,) = format.gather(items)
        >>> [entry.tool_calls[0].name for entry in format.read(group, 0)]
        ['look']
    """

    name = "responses"

    def gather(self, messages: Sequence[Any]) -> Sequence[Any]:
        """Group the output items of each answer.

        Messages without a type, as one writes them by hand, are answers of their own where only
        such stand side by side.
        """
        out: list[Any] = []
        answer: list[Any] = []
        for item in [*messages, None]:
            if item is not None and _is_of_answer(item):
                answer.append(item)
                continue
            is_group = len(answer) > 1 and any(map(type_of, answer))
            out += [MessageGroup(answer)] if is_group else answer
            answer = []
            out.append(item)
        out.pop()
        return messages if len(out) == len(messages) else out

    def read_message(self, message: Any, reading: Reading) -> tuple[ConversationEntry, ...]:
        """Return the entry of an item, or of the items of one answer."""
        if message.__class__ is MessageGroup:
            return (_read_answer(message, message, reading),)
        if not isinstance(message, Mapping):
            raise reading.error(
                f"expected a mapping, got {type(message).__name__}.",
                None,
                "pass items of a Responses input; one list holds one kind of message.",
            )
        kind = type_of(message)
        if kind in OUTPUTS:
            return (read_output(message, kind, reading),)
        if _is_of_answer(message):
            return (_read_answer(message, (message,), reading),)
        if kind in _ALONE:
            return (_read_alone(message, kind, reading),)
        if "role" not in message:
            raise reading.error(
                f"an item of an unknown type: {named(message.get('type'))}.",
                "type",
                "use an item of a Responses input, or add a role to a message.",
            )
        role = read_role(message, reading)
        _message_fields(message, reading)
        if role is _TOOL:
            raise reading.error(
                "a tool result has no role in this format.",
                "role",
                'use {"type": "function_call_output", "call_id": …, "output": …}.',
            )
        parts, content = None, message.get("content")
        if isinstance(content, (list, tuple)):
            parts = read_parts(content, reading, "content")
            content = join_text(parts)
        elif not isinstance(content, str):
            raise reading.missing(content, "content", "make it a string or a list of blocks.")
        return (build_entry(message, role, reading, content, parts=parts, known=_MESSAGE_KEYS),)

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return items; untouched ones are the same objects."""
        out: list[Any] = []
        calls: dict[str, ToolCall] = {}
        for position, entry in enumerate(entries):
            if entry.tool_calls:
                calls = {call.id: call for call in entry.tool_calls}
            is_result = entry.role is _TOOL
            call = calls.get(entry.tool_call_id or "") if is_result else None
            source = output_of(entry.root) if is_result else {}
            if count_untouched(entries, position) and not (is_result and not answers(call, source)):
                out.append(entry.source)
            elif is_result:
                out.append(copy_value(write_output(entry, source, call)))
            elif entry.role is _ASSISTANT and type_of(entry.root.source) not in _ALONE:
                items = copy_value(_write_answer(entry))
                if items:
                    out.append(items[0] if len(items) == 1 else MessageGroup(items))
            else:
                out.append(copy_value(_write_input(entry)))
        return out


def _is_of_answer(item: Any) -> bool:
    """Whether an item is something the model put out."""
    if not isinstance(item, Mapping):
        return False
    if "role" in item:
        role = item["role"]
        return isinstance(role, str) and ROLES.get(role.strip().lower()) is _ASSISTANT
    kind = type_of(item)
    return bool(kind) and kind not in OUTPUTS and kind not in _ALONE and kind != "message"


def _read_alone(message: Mapping[str, Any], kind: str, reading: Reading) -> ConversationEntry:
    part = ContentPart("other", None, reading.checked(message, kind))
    is_barrier = kind == "compaction"
    return ConversationEntry(
        _ALONE[kind],
        sequence=reading.index,
        source=message,
        parts=(part,),
        pinned=is_barrier,
        barrier=is_barrier,
        repairs=reading.note,
    )


def _message_fields(message: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """Return what a message has beside its content, without fields that should have been text."""
    fields = {}
    for key, value in message.items():
        is_word = key in ("type", "id", "status", "phase")
        if is_word and value is not None and not isinstance(value, str):
            reading.repaired(f"{key}: it was {a_type(value)}, not text")
        elif key == "type" and value != "message":
            reading.repaired("type: an item with a role is a message")
            fields[key] = "message"
        elif key != "content":
            fields[key] = value
    return fields


def _write_input(entry: ConversationEntry) -> dict[str, Any]:
    source = as_mapping(entry.root.source)
    if type_of(source) in _ALONE:
        return dict(Reading(0).checked(source, "item"))
    fields = _message_fields(source, Reading(0))
    message = {key: fields[key] for key in fields if is_sent(key, entry, _MESSAGE_KEYS)}
    message["role"] = entry.role_name if entry.role_name == "developer" else entry.role.value
    message["content"] = entry.content or ""
    if entry.parts is not None:
        message["content"] = [write_block(part, "input_text") for part in update_text(entry)]
    return message


# Answers: the items that a model put out in one go, read and written as one entry.


def _read_answer(message: Any, items: Sequence[Any], reading: Reading) -> ConversationEntry:
    fields = entry_fields([slot for item in items for slot in _read_item(item, reading)])
    if len(items) == 1 and isinstance(items[0].get("content"), str):
        fields |= {"content": items[0]["content"], "parts": None}
    metadata = {
        key: item[key]
        for item in items
        if "role" in item
        for key in item
        if key not in _MESSAGE_KEYS
    }
    return ConversationEntry(
        _ASSISTANT,
        sequence=reading.index,
        source=message,
        metadata=metadata or None,
        repairs=reading.note,
        **{**fields, "parts": fields["parts"] or None},
    )


def _read_item(item: Mapping[str, Any], reading: Reading) -> Slots:
    kind = type_of(item)
    if "role" in item:
        read_role(item, reading)
        _message_fields(item, reading)
        content = item.get("content")
        if isinstance(content, str):
            return [("part", ContentPart("text", content, content))]
        if not isinstance(content, (list, tuple)):
            raise reading.missing(content, "content", "make it a string or a list of blocks.")
        parts = read_parts(content, reading, "content")
        for n, part in enumerate(parts):
            if part.kind == "other":  # in an answer, anything but text is an item by itself
                raise reading.error(
                    f"an answer holds a block of the type {part.raw.get('type')!r:.80}.",
                    f"content[{n}]",
                    "use output_text or refusal.",
                )
        return [("part", part) for part in parts]
    item = reading.checked(item, kind)
    if kind == "reasoning":
        return [("reasoning", _read_reasoning(item, reading))]
    if kind in CALLS:
        return [("call", read_call(item, kind, reading))]
    return [("part", ContentPart("other", None, item))]


def _read_reasoning(item: Mapping[str, Any], reading: Reading) -> Reasoning:
    texts = [
        each["text"]
        for key in ("summary", "content")
        for each in _list_of(item, key, reading)
        if isinstance(reading.object_of(each, f"reasoning.{key}").get("text"), str)
    ]
    encrypted = item.get("encrypted_content")
    if encrypted is not None and not isinstance(encrypted, str):
        reading.repaired("reasoning.encrypted_content: it was not text, and is left out")
        item = {key: item[key] for key in item if key != "encrypted_content"}
        encrypted = None
    return Reasoning("\n".join(texts) or None, encrypted, item, encrypted=encrypted is not None)


def _list_of(item: Mapping[str, Any], key: str, reading: Reading) -> Sequence[Any]:
    value = item.get(key)
    if value is not None and not isinstance(value, (list, tuple)):
        fix = "make it a list, or leave it out."
        raise reading.mistyped("it", value, f"reasoning.{key}", fix)
    return value or ()


def _items_of(entry: ConversationEntry) -> Sequence[Mapping[str, Any]]:
    source = entry.root.source
    if source.__class__ is MessageGroup:
        return tuple(source)
    return (source,) if isinstance(source, Mapping) else ()


def _is_anonymous(entry: ConversationEntry, items: Sequence[Any]) -> bool:
    """Whether the ids of an answer go: it says so, or reasoning they are bound to was taken off."""
    before = sum(type_of(item) == "reasoning" for item in items)
    now = sum(type_of(each.raw) == "reasoning" for each in entry.reasoning or ())
    return before > now or ANONYMOUS in (entry.metadata or ())


def _order_answer(
    entry: ConversationEntry, items: Sequence[Any]
) -> tuple[list[tuple[str, Any, int | None]], list[int]]:
    """Return the slots of an answer in order, and for each recorded slot the index of its item."""
    recorded: Slots = []
    homes: list[int] = []
    for n, item in enumerate(items):
        slots = _read_item(item, Reading(0))
        recorded += slots
        homes += [n] * len(slots)
    ordered = restore_order(entry, recorded, entry.tool_calls or (), entry.reasoning or ())
    return ordered, homes


def _write_answer(entry: ConversationEntry) -> list[Any]:
    """Return the items of an edited answer."""
    items = _items_of(entry)
    anonymous = _is_anonymous(entry, items)
    ordered, homes = _order_answer(entry, items)
    messages = [n for n, item in enumerate(items) if "role" in item]
    out: list[Any] = []
    used: set[int | None] = set()
    current: Any = None  # the message that texts are added to, and the item it was read from
    current_home: int | None = None
    for kind, item, place in ordered:
        if kind == "reasoning":
            out.append(item.raw)
        elif kind == "call":
            written = write_call(item)
            out.append(without_id(written) if anonymous else written)
        elif item.kind == "other":
            out.append(item.raw)
        else:
            home = homes[place] if place is not None else None
            if place is None:
                alike = (n for n in messages if _holds(items[n], item.raw))
                home = messages[0] if len(messages) == 1 else next(alike, None)
            if not out or out[-1] is not current or home not in (None, current_home):
                source = items[home] if home is not None else {}
                current = _empty_message(source, entry, named=not (anonymous or home in used))
                current_home = home
                used.add(home)
                out.append(current)
            if isinstance(current["content"], list):
                current["content"].append(write_block(item, "output_text"))
            else:
                texts = [text for text in (current["content"], item.text) if text]
                current["content"] = "\n".join(texts)
    if out and any(map(type_of, items)) and not any(map(type_of, out)):
        out[0] = {"type": "message", **out[0]}  # so that they are one answer still
    return out


def _holds(message: Mapping[str, Any], raw: Any) -> bool:
    """Whether a message holds a block, whatever is noted beside it."""
    content = message.get("content")
    blocks = content if isinstance(content, (list, tuple)) else (content,)
    return any(_without_notes(block) == _without_notes(raw) for block in blocks)


def _without_notes(raw: Any) -> Any:
    return {**raw, "annotations": None} if isinstance(raw, Mapping) else raw


def _empty_message(
    source: Mapping[str, Any], entry: ConversationEntry, *, named: bool
) -> dict[str, Any]:
    """Return a message of an answer, to be filled with the parts that are left of it."""
    fields = _message_fields(source, Reading(0))
    message = {key: fields[key] for key in fields if is_sent(key, entry, _MESSAGE_KEYS)}
    message["role"] = "assistant"
    content = source.get("content")
    is_listed = isinstance(content, (list, tuple))
    if not (named and is_listed and "id" in message):
        # Without an id it is a message as one would write it by hand: plain text.
        message.pop("id", None)
        message.pop("status", None)
        is_listed = is_listed and not all(
            type_of(block) in ("output_text", "text", "refusal") for block in content or ()
        )
    message["content"] = [] if is_listed else ""
    return message


def count_trailing_reasoning(entry: ConversationEntry) -> int:
    """Return how many reasoning items stand at the end of an answer, where nothing follows."""
    items = _items_of(entry)
    if not entry.reasoning or not any(type_of(item) == "reasoning" for item in items):
        return 0
    ordered, _ = _order_answer(entry, items)
    return sum(1 for _ in takewhile(lambda slot: slot[0] == "reasoning", reversed(ordered)))


def item_ids(entry: ConversationEntry) -> list[str]:
    """Return the ids of the items that an answer is written with."""
    items = _items_of(entry)
    if ANONYMOUS in (entry.metadata or ()) or not any(map(type_of, items)):
        return []
    raws = [each.raw for each in entry.reasoning or ()]
    raws += [part.raw for part in entry.parts or () if part.kind == "other"]
    raws += [(call.extra or {}).get("responses") for call in entry.tool_calls or ()]
    if not _is_anonymous(entry, items):
        raws += [item for item in items if "role" in item]
    return [name for raw in raws if isinstance(name := as_mapping(raw).get("id"), str)]


def parts_as_written(entry: ConversationEntry) -> tuple[ContentPart, ...] | None:
    """Return the parts of an answer without annotations that are not written.

    Annotations are written with a message that keeps its id. The very parts if all are written.
    """
    if entry.original is None or not any(_notes(part.raw) for part in entry.parts or ()):
        return entry.parts
    items = () if _is_anonymous(entry, _items_of(entry)) else _items_of(entry)
    written = [
        block
        for item in items
        if "id" in item and isinstance(item.get("content"), (list, tuple))
        for block in item["content"]
    ]
    parts = tuple(
        replace(part, raw={**part.raw, "annotations": []})
        if _notes(part.raw) and part.raw not in written
        else part
        for part in entry.parts or ()
    )
    return entry.parts if parts == entry.parts else parts


def _notes(block: Any) -> Any:
    return block.get("annotations") if type_of(block) == "output_text" else None
