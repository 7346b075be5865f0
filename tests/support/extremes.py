"""Conversations nobody should have to hold, of any size: what a curator must not choke on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
Shape = Callable[[int], list[Message]]

_WORDS = [
    "the",
    "view",
    "that",
    "reaches",
    "a",
    "model",
    "stays",
    "small",
    "enough",
    "for",
    "its",
    "window",
    "and",
    "repeats",
    "the",
    "rest",
]


def text(number: int, words: int = 40) -> str:
    """Return a short text; no two numbers have the same one."""
    return " ".join([f"{number}:", *(_WORDS[(number + at) % len(_WORDS)] for at in range(words))])


def _call(number: int, place: int = 0) -> Message:
    arguments = json.dumps({"path": f"src/{number}.py", "limit": place})
    name = f"c{number}_{place}"
    return {"id": name, "type": "function", "function": {"name": "read", "arguments": arguments}}


def _asked(number: int, places: int = 1) -> Message:
    calls = [_call(number, place) for place in range(places)]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _answer(number: int, place: int = 0) -> Message:
    said = text(number * 31 + place)
    return {"role": "tool", "tool_call_id": f"c{number}_{place}", "content": said}


_START: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Do all of it."},
]


def exchanges(n: int) -> list[Message]:
    """Return one turn of n exchanges."""
    turn = [message for at in range(n) for message in (_asked(at), _answer(at))]
    return [*_START, *turn]


def users(n: int) -> list[Message]:
    """Return n messages of the user."""
    return [{"role": "user", "content": text(at)} for at in range(n)]


def parallel(n: int) -> list[Message]:
    """Return n calls in one message, with their results."""
    return [*_START, _asked(0, n), *(_answer(0, at) for at in range(n))]


def without_ids(n: int) -> list[Message]:
    """Return n exchanges whose results do not say which call they answer."""
    turn: list[Message] = []
    for at in range(n):
        turn += [_asked(at), {"role": "tool", "content": text(at)}]
    return [*_START, *turn]


def parallel_without_ids(n: int) -> list[Message]:
    """Return n calls in one message, with results that do not say which one they answer."""
    return [*_START, _asked(0, n), *({"role": "tool", "content": text(at)} for at in range(n))]


def answers_without_calls(n: int) -> list[Message]:
    """Return an exchange, then n results that answer nothing."""
    return [*_START, _asked(0), *(_answer(0) for _ in range(n))]


def late(n: int) -> list[Message]:
    """Return n calls that are all answered at the end, in the opposite order."""
    return [*_START, *map(_asked, range(n)), *map(_answer, reversed(range(n)))]


def same_id(n: int) -> list[Message]:
    """Return one turn of n exchanges that all use the same id."""
    turn = [message for at in range(n) for message in (_asked(at), _answer(at))]
    for asked, answer in zip(turn[::2], turn[1::2], strict=True):
        asked["tool_calls"][0]["id"] = answer["tool_call_id"] = "c"
    return [*_START, *turn]


def anthropic_blocks(n: int) -> list[Message]:
    """Return n calls and n results as blocks of two messages."""
    called = [
        {"type": "tool_use", "id": f"t{at}", "name": "read", "input": {"path": f"src/{at}.py"}}
        for at in range(n)
    ]
    answers = [
        {"type": "tool_result", "tool_use_id": f"t{at}", "content": text(at)} for at in range(n)
    ]
    return [
        {"role": "user", "content": "Do all of it."},
        {"role": "assistant", "content": called},
        {"role": "user", "content": answers},
    ]


def anthropic_mixed(n: int) -> list[Message]:
    """Return the same with a text of the user behind each result."""
    asked, called, answers = anthropic_blocks(n)
    mixed: list[Message] = []
    for at, answer in enumerate(answers["content"]):
        mixed += [answer, {"type": "text", "text": text(at, 8)}]
    return [asked, called, {"role": "user", "content": mixed}]


def anthropic_texts(n: int) -> list[Message]:
    """Return one message of n blocks of text."""
    return [{"role": "user", "content": [{"type": "text", "text": text(at)} for at in range(n)]}]


def bedrock_blocks(n: int) -> list[Message]:
    """Return n calls and n results as blocks of two messages of Converse."""
    called = [
        {"toolUse": {"toolUseId": f"t{at}", "name": "read", "input": {"path": f"src/{at}.py"}}}
        for at in range(n)
    ]
    answers = [
        {"toolResult": {"toolUseId": f"t{at}", "content": [{"text": text(at)}]}} for at in range(n)
    ]
    return [
        {"role": "user", "content": [{"text": "Do all of it."}]},
        {"role": "assistant", "content": called},
        {"role": "user", "content": answers},
    ]


def gemini_parts(n: int) -> list[Message]:
    """Return n calls and n results as parts of two contents."""
    called = [
        {"functionCall": {"name": "read", "args": {"path": f"src/{at}.py"}}} for at in range(n)
    ]
    answers = [
        {"functionResponse": {"name": "read", "response": {"output": text(at)}}} for at in range(n)
    ]
    return [
        {"role": "user", "parts": [{"text": "Do all of it."}]},
        {"role": "model", "parts": called},
        {"role": "user", "parts": answers},
    ]


def response_items(n: int) -> list[Message]:
    """Return n calls and n outputs as items of Responses."""
    called = [
        {
            "type": "function_call",
            "call_id": f"t{at}",
            "name": "read",
            "arguments": json.dumps({"path": f"src/{at}.py"}),
        }
        for at in range(n)
    ]
    outputs = [
        {"type": "function_call_output", "call_id": f"t{at}", "output": text(at)} for at in range(n)
    ]
    asked = {"type": "message", "role": "user", "content": "Do all of it."}
    return [asked, *called, *outputs]


SHAPES: dict[str, tuple[Shape, int]] = {
    "exchanges in one turn": (exchanges, 10_000),
    "messages of the user": (users, 20_000),
    "parallel calls": (parallel, 10_000),
    "results without ids": (without_ids, 10_000),
    "parallel results without ids": (parallel_without_ids, 10_000),
    "results that answer nothing": (answers_without_calls, 10_000),
    "results that come late": (late, 10_000),
    "exchanges with the same id": (same_id, 10_000),
    "Anthropic blocks": (anthropic_blocks, 2_500),
    "Anthropic blocks, mixed": (anthropic_mixed, 2_500),
    "Anthropic texts": (anthropic_texts, 5_000),
    "Bedrock blocks": (bedrock_blocks, 2_500),
    "Gemini parts": (gemini_parts, 2_500),
    "items of Responses": (response_items, 2_500),
}
"""By name: what makes a conversation of a size, and the size it is measured at."""
