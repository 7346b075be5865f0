"""One reader per class of LangChain message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import ChatMessage

from history_curator.errors import ConversionError
from history_curator.model import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    ToolCall,
)
from langchain_history_curator._blocks import (
    RESULTS,
    arguments_object,
    arguments_text,
    kind_of,
    read_blocks,
)

_USER, _SYSTEM = MessageRole.USER, MessageRole.SYSTEM
_ASSISTANT, _TOOL = MessageRole.ASSISTANT, MessageRole.TOOL

_CHAT_ROLES = {
    "user": _USER,
    "human": _USER,
    "system": _SYSTEM,
    "developer": _SYSTEM,
    "assistant": _ASSISTANT,
    "ai": _ASSISTANT,
    "model": _ASSISTANT,
    "orchestrator": _ASSISTANT,
    "tool": _TOOL,
    "function": _TOOL,
}


def read_nothing(message: Any, index: int) -> tuple[ConversationEntry, ...]:
    return ()


def read_entry(message: ConversationEntry, index: int) -> tuple[ConversationEntry, ...]:
    return (message,)


def read_human(message: Any, index: int) -> tuple[ConversationEntry, ...]:
    fields = message.__dict__
    content = fields["content"]
    if content.__class__ is str:
        return (
            ConversationEntry(
                _USER,
                content,
                sequence=index,
                name=fields["name"],
                source=message,
                pinned=_pinned(fields),
            ),
        )
    if any(kind_of(block) == "result" for block in content):
        return _read_results(message, content, index)
    blocks = read_blocks(content)
    return (
        ConversationEntry(
            _USER,
            blocks.text,
            sequence=index,
            name=fields["name"],
            parts=blocks.parts,
            source=message,
            pinned=_pinned(fields),
        ),
    )


def read_system(message: Any, index: int) -> tuple[ConversationEntry, ...]:
    fields = message.__dict__
    content = fields["content"]
    parts = None
    if content.__class__ is not str:
        blocks = read_blocks(content)
        content, parts = blocks.text, blocks.parts
    return (
        ConversationEntry(
            _SYSTEM,
            content,
            sequence=index,
            name=fields["name"],
            parts=parts,
            source=message,
            pinned=_pinned(fields),
        ),
    )


def read_tool(message: Any, index: int) -> tuple[ConversationEntry, ...]:
    fields = message.__dict__
    content = fields["content"]
    parts = None
    if content.__class__ is not str:
        blocks = read_blocks(content)
        content, parts = blocks.text, blocks.parts
    return (
        ConversationEntry(
            _TOOL,
            content,
            sequence=index,
            tool_call_id=fields["tool_call_id"],
            tool_name=fields["name"],
            parts=parts,
            status=fields["status"],
            source=message,
            pinned=_pinned(fields),
        ),
    )


def read_function(message: Any, index: int) -> tuple[ConversationEntry, ...]:
    text = message.content if isinstance(message.content, str) else message.text
    return (ConversationEntry(_TOOL, text, sequence=index, tool_name=message.name, source=message),)


def read_chat(message: ChatMessage, index: int) -> tuple[ConversationEntry, ...]:
    role = _CHAT_ROLES.get(message.role.lower())
    if role is None:
        raise ConversionError(
            f"unknown role {message.role!r}.",
            index=index,
            field="role",
            fix=f"use one of {', '.join(sorted(_CHAT_ROLES))}.",
        )
    blocks = None if isinstance(message.content, str) else read_blocks(message.content)
    name = message.name or ("orchestrator" if message.role.lower() == "orchestrator" else None)
    return (
        ConversationEntry(
            role,
            message.content if isinstance(message.content, str) else (blocks and blocks.text) or "",
            sequence=index,
            name=None if role is _TOOL else name,
            tool_name=name if role is _TOOL else None,
            tool_call_id=message.additional_kwargs.get("tool_call_id") if role is _TOOL else None,
            parts=blocks.parts if blocks else None,
            source=message,
        ),
    )


def read_ai(message: Any, index: int) -> tuple[ConversationEntry, ...]:
    fields = message.__dict__
    content = fields["content"]
    extra = fields["additional_kwargs"]
    parts: tuple[ContentPart, ...] | None = None
    reasoning: tuple[Reasoning, ...] | None = None
    in_blocks: tuple[ToolCall, ...] = ()
    if content.__class__ is not str:
        content, parts, reasoning, in_blocks = read_blocks(content)
    calls = None
    if fields["tool_calls"] or fields["invalid_tool_calls"] or in_blocks or extra:
        calls = read_calls(message, in_blocks)
        if extra and reasoning is None:
            reasoning = _kept_aside(extra)
    return (
        ConversationEntry(
            _ASSISTANT,
            content or (None if calls else ""),
            sequence=index,
            tool_calls=calls,
            name=fields["name"],
            parts=parts,
            reasoning=reasoning,
            source=message,
            pinned=_pinned(fields),
        ),
    )


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
        kept = {"signature": signatures[call_id]} if signatures and call_id in signatures else None
        calls.append(ToolCall(call_id, call["name"] or "", text, kept))
    calls += [
        ToolCall(call["id"] or "", call["name"] or "", call["args"] or "")
        for call in fields["invalid_tool_calls"]
    ]
    if not calls and extra:
        legacy = extra.get("function_call")
        if isinstance(legacy, dict):
            text = arguments_text(legacy.get("arguments") or "{}")
            calls.append(ToolCall("", str(legacy.get("name") or ""), text))
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


def _kept_aside(extra: dict[str, Any]) -> tuple[Reasoning, ...] | None:
    text = extra.get("reasoning_content")
    if isinstance(text, str) and text:
        return (Reasoning(text=text),)
    item = extra.get("reasoning")
    if isinstance(item, dict):
        return read_blocks([{"type": "reasoning", **item}]).reasoning
    if isinstance(item, str) and item:
        return (Reasoning(text=item),)
    return None


def _pinned(fields: dict[str, Any]) -> bool:
    extra = fields["additional_kwargs"]
    return bool(extra) and bool(extra.get("pinned"))


def _read_results(
    message: Any, content: Sequence[Any], index: int
) -> tuple[ConversationEntry, ...]:
    # Anthropic's way: results as blocks of a user message.
    runs: list[list[Any]] = []
    for block in content:
        if kind_of(block) == "result" or not runs or kind_of(runs[-1][0]) == "result":
            runs.append([block])
        else:
            runs[-1].append(block)
    count = len(runs)
    out = []
    for k, run in enumerate(runs):
        span = None if count == 1 and not _is_result(run[0]) else (k, count)
        if _is_result(run[0]):
            out.append(_result(message, run[0], index, span))
        else:
            blocks = read_blocks(run)
            out.append(
                ConversationEntry(
                    _USER,
                    blocks.text,
                    sequence=index,
                    name=message.name,
                    parts=blocks.parts,
                    source=message,
                    span=span,
                )
            )
    return tuple(out)


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in RESULTS


def _result(
    message: Any, block: dict[str, Any], index: int, span: tuple[int, int] | None
) -> ConversationEntry:
    inner = block.get("content", block.get("output"))
    blocks = None if isinstance(inner, str) or inner is None else read_blocks(list(inner))
    return ConversationEntry(
        _TOOL,
        inner if isinstance(inner, str) else (blocks.text if blocks else None) or "",
        sequence=index,
        tool_call_id=str(block.get("tool_use_id") or block.get("call_id") or ""),
        parts=blocks.parts if blocks else None,
        status="error" if block.get("is_error") else "success",
        source=message,
        span=span,
    )
