"""The calls of an `AIMessage`: read once, wherever it keeps them, and written everywhere it does.

It keeps them in ``tool_calls`` or ``invalid_tool_calls``, again in ``additional_kwargs`` the way the
provider spelled them, and with some providers in the blocks of its content as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage

from history_curator.dialects import arguments_text
from history_curator.model import ToolCall, new_call
from langchain_history_curator._blocks import arguments_object

Renewed = dict[str, list[ToolCall]]
"""Calls as they now are, by the id they were read with."""

_WITHOUT = AIMessage("")


def read_calls(message: Any, in_blocks: Sequence[ToolCall]) -> tuple[ToolCall, ...] | None:
    """Every call of an `AIMessage` once: parsed, invalid, then those only in content blocks."""
    fields = message.__dict__
    extra = fields["additional_kwargs"]
    written = _spelled(extra.get("tool_calls")) if extra else {}
    if "tool_call_chunks" in fields:
        for chunk in fields["tool_call_chunks"]:
            if chunk.get("id"):
                written.setdefault(chunk["id"], chunk.get("args") or "")
    signatures = extra.get("__gemini_function_call_thought_signatures__") if extra else None
    calls = []
    for call in fields["tool_calls"]:
        call_id, arguments = call["id"] or "", call["args"]
        text = written.get(call_id)
        if text is None or not _says(text, arguments, partial="tool_call_chunks" in fields):
            text = arguments_text(arguments)
        read = new_call(call_id, call["name"] or "", text)
        if signatures and call_id in signatures:
            read = replace(read, extra={"signature": signatures[call_id]})
        calls.append(read)
    calls += [
        new_call(call["id"] or "", call["name"] or "", call["args"] or "")
        for call in fields["invalid_tool_calls"]
    ]
    if not calls and extra:
        legacy = extra.get("function_call")
        if isinstance(legacy, dict):
            text = arguments_text(legacy.get("arguments") or "{}")
            calls.append(new_call("", str(legacy.get("name") or ""), text))
    if in_blocks:
        seen = {call.id for call in calls}
        calls += [call for call in in_blocks if call.id not in seen]
    return tuple(calls) or None


def _spelled(raw: Any) -> dict[str, str]:
    if not isinstance(raw, list):
        return {}
    return {
        call["id"]: call["function"]["arguments"]
        for call in raw
        if isinstance(call, dict)
        and call.get("id")
        and isinstance(call.get("function"), dict)
        and isinstance(call["function"].get("arguments"), str)
    }


def _says(text: str, arguments: Any, *, partial: bool) -> bool:
    parsed = arguments_object(text)
    return parsed == arguments or (partial and parsed is None)


def changed_calls(
    message: AIMessage, old: Sequence[ToolCall], new: Sequence[ToolCall]
) -> tuple[dict[str, Any], Renewed]:
    """Return the fields of a message whose calls are to be others, and the calls for its blocks."""
    origins = _origins(old, new)
    renewed: Renewed = {}
    for call, origin in zip(new, origins, strict=True):
        if origin is not None:
            renewed.setdefault(old[origin].id, []).append(call)
    if new == old:
        return {}, renewed
    valid, invalid = call_rows(new, message, old, origins)
    fields: dict[str, Any] = {
        "tool_calls": valid,
        "invalid_tool_calls": invalid,
        "additional_kwargs": _aside(message.additional_kwargs, old, renewed),
    }
    if getattr(message, "tool_call_chunks", None):
        fields["tool_call_chunks"] = _chunks(new)
    return fields, renewed


def _origins(old: Sequence[ToolCall], new: Sequence[ToolCall]) -> list[int | None]:
    """For each new call, the position of the old one it was made from.

    Same id first; a renamed call is found by its place among the rest, since edits keep order.
    """
    taken: set[int] = set()
    found: list[int | None] = []
    for call in new:
        at = next((i for i, o in enumerate(old) if i not in taken and o.id == call.id), None)
        if at is not None:
            taken.add(at)
        found.append(at)
    free = [i for i in range(len(old)) if i not in taken]
    for position, call in enumerate(new):
        if found[position] is not None or not free:
            continue
        alike = [i for i in free if old[i].name == call.name] or (
            free if len(new) == len(old) else []
        )
        if alike:
            found[position] = alike[0]
            free.remove(alike[0])
    return found


def call_rows(
    calls: Sequence[ToolCall],
    message: AIMessage = _WITHOUT,
    old: Sequence[ToolCall] = (),
    origins: Sequence[int | None] = (),
) -> tuple[list[Any], list[Any]]:
    """Return calls as ``tool_calls`` and ``invalid_tool_calls``.

    A row of a message that had the call before, as one of `old`, keeps what else it holds.
    """
    valid: list[Any] = []
    invalid: list[Any] = []
    given = len(message.tool_calls)
    for call, origin in zip(calls, origins or [None] * len(calls), strict=True):
        same = origin is not None and old[origin].arguments == call.arguments
        if origin is not None and origin < given and same:
            kept: Any = message.tool_calls[origin]
            valid.append({**kept, "name": call.name, "id": call.id})
            continue
        arguments = arguments_object(call.arguments)
        if arguments is not None:
            valid.append({"name": call.name, "args": arguments, "id": call.id, "type": "tool_call"})
            continue
        known: dict[str, Any] = {"error": None}
        if origin is not None and 0 <= origin - given < len(message.invalid_tool_calls):
            known = dict(message.invalid_tool_calls[origin - given])
        known.update(name=call.name, args=call.arguments, id=call.id, type="invalid_tool_call")
        invalid.append(known)
    return valid, invalid


def _chunks(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    return [
        {
            "name": call.name,
            "args": call.arguments,
            "id": call.id,
            "index": index,
            "type": "tool_call_chunk",
        }
        for index, call in enumerate(calls)
    ]


def _aside(extra: dict[str, Any], old: Sequence[ToolCall], renewed: Renewed) -> dict[str, Any]:
    # additional_kwargs["tool_calls"] and every table keyed by call id, such as Gemini's thought
    # signatures or OpenAI's item ids.
    changed = dict(extra)
    changed.pop("function_call", None)
    gone = {call.id for call in old} - renewed.keys()
    for key, value in extra.items():
        if key == "tool_calls" and isinstance(value, list):
            waiting = {call_id: list(calls) for call_id, calls in renewed.items()}
            rows = [
                _row(row, waiting[row["id"]].pop(0)) for row in value if waiting.get(row.get("id"))
            ]
            if rows:
                changed[key] = rows
            else:
                del changed[key]
        elif isinstance(value, dict) and any(call.id in value for call in old):
            changed[key] = {
                (renewed[k][0].id if k in renewed else k): v
                for k, v in value.items()
                if k not in gone
            }
    return changed


def _row(row: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    function = {**row.get("function", {}), "name": call.name, "arguments": call.arguments}
    return {**row, "id": call.id, "function": function}
