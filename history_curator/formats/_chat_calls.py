"""The calls of Chat Completions: functions and custom tools, beside the content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from history_curator.formats._fields import Reading, free_input
from history_curator.entries import ToolCall, new_call

__all__ = ["merged_calls", "plain_calls", "read_calls", "write_call"]

_CALL_KEYS = frozenset(("id", "type", "function"))
_BODY_KEYS = frozenset(("name", "arguments"))


def plain_calls(listed: Any) -> tuple[ToolCall, ...] | None:
    """Read the common case, functions; None when there is anything else to look at."""
    if listed.__class__ is not list:
        return None
    calls = []
    for call in listed:
        if call.__class__ is not dict or not call.keys() <= _CALL_KEYS:
            return None
        body, call_id = call.get("function"), call.get("id")
        if body.__class__ is not dict or call.get("type") != "function":
            return None
        name, arguments = body.get("name"), body.get("arguments")
        if not (name.__class__ is call_id.__class__ is arguments.__class__ is str):
            return None
        if len(body) != len(_BODY_KEYS) or "NaN" in arguments or "Infinity" in arguments:
            return None
        calls.append(new_call(call_id, name, arguments))
    return tuple(calls)


def read_calls(message: Mapping[str, Any], reading: Reading) -> tuple[ToolCall, ...]:
    """Read the calls beside the content."""
    listed = message.get("tool_calls") or ()
    if not isinstance(listed, (list, tuple)):
        raise reading.mistyped("tool_calls", listed, "tool_calls", "make it a list of calls.")
    calls = [_read_call(call, f"tool_calls[{at}]", reading) for at, call in enumerate(listed)]
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        name = reading.name_of(legacy.get("name"), "function_call.name", "the name")
        arguments = reading.arguments(legacy.get("arguments"), "function_call.arguments")
        calls.append(ToolCall("", name, arguments))
    return tuple(calls)


def _read_call(call: Any, field: str, reading: Reading) -> ToolCall:
    if not isinstance(call, Mapping):
        fix = 'use {"id": …, "type": "function", "function": {"name": …, "arguments": …}}.'
        raise reading.mistyped("the call", call, field, fix)
    call = reading.checked(call, field)
    kind = "custom" if call.get("type") == "custom" else "function"
    body = call.get(kind)
    if call.get("type") != kind:
        reading.repaired(f"{field}.type: the call had no type that is known")
    if not isinstance(body, Mapping):
        body = call.get("function", call.get("custom", call))
        body = body if isinstance(body, Mapping) else {}
        reading.repaired(f"{field}.{kind}: the call was not in its place")
    call_id = reading.name_of(call.get("id"), f"{field}.id", "the call id")
    name = reading.name_of(body.get("name"), f"{field}.{kind}.name", "the name of the tool")
    if kind == "custom":
        arguments = reading.free_text(body.get("input"), f"{field}.custom.input")
    else:
        given = body.get("arguments", body.get("args", body.get("input")))
        arguments = reading.arguments(given, f"{field}.function.arguments")
    kept = {key: call[key] for key in call if key not in ("id", "type", kind)}
    inside = {key: body[key] for key in body if key not in (*_BODY_KEYS, "args", "input")}
    if body is call:
        kept, inside = {}, {}
    if kind == "function" and not kept and not inside:
        return ToolCall(call_id, name, arguments)
    return ToolCall(call_id, name, arguments, {"chat": {"type": kind, **kept, "body": inside}})


def merged_calls(
    blocks: tuple[ToolCall, ...], listed: tuple[ToolCall, ...]
) -> tuple[ToolCall, ...]:
    """A call present both as a content block and in ``tool_calls`` is one call."""
    if not blocks:
        return listed
    seen = {call.id for call in blocks if call.id}
    return blocks + tuple(call for call in listed if call.id not in seen)


def write_call(call: ToolCall) -> dict[str, Any]:
    """Return a call as it stands beside the content."""
    kept = dict((call.extra or {}).get("chat") or {})
    kind, body = kept.pop("type", "function"), kept.pop("body", {})
    if kind == "custom":
        body = {**body, "name": call.name, "input": free_input(call.arguments)}
    else:
        body = {**body, "name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": kind, kind: body, **kept}
