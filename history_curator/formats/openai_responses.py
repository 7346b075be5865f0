"""OpenAI Responses items: reasoning, text, calls and outputs are items of one flat list."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple

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
    free_input,
    parse_object,
    type_of,
)
from history_curator.formats.blocks import (
    Slots,
    entry_fields,
    join_text,
    read_part,
    restore_order,
    update_text,
)
from history_curator.formats.openai_chat import ROLES, build_entry, is_sent, read_role


class _Kind(NamedTuple):
    """One kind of call.

    Attributes:
        body: the field with the arguments.
        output: the type of the item that answers it.
        tool: the name of the tool, where the item does not say.
        id: the field that names the call.
        answers: the field of the output that names the call.
        text: whether the output is text, so that a text can stand in for it.
    """

    body: str
    output: str
    tool: str | None = None
    id: str = "call_id"
    answers: str = "call_id"
    text: bool = True


_KINDS: dict[str, _Kind] = {
    "function_call": _Kind("arguments", "function_call_output"),
    "custom_tool_call": _Kind("input", "custom_tool_call_output"),
    "computer_call": _Kind("action", "computer_call_output", "computer", text=False),
    "local_shell_call": _Kind("action", "local_shell_call_output", "local_shell", answers="id"),
    "shell_call": _Kind("action", "shell_call_output", "shell", text=False),
    "apply_patch_call": _Kind("operation", "apply_patch_call_output", "apply_patch"),
    "mcp_approval_request": _Kind(
        "arguments", "mcp_approval_response", id="id", answers="approval_request_id"
    ),
}
_OUTPUTS = {kind.output: name for name, kind in _KINDS.items()}
_NEED_IDS = frozenset(("computer_call", "local_shell_call", "mcp_approval_request"))
"""Calls that are not taken without an id."""
_ALONE = {
    "compaction": MessageRole.ASSISTANT,
    "compaction_trigger": MessageRole.USER,
    "additional_tools": MessageRole.SYSTEM,
}
"""Items that are no part of an answer, and who speaks in them."""
RESPONSE_ITEMS = frozenset(
    (
        *_KINDS,
        *_OUTPUTS,
        "reasoning",
        "compaction",
        "item_reference",
        "mcp_call",
        "mcp_list_tools",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "tool_search_output",
        "program",
        "program_output",
    )
)
"""Types of items that no other format has."""
RESPONSE_BLOCKS = frozenset(("input_text", "output_text", "input_image", "input_file"))
"""Blocks that only messages of Responses have."""
ANONYMOUS = "anonymous"
"""Says in the metadata of an answer that its items are written without their ids."""
_MESSAGE_KEYS = frozenset(("type", "role", "content", "id", "status", "phase"))
_UNTYPED = {
    "text": "text",
    "refusal": "refusal",
    "image_url": "input_image",
    "file_id": "input_file",
    "file_data": "input_file",
    "file_url": "input_file",
}
"""By field, the type of a block that has none."""
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
        if kind in _OUTPUTS:
            return (_read_output(message, kind, reading),)
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
            parts = _read_parts(content, reading, "content")
            content = join_text(parts)
        elif not isinstance(content, str):
            raise reading.missing(content, "content", "make it a string or a list of blocks.")
        return (build_entry(message, role, reading, content, parts, known=_MESSAGE_KEYS),)

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return items; untouched ones are the same objects."""
        out: list[Any] = []
        calls: dict[str, ToolCall] = {}
        for position, entry in enumerate(entries):
            if entry.tool_calls:
                calls = {call.id: call for call in entry.tool_calls}
            is_result = entry.role is _TOOL
            call = calls.get(entry.tool_call_id or "") if is_result else None
            source = _output_of(entry.root) if is_result else {}
            if count_untouched(entries, position) and not (is_result and not answers(call, source)):
                out.append(entry.source)
            elif is_result:
                out.append(copy_value(_write_output(entry, source, call)))
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
    return bool(kind) and kind not in _OUTPUTS and kind not in _ALONE and kind != "message"


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


def _read_parts(blocks: Sequence[Any], reading: Reading, field: str) -> tuple[ContentPart, ...]:
    return tuple(
        read_part(block, reading.index, f"{field}[{n}]", reading, _UNTYPED)
        for n, block in enumerate(blocks)
    )


def _write_part(part: ContentPart, kind: str) -> Any:
    """Write a block; one without a type of this format is text of this kind."""
    raw = part.raw
    if part.kind != "text":
        return raw
    if not isinstance(raw, Mapping) or not ("text" in raw or "refusal" in raw):
        noted: dict[str, Any] = {"annotations": []} if kind == "output_text" else {}
        return {"type": kind, "text": part.text or "", **noted}
    key = "refusal" if raw.get("type") == "refusal" else "text"
    if raw.get("type") == "text":
        raw = {**raw, "type": kind}
    return raw if raw.get(key) == part.text else {**raw, key: part.text or ""}


def _write_input(entry: ConversationEntry) -> dict[str, Any]:
    source = as_mapping(entry.root.source)
    if type_of(source) in _ALONE:
        return dict(Reading(0).checked(source, "item"))
    fields = _message_fields(source, Reading(0))
    message = {key: fields[key] for key in fields if is_sent(key, entry, _MESSAGE_KEYS)}
    message["role"] = entry.role_name if entry.role_name == "developer" else entry.role.value
    message["content"] = entry.content or ""
    if entry.parts is not None:
        message["content"] = [_write_part(part, "input_text") for part in update_text(entry)]
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
        parts = _read_parts(content, reading, "content")
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
    if kind in _KINDS:
        return [("call", _read_call(item, kind, reading))]
    return [("part", ContentPart("other", None, item))]


def _read_reasoning(item: Mapping[str, Any], reading: Reading) -> Reasoning:
    texts = [
        each["text"]
        for key in ("summary", "content")
        for each in reading.list_of(item.get(key), f"reasoning.{key}")
        if isinstance(reading.object_of(each, f"reasoning.{key}").get("text"), str)
    ]
    encrypted = item.get("encrypted_content")
    if encrypted is not None and not isinstance(encrypted, str):
        reading.repaired("reasoning.encrypted_content: it was not text, and is left out")
        item = {key: item[key] for key in item if key != "encrypted_content"}
        encrypted = None
    return Reasoning("\n".join(texts) or None, encrypted, item, encrypted=encrypted is not None)


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
            out.append(_without_id(written) if anonymous else written)
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
                current["content"].append(_write_part(item, "output_text"))
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


def _without_id(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call without the id that binds it to its reasoning, or with one of its own."""
    if type_of(item) == "mcp_approval_request":
        return dict(item)
    if type_of(item) in _NEED_IDS:
        return {**item, "id": f"{item.get('id')}_{item['call_id']}"[:64]}
    return {key: value for key, value in item.items() if key != "id"}


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
    written = [
        block
        for item in _write_answer(entry)
        if isinstance(item.get("content"), list)
        for block in item["content"]
        if _notes(block)
    ]
    parts = []
    for part in entry.parts or ():
        if not _notes(part.raw):
            parts.append(part)
        elif part.raw in written:
            written.remove(part.raw)
            parts.append(part)
        else:
            parts.append(replace(part, raw={**part.raw, "annotations": []}))
    return entry.parts if tuple(parts) == entry.parts else tuple(parts)


def _notes(block: Any) -> Any:
    return block.get("annotations") if type_of(block) == "output_text" else None


# Calls and outputs: one pair of item types for every kind of tool.


def _read_call(item: Mapping[str, Any], name: str, reading: Reading) -> ToolCall:
    kind = _KINDS[name]
    call_id = reading.text_of(item.get(kind.id), kind.id, "the call id")
    tool = kind.tool or reading.text_of(item.get("name"), "name", "the name of the tool")
    body = kind.body
    if body not in item and f"{body}s" in item:  # several actions of a computer at once
        body = f"{body}s"
    given = item.get(body)
    if name == "custom_tool_call":
        arguments = reading.free_text(given, "input")
    elif kind.body == "arguments":
        arguments = reading.arguments(given, "arguments")
    else:
        arguments = reading.object_text(given if body == kind.body else {body: given}, body)
    extra = {key: item[key] for key in item if key not in (kind.id, body, "type", "name")}
    if name == "function_call" and not extra:
        return ToolCall(call_id, tool, arguments)
    return ToolCall(call_id, tool, arguments, {"responses": {**extra, "type": name}})


def write_call(call: ToolCall) -> dict[str, Any]:
    """Return the item of a call."""
    extra = dict((call.extra or {}).get("responses") or {})
    name = extra.pop("type", "function_call")
    kind = _KINDS[name]
    item: dict[str, Any] = {"type": name, kind.id: call.id}
    if kind.tool is None:
        item["name"] = call.name
    if name == "custom_tool_call":
        item["input"] = free_input(call.arguments)
    elif kind.body == "arguments":
        item["arguments"] = call.arguments
    else:
        given = parse_object(call.arguments) or {}
        item |= given if given.keys() == {f"{kind.body}s"} else {kind.body: given}
    return {**item, **extra}


def _read_output(source: Mapping[str, Any], name: str, reading: Reading) -> ConversationEntry:
    item = reading.checked(source, name)
    kind = _KINDS[_OUTPUTS[name]]
    call_id = reading.text_of(item.get(kind.answers), kind.answers, "the call id")
    if name == "mcp_approval_response" and not isinstance(item.get("approve"), bool):
        reading.repaired("approve: neither true nor false, which is not approved")
        item = {**item, "approve": False}
    content, parts = _read_output_body(item, name, reading)
    failed = item.get("status") in ("failed", "incomplete") or item.get("approve") is False
    tool = item.get("name")
    return ConversationEntry(
        _TOOL,
        content,
        sequence=reading.index,
        source=source,
        tool_call_id=call_id or None,
        tool_name=tool if isinstance(tool, str) else None,
        parts=parts,
        status="error" if failed else None,
        repairs=reading.note,
    )


def _read_output_body(
    item: Mapping[str, Any], name: str, reading: Reading
) -> tuple[str | None, tuple[ContentPart, ...] | None]:
    if name == "mcp_approval_response":
        reason = item.get("reason")
        if isinstance(reason, str) and reason.strip():
            return reason, None
        return "approved" if item.get("approve") else "not approved", None
    given = item.get("output")
    if given is None and name == "apply_patch_call_output":
        return str(item.get("status", "completed")), None
    if isinstance(given, str):
        return given, None
    if name == "computer_call_output" and isinstance(given, Mapping):
        return None, (read_part({**given, "type": "input_image"}, reading.index, "output"),)
    if isinstance(given, (list, tuple)):
        if name == "shell_call_output":
            parts = tuple(
                _read_chunk(reading.object_of(chunk, f"output[{n}]"), reading, f"output[{n}]")
                for n, chunk in enumerate(given)
            )
        else:
            parts = _read_parts(given, reading, "output")
        return join_text(parts), parts
    if given is None or isinstance(given, (Mapping, int, float)):
        reading.repaired("output: the output was not text")
        return ("" if given is None else json.dumps(given, ensure_ascii=False, default=str)), None
    raise reading.mistyped("the output", given, "output", "make it a string or a list of blocks.")


def _read_chunk(chunk: Mapping[str, Any], reading: Reading, field: str) -> ContentPart:
    texts = []
    for key in ("stdout", "stderr"):
        text = chunk.get(key)
        if text is not None and not isinstance(text, str):
            raise reading.mistyped(key, text, f"{field}.{key}", "make it a string.")
        texts.append(text or "")
    return ContentPart("text", "\n".join(filter(None, texts)) or "(no output)", chunk)


def _output_of(root: ConversationEntry) -> Mapping[str, Any]:
    """Return the item that a result was read from."""
    item = as_mapping(root.source) if root.role is _TOOL else {}
    return item if root.repairs is None else as_mapping(Reading(0).checked(item, "item"))


def _kind_of(call: ToolCall) -> str:
    return str(((call.extra or {}).get("responses") or {}).get("type", "function_call"))


def answers(call: ToolCall | None, output: Mapping[str, Any]) -> bool:
    """Return whether an output is of the kind its call has; one without a call is left alone."""
    return call is None or output.get("type") == _KINDS[_kind_of(call)].output


def has_object(call: ToolCall) -> bool:
    """Return whether the arguments of a call are an object on the wire."""
    return _KINDS[_kind_of(call)].body not in ("arguments", "input")


def fit_call(call: ToolCall, answer: ConversationEntry | None) -> ToolCall:
    """Return a call as its answer lets it be.

    It becomes a function call where its answer cannot be written as the output of its kind.
    """
    if answer is None or "responses" not in (call.extra or ()):
        return call
    name = _kind_of(call)
    kind = _KINDS[name]
    if _output_of(answer.root).get("type") == kind.output and _is_as_read(answer):
        return call
    is_plain = answer.parts is None or name in ("function_call", "custom_tool_call")
    return call if kind.text and is_plain else ToolCall(call.id, call.name, call.arguments)


def _is_as_read(entry: ConversationEntry) -> bool:
    root = entry.root
    return entry.content == root.content and entry.parts == root.parts and root.repairs is None


def _write_output(
    entry: ConversationEntry, source: Mapping[str, Any], call: ToolCall | None
) -> dict[str, Any]:
    """Return the item of a result, of the kind of its call."""
    name = "function_call" if call is None else _kind_of(call)
    if call is None and source.get("type") in _OUTPUTS:
        name = _OUTPUTS[source["type"]]
    kind = _KINDS[name]
    is_own = source.get("type") == kind.output
    item: dict[str, Any] = {**source} if is_own else {"type": kind.output}
    item[kind.answers] = entry.tool_call_id
    if is_own and _is_as_read(entry):
        return item
    if kind.output == "mcp_approval_response":
        return {**item, "approve": item.get("approve") is True, "reason": entry.content or ""}
    item["output"] = entry.content or ""
    if entry.parts is not None:
        item["output"] = [_write_part(part, "input_text") for part in update_text(entry)]
    if kind.output == "apply_patch_call_output" and "status" not in item:
        item["status"] = "failed" if entry.status == "error" else "completed"
    return item
