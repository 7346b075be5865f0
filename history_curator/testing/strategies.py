"""Hypothesis strategies: conversations as they should be, and as they turn up.

Needs `hypothesis`. Every strategy draws lists of OpenAI-style dicts.

Example:
    >>> from hypothesis import given
    >>> from history_curator.testing import assert_conformant
    >>> @given(conversations())
    ... def test_mine(messages):
    ...     assert_conformant(messages, provider="portable")
    >>> test_mine()
"""

from __future__ import annotations

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
_PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXEL}"}}


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
        last = turn == turns - 1
        rounds = draw(st.integers(0, 3))
        for _ in range(rounds):
            width = draw(st.integers(1, 3))
            messages += _exchange(draw, range(calls, calls + width))
            calls += width
        if not last or tail == "history":
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
    accidents = st.sampled_from(_ACCIDENTS)
    for accident in draw(st.lists(accidents, min_size=1, max_size=6)):
        if messages:
            at = draw(st.integers(0, len(messages) - 1))
            messages = accident(draw, messages, at)
    return messages


def _text(draw: st.DrawFn, label: str) -> str:
    return f"{label}: {draw(st.sampled_from(_WORDS))}"


def _exchange(draw: st.DrawFn, numbers: range) -> list[Message]:
    content = _text(draw, "thinking aloud") if draw(st.booleans()) else None
    calls = [_call(f"c{number}") for number in numbers]
    results = [
        {"role": "tool", "tool_call_id": f"c{number}", "content": _text(draw, f"result {number}")}
        for number in numbers
    ]
    return [{"role": "assistant", "content": content, "tool_calls": calls}, *results]


def _call(name: str, arguments: str = "{}", tool: str = "look") -> Message:
    return {"id": name, "type": "function", "function": {"name": tool, "arguments": arguments}}


def _lose(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    return messages[:at] + messages[at + 1 :]


def _double(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    return [*messages[: at + 1], deepcopy(messages[at]), *messages[at + 1 :]]


def _swap(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    other = draw(st.integers(0, len(messages) - 1))
    messages[at], messages[other] = messages[other], messages[at]
    return messages


def _cut_head(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    return messages[at:]


def _cut_tail(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    return messages[:at]


def _blank(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    messages[at]["content"] = draw(st.sampled_from(_ODD_TEXT))
    return messages


def _rename(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    """Give a call another id, now and then on both sides."""
    calls = messages[at].get("tool_calls") or []
    new = draw(st.sampled_from(_ODD_IDS))
    both = draw(st.booleans())
    for call in calls[:1]:
        old, call["id"] = call["id"], new
        for message in messages if both else ():
            if message.get("tool_call_id") == old:
                message["tool_call_id"] = new
    return messages


def _garble(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    for call in messages[at].get("tool_calls") or []:
        call["function"]["arguments"] = draw(st.sampled_from(_ODD_ARGUMENTS))
    return messages


def _misname(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    name = draw(st.sampled_from(_ODD_NAMES))
    if messages[at]["role"] == "tool" or draw(st.booleans()):
        messages[at]["name"] = name
    for call in messages[at].get("tool_calls") or []:
        call["function"]["name"] = name
    return messages


def _tag(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    messages[at]["timestamp"] = 1
    return messages


def _no_calls(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    messages[at]["tool_calls"] = []
    return messages


def _blocks(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    """Turn the text into blocks, with a blank one or a picture among them."""
    extra = draw(st.sampled_from([_PICTURE, {"type": "text", "text": " "}]))
    blocks: list[Any] = [extra]
    if isinstance(messages[at].get("content"), str):
        blocks.insert(0, {"type": "text", "text": messages[at]["content"]})
    messages[at]["content"] = blocks
    return messages


def _late_system(draw: st.DrawFn, messages: list[Message], at: int) -> list[Message]:
    return [*messages[:at], {"role": "system", "content": "late rules"}, *messages[at:]]


_ACCIDENTS = [
    _lose,
    _double,
    _swap,
    _cut_head,
    _cut_tail,
    _blank,
    _rename,
    _garble,
    _misname,
    _tag,
    _no_calls,
    _blocks,
    _late_system,
]
