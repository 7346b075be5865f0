"""Calls and outputs of OpenAI Responses: one pair of item types for every kind of tool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from history_curator.formats._fields import Reading, free_input, parse_object
from history_curator.formats._parts import join_text, read_part, text_first
from history_curator.formats._slots import is_as_read
from history_curator.entries import ContentPart, ConversationEntry, MessageRole, ToolCall, new_entry


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
CALL_TYPES = frozenset(_KINDS)
OUTPUT_TYPES = {kind.output: name for name, kind in _KINDS.items()}
_UNTYPED = {"text": "text", "refusal": "refusal", "image_url": "input_image"}
_UNTYPED |= dict.fromkeys(("file_id", "file_data", "file_url"), "input_file")
"""Fields that say what an untyped block is."""


def read_call(item: Mapping[str, Any], name: str, reading: Reading) -> ToolCall:
    """Read an item that asks for a call."""
    kind = _KINDS[name]
    call_id = reading.name_of(item.get(kind.id), kind.id, "the call id")
    tool = kind.tool or reading.name_of(item.get("name"), "name", "the name of the tool")
    body = kind.body
    if body not in item and f"{body}s" in item:  # several actions of a computer at once
        body = f"{body}s"
    given = item.get(body)
    if name == "custom_tool_call":
        arguments = reading.free_text(given, "input")
    elif kind.body == "arguments":
        arguments = reading.arguments(given, "arguments")
    elif body == kind.body:
        arguments = reading.object_text(given, body)
    else:
        arguments = reading.object_text({body: given}, body)
    modelled = (kind.id, body, "type", "name")
    kept = {key: item[key] for key in item if key not in modelled}
    if name == "function_call" and not kept:
        return ToolCall(call_id, tool, arguments)
    return ToolCall(call_id, tool, arguments, {"responses": {**kept, "type": name}})


def write_call(call: ToolCall) -> dict[str, Any]:
    """Return the item of a call."""
    kept = dict((call.extra or {}).get("responses") or {})
    name = kept.pop("type", "function_call")
    kind = _KINDS[name]
    item: dict[str, Any] = {"type": name, kind.id: call.id}
    if kind.tool is None:
        item["name"] = call.name
    given = parse_object(call.arguments) or {}
    if name == "custom_tool_call":
        item["input"] = free_input(call.arguments)
    elif kind.body == "arguments":
        item["arguments"] = call.arguments
    elif given.keys() == {f"{kind.body}s"}:
        item |= given
    else:
        item[kind.body] = given
    return {**item, **kept}


def read_output(
    item: Mapping[str, Any], source: Any, name: str, reading: Reading
) -> ConversationEntry:
    """Read an item that answers a call."""
    mine = Reading(reading.index)
    item = mine.checked(item, name)
    kind = _KINDS[OUTPUT_TYPES[name]]
    call_id = mine.name_of(item.get(kind.answers), kind.answers, "the call id")
    if name == "mcp_approval_response" and not isinstance(item.get("approve"), bool):
        mine.repaired("approve: neither true nor false, which is not approved")
        item = {**item, "approve": False}
    content, parts = _said(item, name, mine)
    failed = item.get("status") in ("failed", "incomplete") or item.get("approve") is False
    tool = item.get("name")
    return new_entry(
        MessageRole.TOOL,
        content,
        mine.index,
        source,
        tool_call_id=call_id or None,
        tool_name=tool if isinstance(tool, str) else None,
        parts=parts,
        status="error" if failed else None,
        seldom={"repairs": mine.note} if mine.repairs else None,
    )


def _said(
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
        shown = read_part({**given, "type": "input_image"}, reading.index, "output")
        return None, (shown,)
    if isinstance(given, (list, tuple)):
        if name == "shell_call_output":
            parts = tuple(
                _read_chunk(reading.object_of(chunk, f"output[{at}]"), reading, f"output[{at}]")
                for at, chunk in enumerate(given)
            )
        else:
            parts = tuple(read_parts(given, reading, "output"))
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
    return ContentPart("text", "\n".join(text for text in texts if text) or "(no output)", chunk)


def answers(call: ToolCall | None, recorded: Mapping[str, Any]) -> bool:
    """Whether an output is of the kind its call has; an output without a call is left alone."""
    return call is None or recorded.get("type") == _KINDS[_kind_of(call)].output


def has_object(call: ToolCall) -> bool:
    """Whether the arguments of a call are an object on the wire."""
    return _KINDS[_kind_of(call)].body not in ("arguments", "input")


def _kind_of(call: ToolCall) -> str:
    return str(((call.extra or {}).get("responses") or {}).get("type", "function_call"))


def fits_output(call: ToolCall, entry: ConversationEntry, recorded: Mapping[str, Any]) -> bool:
    """Whether a result can be written as the output that this kind of call has."""
    kind = _kind_of(call)
    if recorded.get("type") == _KINDS[kind].output and is_as_read(entry):
        return True
    return _KINDS[kind].text and (
        entry.parts is None or kind in ("function_call", "custom_tool_call")
    )


def write_output(
    entry: ConversationEntry, recorded: Mapping[str, Any], call: ToolCall | None
) -> dict[str, Any]:
    """Return the item of a result, of the kind of its call."""
    name = "function_call" if call is None else _kind_of(call)
    if call is None and recorded.get("type") in OUTPUT_TYPES:
        name = OUTPUT_TYPES[recorded["type"]]
    kind = _KINDS[name]
    own = recorded.get("type") == kind.output
    item: dict[str, Any] = {**recorded} if own else {"type": kind.output}
    item[kind.answers] = entry.tool_call_id
    if own and is_as_read(entry):
        return item
    if kind.output == "mcp_approval_response":
        approved = item.get("approve") is True
        return {**item, "approve": approved, "reason": entry.content or ""}
    if entry.parts is None:
        item["output"] = entry.content or ""
    else:
        item["output"] = [write_part(part, "input_text") for part in text_first(entry)]
    if kind.output == "apply_patch_call_output" and "status" not in item:
        item["status"] = "failed" if entry.status == "error" else "completed"
    return item


def read_parts(blocks: Sequence[Any], reading: Reading, field: str) -> list[ContentPart]:
    """Read the blocks of a message or of an output."""
    return [
        read_part(block, reading.index, f"{field}[{at}]", reading, _UNTYPED)
        for at, block in enumerate(blocks)
    ]


def write_part(part: ContentPart, kind: str) -> Any:
    """Return a block; what has no type of this format is text of this kind."""
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
