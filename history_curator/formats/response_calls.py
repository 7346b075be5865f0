"""Calls and outputs of OpenAI Responses: one pair of item types for every kind of tool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from history_curator.entries import ContentPart, ConversationEntry, MessageRole, ToolCall
from history_curator.formats.base import Reading, as_mapping, type_of
from history_curator.formats.blocks import join_text, read_part, update_text, write_part
from history_curator.formats.json_text import free_input, parse_object


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


CALLS: dict[str, _Kind] = {
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
OUTPUTS = {kind.output: name for name, kind in CALLS.items()}
_NEED_IDS = frozenset(("computer_call", "local_shell_call", "mcp_approval_request"))
"""Calls that are not taken without an id."""
RESPONSE_ITEMS = frozenset(
    (
        *CALLS,
        *OUTPUTS,
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
_UNTYPED = {
    "text": "text",
    "refusal": "refusal",
    "image_url": "input_image",
    "file_id": "input_file",
    "file_data": "input_file",
    "file_url": "input_file",
}
"""By field, the type of a block that has none."""


def read_parts(blocks: Sequence[Any], reading: Reading, field: str) -> tuple[ContentPart, ...]:
    """Read the blocks of a message or of an output."""
    return tuple(
        read_part(block, reading.index, f"{field}[{n}]", reading, _UNTYPED)
        for n, block in enumerate(blocks)
    )


def write_block(part: ContentPart, kind: str) -> Any:
    """Write a block; one without a type of this format is text of this kind."""
    if isinstance(part.raw, str):
        part = replace(part, raw=None)
    elif type_of(part.raw) == "text":
        part = replace(part, raw={**part.raw, "type": kind})
    new: dict[str, Any] = {"type": kind, "text": ""}
    return write_part(part, new | {"annotations": []} if kind == "output_text" else new)


def read_call(item: Mapping[str, Any], name: str, reading: Reading) -> ToolCall:
    """Read an item that asks for a call."""
    kind = CALLS[name]
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
    kind = CALLS[name]
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


def without_id(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call without the id that binds it to its reasoning, or with one of its own."""
    if type_of(item) == "mcp_approval_request":
        return dict(item)
    if type_of(item) in _NEED_IDS:
        return {**item, "id": f"{item.get('id')}_{item['call_id']}"[:64]}
    return {key: value for key, value in item.items() if key != "id"}


def read_output(source: Mapping[str, Any], name: str, reading: Reading) -> ConversationEntry:
    """Read an item that answers a call."""
    item = reading.checked(source, name)
    kind = CALLS[OUTPUTS[name]]
    call_id = reading.text_of(item.get(kind.answers), kind.answers, "the call id")
    if name == "mcp_approval_response" and not isinstance(item.get("approve"), bool):
        reading.repaired("approve: neither true nor false, which is not approved")
        item = {**item, "approve": False}
    content, parts = _read_output_body(item, name, reading)
    failed = item.get("status") in ("failed", "incomplete") or item.get("approve") is False
    tool = item.get("name")
    return ConversationEntry(
        MessageRole.TOOL,
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
            parts = read_parts(given, reading, "output")
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


def output_of(root: ConversationEntry) -> Mapping[str, Any]:
    """Return the item that a result was read from."""
    item = as_mapping(root.source) if root.role is MessageRole.TOOL else {}
    return item if root.repairs is None else as_mapping(Reading(0).checked(item, "item"))


def _kind_of(call: ToolCall) -> str:
    return str(((call.extra or {}).get("responses") or {}).get("type", "function_call"))


def answers(call: ToolCall | None, output: Mapping[str, Any]) -> bool:
    """Return whether an output is of the kind its call has; one without a call is left alone."""
    return call is None or output.get("type") == CALLS[_kind_of(call)].output


def has_object(call: ToolCall) -> bool:
    """Return whether the arguments of a call are an object on the wire."""
    return CALLS[_kind_of(call)].body not in ("arguments", "input")


def fit_call(call: ToolCall, answer: ConversationEntry | None) -> ToolCall:
    """Return a call as its answer lets it be.

    It becomes a function call where its answer cannot be written as the output of its kind.
    """
    if answer is None or "responses" not in (call.extra or ()):
        return call
    name = _kind_of(call)
    kind = CALLS[name]
    if output_of(answer.root).get("type") == kind.output and _is_as_read(answer):
        return call
    is_plain = answer.parts is None or name in ("function_call", "custom_tool_call")
    return call if kind.text and is_plain else ToolCall(call.id, call.name, call.arguments)


def _is_as_read(entry: ConversationEntry) -> bool:
    root = entry.root
    return entry.content == root.content and entry.parts == root.parts and root.repairs is None


def write_output(
    entry: ConversationEntry, source: Mapping[str, Any], call: ToolCall | None
) -> dict[str, Any]:
    """Return the item of a result, of the kind of its call."""
    name = "function_call" if call is None else _kind_of(call)
    if call is None and source.get("type") in OUTPUTS:
        name = OUTPUTS[source["type"]]
    kind = CALLS[name]
    is_own = source.get("type") == kind.output
    item: dict[str, Any] = {**source} if is_own else {"type": kind.output}
    item[kind.answers] = entry.tool_call_id
    if is_own and _is_as_read(entry):
        return item
    if kind.output == "mcp_approval_response":
        return {**item, "approve": item.get("approve") is True, "reason": entry.content or ""}
    item["output"] = entry.content or ""
    if entry.parts is not None:
        item["output"] = [write_block(part, "input_text") for part in update_text(entry)]
    if kind.output == "apply_patch_call_output" and "status" not in item:
        item["status"] = "failed" if entry.status == "error" else "completed"
    return item
