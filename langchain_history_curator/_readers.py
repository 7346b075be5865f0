"""One reader per class of LangChain message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import ChatMessage

from history_curator.model import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    new_entry,
)
from langchain_history_curator._blocks import (
    RESULTS,
    Blocks,
    kind_of,
    read_blocks,
)
from langchain_history_curator._calls import read_calls

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
    content = message.__dict__["content"]
    if not isinstance(content, str) and any(kind_of(block) == "result" for block in content):
        return _read_results(message, content, index)
    return _read_said(_USER, message, index)


def read_system(message: Any, index: int) -> tuple[ConversationEntry, ...]:
    return _read_said(_SYSTEM, message, index)


def _read_said(role: MessageRole, message: Any, index: int) -> tuple[ConversationEntry, ...]:
    fields = message.__dict__
    content, parts = _text_and_parts(fields["content"])
    entry = new_entry(
        role,
        content,
        index,
        message,
        name=fields["name"],
        parts=parts,
        pinned=_pinned(fields),
    )
    return (entry,)


def read_tool(message: Any, index: int) -> tuple[ConversationEntry, ...]:
    fields = message.__dict__
    content, parts = _text_and_parts(fields["content"])
    entry = new_entry(
        _TOOL,
        content,
        index,
        message,
        tool_call_id=fields["tool_call_id"],
        tool_name=fields["name"],
        parts=parts,
        status=fields["status"],
        pinned=_pinned(fields),
    )
    return (entry,)


def _text_and_parts(content: Any) -> tuple[str | None, tuple[ContentPart, ...] | None]:
    return (content, None) if isinstance(content, str) else read_blocks(content)[:2]


def read_function(message: Any, index: int) -> tuple[ConversationEntry, ...]:
    text = message.content if isinstance(message.content, str) else message.text
    return (new_entry(_TOOL, text, index, message, tool_name=message.name),)


def read_chat(message: ChatMessage, index: int) -> tuple[ConversationEntry, ...]:
    spoken = message.role.lower()
    # A role of some model's own, such as Granite's "control", is sent as it is; to us it is
    # something the model is told.
    role = _CHAT_ROLES.get(spoken, _USER)
    content, parts = _text_and_parts(message.content)
    name = message.name or ("orchestrator" if spoken == "orchestrator" else None)
    entry = new_entry(
        role,
        content or "",
        index,
        message,
        name=None if role is _TOOL else name,
        tool_name=name if role is _TOOL else None,
        tool_call_id=message.additional_kwargs.get("tool_call_id") if role is _TOOL else None,
        parts=parts,
    )
    return (entry,)


def read_ai(message: Any, index: int) -> tuple[ConversationEntry, ...]:
    fields = message.__dict__
    content, extra = fields["content"], fields["additional_kwargs"]
    said = Blocks(content) if isinstance(content, str) else read_blocks(content)
    calls, reasoning = None, said.reasoning
    if fields["tool_calls"] or fields["invalid_tool_calls"] or said.calls or extra:
        calls = read_calls(message, said.calls)
        if extra and reasoning is None:
            reasoning = _kept_aside(extra)
    entry = new_entry(
        _ASSISTANT,
        said.text or (None if calls else ""),
        index,
        message,
        tool_calls=calls,
        name=fields["name"],
        parts=said.parts,
        reasoning=reasoning,
        pinned=_pinned(fields),
    )
    return (entry,)


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
            text, parts = _text_and_parts(run)
            said = new_entry(_USER, text, index, message, name=message.name, parts=parts, span=span)
            out.append(said)
    return tuple(out)


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in RESULTS


def _result(
    message: Any, block: dict[str, Any], index: int, span: tuple[int, int] | None
) -> ConversationEntry:
    inner = block.get("content", block.get("output"))
    text, parts = _text_and_parts("" if inner is None else inner)
    return new_entry(
        _TOOL,
        text or "",
        index,
        message,
        tool_call_id=str(block.get("tool_use_id") or block.get("call_id") or ""),
        parts=parts,
        status="error" if block.get("is_error") else "success",
        span=span,
    )
