"""OpenAI Responses items: reasoning, text, calls and outputs are items of one flat list."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    as_text,
    copy_value,
    count_untouched,
    free_input,
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
from history_curator.formats.openai_chat import ROLES, build_entry, read_role

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items that ask for a call, and the field with its arguments. Calls of other kinds are not read."""
_OUTPUTS = frozenset(f"{name}_output" for name in _CALLS)
_SCREENSHOT = "computer_call_output"
RESPONSE_ITEMS = frozenset(
    (*_CALLS, *_OUTPUTS, "reasoning", "compaction", "web_search_call", "computer_call", _SCREENSHOT)
)
"""Types of items that no other format has, and that most conversations of this one hold."""
RESPONSE_BLOCKS = frozenset(("input_text", "output_text", "input_image", "input_file"))
"""Blocks that only messages of Responses have."""
ANONYMOUS = "anonymous"
"""Says in the metadata of an answer that its items are written without their ids."""
_MESSAGE_KEYS = frozenset(("type", "role", "content", "id", "status", "phase"))
_ITEM_KEYS = frozenset(("type", "id", "call_id", "name", "status", "namespace", "caller"))
_ITEM_KEYS |= {"arguments", "input", "output", "summary", "content", "encrypted_content"}
_KEYS = dict.fromkeys((*_CALLS, *_OUTPUTS, "reasoning"), _ITEM_KEYS)
_KEYS |= {"": _MESSAGE_KEYS, "message": _MESSAGE_KEYS}
"""The fields that an item may have, by its type: add a new field here."""
_ID_PREFIXES = {"message": "msg", "": "msg", "reasoning": "rs", "function_call": "fc"}
_ID_PREFIXES |= {"custom_tool_call": "ctc", "web_search_call": "ws"}
"""What the provider's own ids begin with, by the type of their item."""
_ASSISTANT, _TOOL = MessageRole.ASSISTANT, MessageRole.TOOL
_TOKENS_OF_A_SCREENSHOT = 1_500
_MAX_ID = 64


class ResponsesFormat(MappingFormat):
    """Items as the ``input`` of a Responses request takes them.

    The items the model put out in one go (reasoning, text, calls) are one entry; where the reasoning
    is taken off, the ids behind it go, too. Function and custom calls pair with their outputs. A
    ``compaction`` item is a barrier. Any other item is passed on unread, as a part of its answer, so
    that a computer call and its screenshot stay together.
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
        pairs = [(item, _known_fields(item)) for item in items]
        unknown = {key: item[key] for item, known in pairs for key in item if key not in known}
        items = [known for _, known in pairs]
        reading.check_json(items, type_of(items[0]) or "item")
        item, kind = items[0], type_of(items[0])
        if _is_of_answer(item) or kind == "compaction":
            entry = _read_answer(items, reading)
        else:
            entry = (_read_output if kind in _OUTPUTS else _read_input)(item, reading)
        is_pinned = entry.pinned or bool(unknown.get("pinned"))
        return (replace(entry, source=message, metadata=unknown or None, pinned=is_pinned),)

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return items; untouched ones are the same objects."""
        out: list[Any] = []
        calls: dict[str, ToolCall] = {}
        for position, entry in enumerate(entries):
            if entry.tool_calls:
                calls = {call.id: call for call in entry.tool_calls}
            call = calls.get(entry.tool_call_id or "") if entry.role is _TOOL else None
            if count_untouched(entries, position):
                out.append(entry.source)
            elif entry.role is _TOOL:
                out.append(copy_value(_write_output(entry, call)))
            elif entry.role is not _ASSISTANT:
                out.append(copy_value(_write_input(entry)))
            elif items := copy_value(_write_answer(entry)):
                out.append(items[0] if len(items) == 1 else MessageGroup(items))
        return out


def _is_of_answer(item: Any) -> bool:
    """Whether an item is something the model put out, or goes with it unread."""
    if not isinstance(item, Mapping):
        return False
    if type_of(item) in ("", "message"):
        role = item.get("role")
        return isinstance(role, str) and ROLES.get(role) is _ASSISTANT
    return type_of(item) not in ("compaction", *_OUTPUTS)


def _known_fields(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item without fields it cannot have; one that is passed on unread may have any."""
    known: Collection[str] = _KEYS.get(type_of(item), item)
    return {key: item[key] for key in item if key in known}


def _read_content(
    item: Mapping[str, Any], field: str, reading: Reading, kind: str = "input_text"
) -> tuple[str | None, tuple[ContentPart, ...] | None]:
    given: Any = item.get(field)
    if isinstance(given, str) or (given is None and field in item):
        return given, None
    reading.require(given, (list, tuple, str), field)
    parts = []
    for place, block in enumerate(given):
        where, of_kind = f"{field}[{place}]", block
        if type_of(block) in {"text", "input_text", "output_text"} - {kind}:
            reading.repairs.append(f"{where}: {block['type']} where {kind} has to be")
            of_kind = {**block, "type": kind}
        parts.append(read_part(of_kind, reading.index, where, typed=True))
    return join_text(parts), tuple(parts)


def _write_content(entry: ConversationEntry) -> Any:
    if entry.parts is None:
        return entry.content or ""
    return [_write_block(part, "input_text") for part in update_text(entry)]


def _write_block(part: ContentPart, kind: str) -> Any:
    """Write a block; one without a type of this format is text of this kind."""
    if isinstance(part.raw, str):
        part = replace(part, raw=None)
    elif type_of(part.raw) == "text":
        part = replace(part, raw={**part.raw, "type": kind})
    new: dict[str, Any] = {"type": kind, "text": ""}
    return write_part(part, new | {"annotations": []} if kind == "output_text" else new)


def _read_input(item: Mapping[str, Any], reading: Reading) -> ConversationEntry:
    if "role" not in item:
        problem = f"an item of an unknown type: {name_value(item.get('type'))}."
        raise reading.error(problem, "type", "use an item of Responses, or add a role.")
    role = read_role(item, reading)
    if role is _TOOL:
        fix = 'use {"type": "function_call_output", "call_id": …, "output": …}.'
        raise reading.error("a tool result has no role in this format.", "role", fix)
    content, parts = _read_content(item, "content", reading)
    return build_entry(item, role, reading, content, parts=parts, known=_MESSAGE_KEYS)


def _write_input(entry: ConversationEntry) -> dict[str, Any]:
    source = _known_fields(as_mapping(entry.source))
    role = "developer" if entry.role_name == "developer" else entry.role.value
    return {**source, "role": role, "content": _write_content(entry)}


def _read_call(item: Mapping[str, Any], reading: Reading) -> ToolCall:
    body = _CALLS[item["type"]]
    read = reading.arguments if body == "arguments" else reading.free_text
    extra = {key: item[key] for key in item if key not in ("call_id", body, "name")}
    return ToolCall(
        reading.text_of(item.get("call_id"), "call_id"),
        reading.text_of(item.get("name"), "name"),
        read(item.get(body), body),
        None if extra == {"type": "function_call"} else {"responses": extra},
    )


def _write_call(call: ToolCall, *, anonymous: bool) -> dict[str, Any]:
    extra = {**((call.extra or {}).get("responses") or {})}
    kind = extra.pop("type", "function_call")
    if anonymous:
        extra.pop("id", None)
    given = free_input(call.arguments) if kind == "custom_tool_call" else call.arguments
    return {"type": kind, "call_id": call.id, "name": call.name, _CALLS[kind]: given, **extra}


def _read_output(item: Mapping[str, Any], reading: Reading) -> ConversationEntry:
    call_id = reading.text_of(item.get("call_id"), "call_id")
    content, parts = _read_content(item, "output", reading)
    return ConversationEntry(
        _TOOL,
        content,
        sequence=reading.index,
        tool_call_id=call_id or None,
        tool_name=as_text(item.get("name")),
        parts=parts,
        status="error" if item.get("status") in ("failed", "incomplete") else None,
        repairs=reading.note,
    )


def _write_output(entry: ConversationEntry, call: ToolCall | None) -> dict[str, Any]:
    """Return the item of a result, of the kind of its call."""
    source = _known_fields(as_mapping(entry.source))
    asked = (call.extra or {}).get("responses") or {} if call is not None else {}
    kind = type_of(source) if call is None else f"{asked.get('type')}_output"
    kind = kind if kind in _OUTPUTS else "function_call_output"
    own = source if type_of(source) == kind else {}
    item = {**own, "type": kind, "call_id": entry.tool_call_id}
    if "name" in item:
        item["name"] = entry.tool_name
    is_edited = (entry.content, entry.parts) != (entry.root.content, entry.root.parts)
    if is_edited or entry.root.repairs is not None or "output" not in item:
        item["output"] = _write_content(entry)
    return item


def _read_answer(items: Sequence[Any], reading: Reading) -> ConversationEntry:
    fields = entry_fields([slot for item in items for slot in _read_item(item, reading)])
    if len(items) == 1 and isinstance(items[0].get("content"), str):
        fields |= {"content": items[0]["content"], "parts": None}
    fields["parts"] = fields["parts"] or None
    is_barrier = type_of(items[0]) == "compaction"
    fields |= {"pinned": is_barrier, "barrier": is_barrier, "repairs": reading.note}
    return ConversationEntry(_ASSISTANT, sequence=reading.index, **fields)


def _read_item(item: Mapping[str, Any], reading: Reading) -> Slots:
    kind = type_of(item)
    if kind in ("", "message"):
        read_role(item, reading)
        text, parts = _read_content(item, "content", reading, "output_text")
        if parts is None:
            return [("part", ContentPart("text", text, text))]
        if any(part.kind != "text" for part in parts):
            problem = "an answer holds a block that is not text."
            raise reading.error(problem, "content", "use output_text or refusal.")
        return [("part", part) for part in parts]
    if kind == "reasoning":
        return [("reasoning", _read_reasoning(item, reading))]
    if kind in _CALLS:
        return [("call", _read_call(item, reading))]
    tokens = _TOKENS_OF_A_SCREENSHOT if kind == _SCREENSHOT else None
    return [("part", ContentPart("other", None, item, tokens=tokens))]


def _read_reasoning(item: Mapping[str, Any], reading: Reading) -> Reasoning:
    texts: list[Any] = []
    for key in ("summary", "content"):
        field = f"reasoning.{key}"
        blocks = reading.list_of(item.get(key), field)
        texts += [reading.require(block, Mapping, field).get("text") for block in blocks]
    encrypted = item.get("encrypted_content")
    if encrypted is not None:
        reading.require(encrypted, str, "reasoning.encrypted_content")
    text = "\n".join(each for each in texts if isinstance(each, str)) or None
    return Reasoning(text, encrypted, item, encrypted=encrypted is not None)


def _items_of(entry: ConversationEntry) -> list[Mapping[str, Any]]:
    """Return the items an answer was read from."""
    source = entry.source
    items = source if source.__class__ is MessageGroup else (source,)
    return [_known_fields(item) for item in items if isinstance(item, Mapping)]


def _is_anonymous(entry: ConversationEntry, items: Sequence[Any]) -> bool:
    """Whether the ids of an answer go: it says so, or reasoning they are bound to was taken off."""
    before = sum(type_of(item) == "reasoning" for item in items)
    now = sum(type_of(each.raw) == "reasoning" for each in entry.reasoning or ())
    return before > now or ANONYMOUS in (entry.metadata or ())


def _order_answer(
    entry: ConversationEntry, items: Sequence[Any]
) -> list[tuple[str, Any, int | None]]:
    """Return the slots of an answer in order, each with the index of the item it stood in."""
    read = [(n, slot) for n, item in enumerate(items) for slot in _read_item(item, Reading())]
    recorded = [slot for _, slot in read]
    ordered = restore_order(entry, recorded, entry.tool_calls or (), entry.reasoning or ())
    return [(kind, it, None if place is None else read[place][0]) for kind, it, place in ordered]


def _write_answer(entry: ConversationEntry) -> list[Any]:
    """Return the items of an edited answer: each text in the message it was read from."""
    items = _items_of(entry)
    anonymous = _is_anonymous(entry, items)
    out: list[Any] = []
    used: set[int | None] = {None}
    current: int | None = None  # the item that the last one was read from
    for kind, item, home in _order_answer(entry, items):
        if kind == "call":
            out.append(_write_call(item, anonymous=anonymous))
        elif kind == "reasoning" or item.kind == "other":
            out.append(item.raw)
        elif out and "role" in out[-1] and home in (None, current):
            out[-1]["content"].append(_write_block(item, "output_text"))
            continue
        else:
            source = dict(items[home]) if home is not None else {}
            if anonymous or home in used:
                source.pop("id", None)
                source.pop("status", None)
            block = _write_block(item, "output_text")
            out.append({**source, "role": "assistant", "content": [block]})
        current = home
        used.add(home)
    for message in out:
        blocks = message["content"] if "role" in message and "id" not in message else ()
        if blocks and all(type_of(b) == "output_text" and not b.get("annotations") for b in blocks):
            message["content"] = "\n".join(block["text"] for block in blocks)
    if out and any(map(type_of, items)) and not any(map(type_of, out)):
        out[0] = {"type": "message", **out[0]}  # so that they are one answer still
    return out


def count_trailing_reasoning(entry: ConversationEntry) -> int:
    """Return how many reasoning items stand at the end of an answer, where nothing follows."""
    items = _items_of(entry) if entry.reasoning else []
    if not any(type_of(item) == "reasoning" for item in items):
        return 0
    newest = reversed(_order_answer(entry, items))
    return sum(1 for _ in takewhile(lambda slot: slot[0] == "reasoning", newest))


def item_ids(entry: ConversationEntry) -> list[tuple[str, bool]]:
    """Return the ids of the items that an answer is written with, and whether each may be one."""
    items = _items_of(entry)
    if ANONYMOUS in (entry.metadata or ()) or not any(map(type_of, items)):
        return []
    raws = [each.raw for each in entry.reasoning or ()]
    raws += [part.raw for part in entry.parts or () if part.kind == "other"]
    raws += [(call.extra or {}).get("responses") for call in entry.tool_calls or ()]
    if not _is_anonymous(entry, items):
        raws += [item for item in items if "role" in item]
    named = [(as_mapping(raw).get("id"), _ID_PREFIXES.get(type_of(raw), "")) for raw in raws]
    return [
        (name, name.startswith(prefix) and len(name) <= _MAX_ID)
        for name, prefix in named
        if isinstance(name, str)
    ]
