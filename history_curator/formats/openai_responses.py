"""OpenAI Responses items: reasoning, text, calls and outputs are items of one flat list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby, takewhile
from typing import Any

from history_curator.entries import ContentPart, ConversationEntry, MessageRole, Reasoning, ToolCall
from history_curator.errors import name_value
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
    read_part,
    restore_order,
    update_text,
    write_part,
)
from history_curator.formats.json_text import free_input, parse_object
from history_curator.formats.openai_chat import ROLES, build_entry, is_sent, read_role

CALLS = {"function_call": "arguments", "custom_tool_call": "input", "computer_call": "action"}
"""Items that ask for a call, and the field with its arguments. Calls of other kinds are not read."""
_OUTPUTS = {f"{name}_output": name for name in CALLS}
RESPONSE_ITEMS = frozenset((*CALLS, *_OUTPUTS, "reasoning", "compaction", "web_search_call"))
"""Types of items that no other format has, and that most conversations of this one hold."""
RESPONSE_BLOCKS = frozenset(("input_text", "output_text", "input_image", "input_file"))
"""Blocks that only messages of Responses have."""
ANONYMOUS = "anonymous"
"""Says in the metadata of an answer that its items are written without their ids."""
_MESSAGE_KEYS = frozenset(("type", "role", "content", "id", "status", "phase"))
_ASSISTANT, _TOOL = MessageRole.ASSISTANT, MessageRole.TOOL


class ResponsesFormat(MappingFormat):
    """Items as the ``input`` of a Responses request takes them.

    The items the model put out in one go (reasoning, text, calls) are one entry, so that a
    reasoning item and the items behind it stay together; where the reasoning is taken off, the ids
    behind it go, too. Function, custom and computer calls pair with their outputs. A ``compaction``
    item is a barrier. An item of any other type is passed on unread, as a part of its answer.

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
        for of_answer, run in groupby(messages, _is_of_answer):
            items = list(run)
            is_group = of_answer and len(items) > 1 and any(map(type_of, items))
            out += [MessageGroup(items)] if is_group else items
        return messages if len(out) == len(messages) else out

    def read_message(self, message: Any, reading: Reading) -> tuple[ConversationEntry, ...]:
        """Return the entry of an item, or of the items of one answer."""
        items: Sequence[Any] = message if message.__class__ is MessageGroup else (message,)
        if not isinstance(items[0], Mapping):
            fix = "pass items of a Responses input; one list holds one kind of message."
            raise reading.error(f"expected a mapping, got {type(message).__name__}.", None, fix)
        items = [reading.clean_value(item, type_of(item) or "item") for item in items]
        if _is_of_answer(items[0]) or type_of(items[0]) == "compaction":
            return (_read_answer(message, items, reading),)
        item, kind = items[0], type_of(items[0])
        if kind in _OUTPUTS:
            return (_read_output(message, item, reading),)
        if "role" not in item:
            problem = f"an item of an unknown type: {name_value(item.get('type'))}."
            raise reading.error(problem, "type", "use an item of Responses, or add a role.")
        role = read_role(item, reading)
        if role is _TOOL:
            fix = 'use {"type": "function_call_output", "call_id": …, "output": …}.'
            raise reading.error("a tool result has no role in this format.", "role", fix)
        content, parts = _read_content(item.get("content"), reading, "content")
        entry = build_entry(item, role, reading, content, parts=parts, known=_MESSAGE_KEYS)
        return (replace(entry, source=message),)

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return items; untouched ones are the same objects."""
        out: list[Any] = []
        calls: dict[str, ToolCall] = {}
        for position, entry in enumerate(entries):
            if entry.tool_calls:
                calls = {call.id: call for call in entry.tool_calls}
            is_result = entry.role is _TOOL
            call = calls.get(entry.tool_call_id or "") if is_result else None
            source = as_mapping(entry.root.source)
            if count_untouched(entries, position) and (call is None or is_answer(call, source)):
                out.append(entry.source)
            elif is_result:
                out.append(copy_value(_write_output(entry, call)))
            elif entry.role is _ASSISTANT:
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
    return type_of(item) not in ("", "compaction", "message", *_OUTPUTS)


def _read_content(
    given: Any, reading: Reading, field: str
) -> tuple[str | None, tuple[ContentPart, ...] | None]:
    if isinstance(given, str):
        return given, None
    if not isinstance(given, (list, tuple)):
        raise reading.type_error(field, given, field, "make it a string or a list of blocks.")
    parts = tuple(
        read_part(block, reading.index, f"{field}[{n}]", reading, ())
        for n, block in enumerate(given)
    )
    return join_text(parts), parts


def _write_block(part: ContentPart, kind: str) -> Any:
    """Write a block; one without a type of this format is text of this kind."""
    if isinstance(part.raw, str):
        part = replace(part, raw=None)
    elif type_of(part.raw) == "text":
        part = replace(part, raw={**part.raw, "type": kind})
    new: dict[str, Any] = {"type": kind, "text": ""}
    return write_part(part, new | {"annotations": []} if kind == "output_text" else new)


def _write_input(entry: ConversationEntry) -> dict[str, Any]:
    source = Reading(0).clean_value(as_mapping(entry.root.source), "item")
    message = {key: source[key] for key in source if is_sent(key, entry, _MESSAGE_KEYS)}
    message["role"] = entry.role_name if entry.role_name == "developer" else entry.role.value
    message["content"] = entry.content or ""
    if entry.parts is not None:
        message["content"] = [_write_block(part, "input_text") for part in update_text(entry)]
    return message


# Calls and their outputs.


def _kind_of(call: ToolCall) -> str:
    return str(((call.extra or {}).get("responses") or {}).get("type", "function_call"))


def is_answer(call: ToolCall, output: Mapping[str, Any]) -> bool:
    """Return whether an output is of the kind its call has."""
    return output.get("type") == f"{_kind_of(call)}_output"


def has_object(call: ToolCall) -> bool:
    """Return whether the arguments of a call are an object on the wire."""
    return _kind_of(call) == "computer_call"


def fit_call(call: ToolCall, answer: ConversationEntry | None) -> ToolCall:
    """Return a call, as a function call where its answer cannot be shown as a screenshot."""
    if answer is None or not has_object(call):
        return call
    source = as_mapping(answer.root.source)
    is_shown = is_answer(call, source) and _is_as_read(answer)
    return call if is_shown else ToolCall(call.id, call.name, call.arguments)


def _is_as_read(entry: ConversationEntry) -> bool:
    root = entry.root
    return entry.content == root.content and entry.parts == root.parts and root.repairs is None


def _read_call(item: Mapping[str, Any], reading: Reading) -> ToolCall:
    kind = item["type"]
    call_id = reading.text_of(item.get("call_id"), "call_id", "the call id")
    name = "computer"
    body = CALLS[kind]
    if kind != "computer_call":
        name = reading.text_of(item.get("name"), "name", "the name of the tool")
    elif body not in item and "actions" in item:  # several actions at once
        body = "actions"
    given = item.get(body)
    if kind == "custom_tool_call":
        arguments = reading.free_text(given, body)
    elif kind == "function_call":
        arguments = reading.arguments(given, body)
    else:
        arguments = reading.object_text({body: given} if body == "actions" else given, body)
    extra = {key: item[key] for key in item if key not in ("call_id", body, "type", "name")}
    if kind == "function_call" and not extra:
        return ToolCall(call_id, name, arguments)
    return ToolCall(call_id, name, arguments, {"responses": {**extra, "type": kind}})


def _write_call(call: ToolCall, *, anonymous: bool) -> dict[str, Any]:
    extra = dict((call.extra or {}).get("responses") or {})
    kind = extra.pop("type", "function_call")
    item: dict[str, Any] = {"type": kind, "call_id": call.id}
    if kind == "computer_call":
        given = parse_object(call.arguments) or {}
        item |= given if given.keys() == {"actions"} else {"action": given}
        if anonymous:  # a call of this kind is not taken without an id
            extra["id"] = f"{extra.get('id')}_{call.id}"[:64]
    else:
        item["name"] = call.name
        is_custom = kind == "custom_tool_call"
        item[CALLS[kind]] = free_input(call.arguments) if is_custom else call.arguments
        if anonymous:
            extra.pop("id", None)
    return {**item, **extra}


def _read_output(source: Any, item: Mapping[str, Any], reading: Reading) -> ConversationEntry:
    call_id = reading.text_of(item.get("call_id"), "call_id", "the call id")
    given, tool = item.get("output"), item.get("name")
    if type_of(item) == "computer_call_output" and isinstance(given, Mapping):
        shown = read_part({**given, "type": "input_image"}, reading.index, "output")
        content, parts = None, (shown,)
    else:
        content, parts = _read_content(given, reading, "output")  # type: ignore[assignment]
    return ConversationEntry(
        _TOOL,
        content,
        sequence=reading.index,
        source=source,
        tool_call_id=call_id or None,
        tool_name=tool if isinstance(tool, str) else None,
        parts=parts,
        status="error" if item.get("status") in ("failed", "incomplete") else None,
        repairs=reading.note,
    )


def _write_output(entry: ConversationEntry, call: ToolCall | None) -> dict[str, Any]:
    """Return the item of a result, of the kind of its call."""
    source = Reading(0).clean_value(as_mapping(entry.root.source), "item")
    kind = type_of(source) if call is None else f"{_kind_of(call)}_output"
    kind = kind if kind in _OUTPUTS else "function_call_output"
    is_own = type_of(source) == kind
    item: dict[str, Any] = {**source} if is_own else {"type": kind}
    item["call_id"] = entry.tool_call_id
    if is_own and _is_as_read(entry):
        return item
    item["output"] = entry.content or ""
    if entry.parts is not None:
        item["output"] = [_write_block(part, "input_text") for part in update_text(entry)]
    return item


# Answers: the items that a model put out in one go, read and written as one entry.


def _read_answer(source: Any, items: Sequence[Any], reading: Reading) -> ConversationEntry:
    fields = entry_fields([slot for item in items for slot in _read_item(item, reading)])
    if len(items) == 1 and isinstance(items[0].get("content"), str):
        fields |= {"content": items[0]["content"], "parts": None}
    messages = [item for item in items if "role" in item]
    metadata = {k: item[k] for item in messages for k in item if k not in _MESSAGE_KEYS}
    fields["parts"] = fields["parts"] or None
    is_barrier = type_of(items[0]) == "compaction"
    return ConversationEntry(
        _ASSISTANT,
        sequence=reading.index,
        source=source,
        metadata=metadata or None,
        pinned=is_barrier,
        barrier=is_barrier,
        repairs=reading.note,
        **fields,
    )


def _read_item(item: Mapping[str, Any], reading: Reading) -> Slots:
    if "role" in item:
        read_role(item, reading)
        text, parts = _read_content(item.get("content"), reading, "content")
        if parts is None:
            return [("part", ContentPart("text", text, text))]
        if any(part.kind != "text" for part in parts):
            problem = "an answer holds a block that is not text."
            raise reading.error(problem, "content", "use output_text or refusal.")
        return [("part", part) for part in parts]
    if type_of(item) == "reasoning":
        return [("reasoning", _read_reasoning(item, reading))]
    if type_of(item) in CALLS:
        return [("call", _read_call(item, reading))]
    return [("part", ContentPart("other", None, item))]


def _read_reasoning(item: Mapping[str, Any], reading: Reading) -> Reasoning:
    texts = []
    for key in ("summary", "content"):
        blocks = item.get(key) or ()
        if not isinstance(blocks, (list, tuple)):
            fix = "make it a list, or leave it out."
            raise reading.type_error("it", blocks, f"reasoning.{key}", fix)
        texts += [reading.object_of(each, f"reasoning.{key}").get("text") for each in blocks]
    encrypted = item.get("encrypted_content")
    if encrypted is not None and not isinstance(encrypted, str):
        raise reading.type_error(
            "it", encrypted, "reasoning.encrypted_content", "make it a string."
        )
    text = "\n".join(each for each in texts if isinstance(each, str)) or None
    return Reasoning(text, encrypted, item, encrypted=encrypted is not None)


def _items_of(entry: ConversationEntry) -> Sequence[Mapping[str, Any]]:
    source = entry.root.source
    items = source if source.__class__ is MessageGroup else (source,)
    return [item for item in items if isinstance(item, Mapping)]


def _is_anonymous(entry: ConversationEntry, items: Sequence[Any]) -> bool:
    """Whether the ids of an answer go: it says so, or reasoning they are bound to was taken off."""
    before = sum(type_of(item) == "reasoning" for item in items)
    now = sum(type_of(each.raw) == "reasoning" for each in entry.reasoning or ())
    return before > now or ANONYMOUS in (entry.metadata or ())


def _order_answer(
    entry: ConversationEntry, items: Sequence[Any]
) -> list[tuple[str, Any, int | None]]:
    """Return the slots of an answer in order, each with the index of the item it stood in."""
    recorded: Slots = []
    homes: list[int] = []
    for n, item in enumerate(items):
        slots = _read_item(Reading(0).clean_value(item, "item"), Reading(0))
        recorded += slots
        homes += [n] * len(slots)
    ordered = restore_order(entry, recorded, entry.tool_calls or (), entry.reasoning or ())
    return [(kind, item, None if place is None else homes[place]) for kind, item, place in ordered]


def _write_answer(entry: ConversationEntry) -> list[Any]:
    """Return the items of an edited answer."""
    items = [Reading(0).clean_value(item, "item") for item in _items_of(entry)]
    anonymous = _is_anonymous(entry, items)
    messages = [n for n, item in enumerate(items) if "role" in item]
    out: list[Any] = []
    used: set[int | None] = set()
    current: Any = None  # the message that texts are added to, and the item it was read from
    current_home: int | None = None
    for kind, item, home in _order_answer(entry, items):
        if kind == "call":
            out.append(_write_call(item, anonymous=anonymous))
        elif kind == "reasoning" or item.kind == "other":
            out.append(item.raw)
        else:
            place = home
            if home is None and messages:
                place = current_home if current_home is not None else messages[0]
            if not out or out[-1] is not current or place != current_home:
                source = items[place] if place is not None else {}
                current = _empty_message(source, entry, named=not (anonymous or place in used))
                current_home = place
                used.add(place)
                out.append(current)
            if isinstance(current["content"], list):
                current["content"].append(_write_block(item, "output_text"))
            else:
                current["content"] = "\n".join(filter(None, (current["content"], item.text)))
    if out and any(map(type_of, items)) and not any(map(type_of, out)):
        out[0] = {"type": "message", **out[0]}  # so that they are one answer still
    return out


def _empty_message(
    source: Mapping[str, Any], entry: ConversationEntry, *, named: bool
) -> dict[str, Any]:
    """Return a message to be filled; without an id it is plain text, as one writes it by hand."""
    message = {key: source[key] for key in source if is_sent(key, entry, _MESSAGE_KEYS)}
    is_listed = named and "id" in message and not isinstance(source.get("content"), str)
    if not is_listed:
        message.pop("id", None)
        message.pop("status", None)
    return {**message, "role": "assistant", "content": [] if is_listed else ""}


def count_trailing_reasoning(entry: ConversationEntry) -> int:
    """Return how many reasoning items stand at the end of an answer, where nothing follows."""
    items = _items_of(entry)
    if not entry.reasoning or not any(type_of(item) == "reasoning" for item in items):
        return 0
    ordered = _order_answer(entry, items)
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
    if entry.original is None or not any(_has_notes(part.raw) for part in entry.parts or ()):
        return entry.parts
    items = _items_of(entry)
    written: list[Any] = []
    if not _is_anonymous(entry, items):
        written = [b for item in items if "role" in item and "id" in item for b in item["content"]]
    parts = tuple(
        replace(part, raw={**part.raw, "annotations": []})
        if _has_notes(part.raw) and part.raw not in written
        else part
        for part in entry.parts or ()
    )
    return entry.parts if parts == entry.parts else parts


def _has_notes(block: Any) -> bool:
    return type_of(block) == "output_text" and bool(block.get("annotations"))
