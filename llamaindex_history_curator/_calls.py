"""Tool calls as LlamaIndex keeps them: `ToolCallBlock`, ``additional_kwargs``, or both at once."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from pydantic import BaseModel

from history_curator.formats import arguments_text
from history_curator.entries import ToolCall

_ID_KEYS = ("call_id", "tool_call_id", "tool_id", "toolUseId", "id")
_NAME_KEYS = ("name", "tool_name")
_ARGUMENT_KEYS = ("arguments", "args", "input", "tool_kwargs")


def read_calls(message: ChatMessage) -> tuple[ToolCall, ...]:
    """Return the calls of a message, each once however many times it is encoded.

    OpenAI's adapter writes every call as a block and again as an SDK object in
    ``additional_kwargs["tool_calls"]``; most others write only one of the two.
    """
    blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    kwargs = message.additional_kwargs
    if not blocks and not kwargs:
        return ()
    wires = list(kwargs.get("tool_calls") or ())
    if not wires and not blocks and kwargs.get("function_call"):
        wires = [kwargs["function_call"]]
    signatures = _signatures(message)
    calls = []
    for block in blocks:
        wire = _take_twin(block, wires)
        calls.append(_call(block, wire, signatures.get(id(block))))
    calls.extend(_call(None, wire, None) for wire in wires)
    return tuple(calls)


def write_block(call: ToolCall) -> ToolCallBlock:
    """Return the block of a call: the very one it was read from unless the call was edited."""
    block: ToolCallBlock | None = (call.extra or {}).get("block")
    if block is None:
        return ToolCallBlock(
            tool_call_id=call.id, tool_name=call.name, tool_kwargs=_parsed(call.arguments)
        )
    before = _call(block, (call.extra or {}).get("wire"), None)
    changes: dict[str, Any] = {}
    if call.id != before.id:
        changes["tool_call_id"] = call.id
    if call.name != before.name:
        changes["tool_name"] = call.name
    if call.arguments != before.arguments:
        as_text = isinstance(block.tool_kwargs, str)
        changes["tool_kwargs"] = call.arguments if as_text else _parsed(call.arguments)
    return block.model_copy(update=changes) if changes else block


def write_wire(call: ToolCall) -> Any:
    """Return the ``additional_kwargs`` form of a call, in the shape it came in."""
    wire = (call.extra or {}).get("wire")
    if wire is None:
        function = {"name": call.name, "arguments": call.arguments}
        return {"id": call.id, "type": "function", "function": function}
    before = _call(None, wire, None)
    outer: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    function = _get(wire, "function")
    holder = wire if function is None else function
    if call.id != before.id and (key := _first_key(wire, _ID_KEYS)):
        outer[key] = call.id
    if call.name != before.name and (key := _first_key(holder, _NAME_KEYS)):
        inner[key] = call.name
    if call.arguments != before.arguments and (key := _first_key(holder, _ARGUMENT_KEYS)):
        as_text = isinstance(_get(holder, key), str)
        inner[key] = call.arguments if as_text else _parsed(call.arguments)
    if function is None:
        outer.update(inner)
    elif inner:
        outer["function"] = _updated(function, inner)
    return _updated(wire, outer) if outer else wire


def _call(block: ToolCallBlock | None, wire: Any, signature: Any) -> ToolCall:
    holder = None if wire is None else _get(wire, "function")
    if holder is None:
        holder = wire
    written = None if holder is None else _first(holder, _ARGUMENT_KEYS)
    if block is not None and not isinstance(written, str):
        written = block.tool_kwargs
    name = block.tool_name if block is not None else _first(holder, _NAME_KEYS)
    call_id = block.tool_call_id if block is not None else None
    if not call_id and wire is not None:
        call_id = _first(wire, _ID_KEYS)
    extra: dict[str, Any] = {"block": block, "wire": wire}
    signature = signature or (None if wire is None else _get(wire, "thought_signature"))
    if signature:
        extra["thought_signature"] = signature
    # Gemini has no ids: its adapter answers a call by the name of the function.
    return ToolCall(str(call_id or name or ""), str(name or ""), arguments_text(written), extra)


def _take_twin(block: ToolCallBlock, wires: list[Any]) -> Any:
    """Remove and return the ``additional_kwargs`` twin of a block, or None."""
    for index, wire in enumerate(wires):
        wire_id = _first(wire, _ID_KEYS)
        if block.tool_call_id and wire_id:
            if block.tool_call_id == wire_id or block.tool_call_id == _get(wire, "id"):
                return wires.pop(index)
        else:
            holder = _get(wire, "function")
            if _first(wire if holder is None else holder, _NAME_KEYS) == block.tool_name:
                return wires.pop(index)
    return None


def _signatures(message: ChatMessage) -> dict[int, Any]:
    """Gemini keeps one thought signature per block, by position."""
    listed = message.additional_kwargs.get("thought_signatures")
    if not isinstance(listed, Sequence) or isinstance(listed, (str, bytes)):
        return {}
    pairs = zip(message.blocks, listed, strict=False)
    return {id(block): signature for block, signature in pairs if signature}


def _parsed(arguments: str) -> Any:
    """Return arguments as a dict where they are one, else as the text they are."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


def _get(holder: Any, key: str) -> Any:
    if isinstance(holder, Mapping):
        return holder.get(key)
    return getattr(holder, key, None)


def _first_key(holder: Any, keys: Sequence[str]) -> str | None:
    return next((key for key in keys if _get(holder, key) is not None), None)


def _first(holder: Any, keys: Sequence[str]) -> Any:
    key = _first_key(holder, keys)
    return None if key is None else _get(holder, key)


def _updated(holder: Any, changes: dict[str, Any]) -> Any:
    if isinstance(holder, Mapping):
        return {**holder, **changes}
    if isinstance(holder, BaseModel):
        return holder.model_copy(update=changes)
    twin = copy.copy(holder)
    for key, value in changes.items():
        setattr(twin, key, value)
    return twin
