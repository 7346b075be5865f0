"""Hypothesis strategies: conversations as they should be, and as they turn up."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

__all__ = ["broken_conversations", "conversations"]

Message = dict[str, Any]

_WORDS = ["order", "weather", "ünïcode", "日本", "a longer line of text", "1", "{}", "ok."]
_ODD_TEXT = ["", " ", "\n\t", None]
_ODD_ARGUMENTS = ["", "[]", '{"a": ', "null", '"text"', "{'a': 1}"]
_ODD_IDS = ["functions.look:0", "x" * 46, "", "ä", "call 1", "c0"]
_ODD_NAMES = ["look up", "1st", "", "näme", "n" * 80, "a.b"]
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
_ODD_BLOCKS = [
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXEL}"}},
    {"type": "text", "text": " "},
]
_LIST_ACCIDENTS: dict[str, Callable[[list[Message], int], list[Message]]] = {
    "lose": lambda messages, at: messages[:at] + messages[at + 1 :],
    "double": lambda messages, at: [*messages[: at + 1], *deepcopy(messages[at:])],
    "cut the head": lambda messages, at: messages[at:],
    "cut the tail": lambda messages, at: messages[:at],
    "add a late system message": lambda messages, at: [
        *messages[:at], {"role": "system", "content": "late rules"}, *messages[at:],
    ],
}  # fmt: skip
_ACCIDENTS = [
    *_LIST_ACCIDENTS, "swap", "blank", "rename a call", "garble arguments", "misname a tool",
    "add a key", "empty the calls", "use blocks",
]  # fmt: skip


@st.composite
def conversations(draw: st.DrawFn, *, max_turns: int = 4, tail: str = "request") -> list[Message]:
    """Conversations every provider takes: whole exchanges, user and assistant in turn.

    Args:
        draw: given by hypothesis.
        max_turns: user messages at most.
        tail: ``request`` ends on a user message or a result, ``history`` on the answer.
    """
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": _text(draw, "rules")})
    turns = draw(st.integers(1, max_turns))
    calls = 0
    for turn in range(turns):
        messages.append({"role": "user", "content": _text(draw, f"user {turn}")})
        for _ in range(draw(st.integers(0, 3))):
            width = draw(st.integers(1, 3))
            messages += _exchange(draw, range(calls, calls + width))
            calls += width
        if turn < turns - 1 or tail == "history":
            messages.append({"role": "assistant", "content": _text(draw, f"answer {turn}")})
    return messages


@st.composite
def broken_conversations(draw: st.DrawFn, *, max_turns: int = 4) -> list[Message]:
    """Conversations as logs and windows leave them.

    A valid one with a few accidents: messages lost, doubled, swapped or cut off, blank texts,
    ids reused or outside the alphabet, malformed arguments, odd names, unknown keys.
    """
    tail = draw(st.sampled_from(["request", "history"]))
    messages = deepcopy(draw(conversations(max_turns=max_turns, tail=tail)))
    for accident in draw(st.lists(st.sampled_from(_ACCIDENTS), min_size=1, max_size=6)):
        if messages:
            messages = _have(draw, accident, messages, draw(st.integers(0, len(messages) - 1)))
    return messages


def _text(draw: st.DrawFn, label: str) -> str:
    return f"{label}: {draw(st.sampled_from(_WORDS))}"


def _exchange(draw: st.DrawFn, numbers: range) -> list[Message]:
    content = _text(draw, "thinking aloud") if draw(st.booleans()) else None
    calls, results = [], []
    for number in numbers:
        function = {"name": "look", "arguments": "{}"}
        calls.append({"id": f"c{number}", "type": "function", "function": function})
        text = _text(draw, f"result {number}")
        results.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    return [{"role": "assistant", "content": content, "tool_calls": calls}, *results]


def _have(draw: st.DrawFn, accident: str, messages: list[Message], index: int) -> list[Message]:
    """Return the messages after an accident to the one at `index`."""
    if accident in _LIST_ACCIDENTS:
        return _LIST_ACCIDENTS[accident](messages, index)
    message = messages[index]
    calls = message.get("tool_calls") or []
    if accident == "swap":
        other = draw(st.integers(0, len(messages) - 1))
        messages[index], messages[other] = messages[other], message
    elif accident == "blank":
        message["content"] = draw(st.sampled_from(_ODD_TEXT))
    elif accident == "rename a call":
        _rename_call(draw, messages, calls[:1])
    elif accident == "garble arguments":
        for call in calls:
            call["function"]["arguments"] = draw(st.sampled_from(_ODD_ARGUMENTS))
    elif accident == "misname a tool":
        _misname_tool(draw, message, calls)
    elif accident == "add a key":
        message["timestamp"] = 1
    elif accident == "empty the calls":
        message["tool_calls"] = []
    elif accident == "use blocks":
        text = message.get("content")
        blocks = [{"type": "text", "text": text}] if isinstance(text, str) else []
        message["content"] = [*blocks, draw(st.sampled_from(_ODD_BLOCKS))]
    return messages


def _misname_tool(draw: st.DrawFn, message: Message, calls: list[Message]) -> None:
    name = draw(st.sampled_from(_ODD_NAMES))
    if message["role"] == "tool" or draw(st.booleans()):
        message["name"] = name
    for call in calls:
        call["function"]["name"] = name


def _rename_call(draw: st.DrawFn, messages: list[Message], calls: list[Message]) -> None:
    """Give a call another id, now and then its results as well."""
    new = draw(st.sampled_from(_ODD_IDS))
    is_renamed_everywhere = draw(st.booleans())
    for call in calls:
        old, call["id"] = call["id"], new
        for message in messages if is_renamed_everywhere else ():
            if message.get("tool_call_id") == old:
                message["tool_call_id"] = new
