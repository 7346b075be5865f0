"""Messages of each format on one line: what several tests of the wire say."""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]

USER: Message = {"role": "user", "content": "hi"}
YES: Message = {"role": "assistant", "content": "yes"}
ASKED: Message = {"role": "user", "parts": [{"text": "hi"}]}
CONVERSED: Message = {"role": "user", "content": [{"text": "hi"}]}
IMAGE: Message = {"type": "image", "source": {"type": "url", "url": "https://x.y/z.png"}}
THOUGHT: Message = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
CALL: Message = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT: Message = {"type": "function_call_output", "call_id": "c1", "output": "42"}
REASONED: Message = {"type": "reasoning", "id": "rs_1", "summary": []}
SAID: Message = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "yes", "annotations": []}],
}
"""An answer of Responses."""


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def text(said: str) -> Message:
    return {"type": "text", "text": said}


def says(*blocks: Message) -> Message:
    """An answer of Anthropic."""
    return {"role": "assistant", "content": list(blocks)}


def use(call_id: str = "c1", /, **more: Any) -> Message:
    """A block of Anthropic that calls a tool."""
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {}, **more}


def found(call_id: str = "c1", content: Any = "42", **more: Any) -> Message:
    """A block of Anthropic with the result of a call."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def answered(*names: str) -> Message:
    """A message of Anthropic with the results of calls."""
    return user([found(name) for name in names])
