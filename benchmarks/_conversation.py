"""The conversations everything is measured on: an agent at work, made up, the same every time."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

Message = dict[str, Any]

BUDGET = 16_000
_TOKENS = (60, 2_000, 60)  # the fewest, the most, the most frequent
_DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "coding_sessions.jsonl.gz"
_TEXT = """
the session keeps every message while the view that reaches a model stays small enough for its
window and repeats what was sent before so that a cache can be used again between calls because
reading costs less than writing and a long result is rarely needed twice although nobody knows in
advance which one an agent will ask for when it continues with another file error handler request
timeout payload retry cluster region schema index query account order
"""
_WORDS = _TEXT.split()
_LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "WARNING", "ERROR")
_TOOLS = ("read_file", "search", "run_tests", "query_metrics", "list_orders")


@lru_cache(maxsize=4)
def conversation(n: int, seed: int = 7) -> tuple[Message, ...]:
    """Return `n` messages: system, then turns of user, 1–2 exchanges of 1–3 calls, answer.

    Results have 50 to 2,000 tokens, the more the rarer. No two texts are the same, so no text
    cache makes anybody look better than they are.
    """
    random = Random(seed)
    messages: list[Message] = [{"role": "system", "content": _prose(random, 900)}]
    while len(messages) < n:
        messages.append({"role": "user", "content": _prose(random, random.randint(40, 400))})
        for _ in range(random.randint(1, 2)):
            messages += _exchange(random, len(messages))
        messages.append({"role": "assistant", "content": _prose(random, random.randint(80, 600))})
    return tuple(messages[:n])


def _exchange(random: Random, number: int) -> list[Message]:
    calls, results = [], []
    for place in range(random.randint(1, 3)):
        call_id, tool = f"call_{number}_{place}", random.choice(_TOOLS)
        arguments = {"path": f"{random.choice(_WORDS)}/{random.randrange(10**6)}.py", "limit": 20}
        calls.append(
            {
                "id": call_id,
                "type": "function",
                "function": {"name": tool, "arguments": json.dumps(arguments)},
            }
        )
        write, per_token = random.choice(_KINDS)
        text = write(random, int(random.triangular(*_TOKENS) * per_token))
        results.append({"role": "tool", "tool_call_id": call_id, "name": tool, "content": text})
    said = _prose(random, 120) if random.random() < 0.5 else ""
    return [{"role": "assistant", "content": said, "tool_calls": calls}, *results]


def _prose(random: Random, size: int) -> str:
    return " ".join(random.choices(_WORDS, k=max(2, size // 5))) + f" {random.randrange(10**9)}."


def _log(random: Random, size: int) -> str:
    return "\n".join(
        f"2031-05-{random.randint(1, 28):02}T{random.randrange(24):02}:{random.randrange(60):02}Z "
        f"{random.choice(_LEVELS)} {' '.join(random.choices(_WORDS, k=6))} "
        f"took={random.randrange(9000)}ms"
        for _ in range(-(-size // 75))
    )


def _code(random: Random, size: int) -> str:
    lines = []
    for _ in range(-(-size // 95)):
        one, two, three = random.choices(_WORDS, k=3)
        lines.append(f"def {one}_{two}({three}: int) -> str:")
        lines.append(f'    return f"{one} {{{three} + {random.randrange(1000)}}} {two}"')
    return "\n".join(lines)


def _json(random: Random, size: int) -> str:
    rows = [
        {
            "id": random.randrange(10**8),
            "name": " ".join(random.choices(_WORDS, k=2)),
            "total": random.randrange(10**5) / 100,
            "open": random.random() < 0.5,
        }
        for _ in range(-(-size // 75))
    ]
    return json.dumps(rows)


# How large a text has to be asked for per o200k token it shall have.
_KINDS = ((_prose, 4.95), (_log, 3.14), (_code, 3.98), (_json, 2.66))


def as_langchain(messages: Sequence[Message]) -> list[Any]:
    """The same conversation as LangChain messages, with ids."""
    from langchain_core.messages import convert_to_messages

    return list(
        convert_to_messages([{**message, "id": f"m{i}"} for i, message in enumerate(messages)])
    )


def as_llamaindex(messages: Sequence[Message]) -> list[Any]:
    """The same conversation as LlamaIndex messages, with tool call blocks."""
    from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock

    made = []
    for message in messages:
        blocks: list[Any] = [TextBlock(text=message["content"] or "")]
        for call in message.get("tool_calls") or ():
            body = call["function"]
            blocks.append(
                ToolCallBlock(
                    tool_call_id=call["id"],
                    tool_name=body["name"],
                    tool_kwargs=_arguments(body["arguments"]),
                )
            )
        extra = {}
        if message["role"] == "tool":
            extra = {"tool_call_id": message["tool_call_id"], "name": message.get("name")}
        made.append(ChatMessage(role=message["role"], blocks=blocks, additional_kwargs=extra))
    return made


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def coding_sessions(at_most: int) -> list[list[Message]]:
    """Recorded sessions of coding agents above 40,000 tokens, evenly chosen; none if absent.

    Only sessions every peer can read are taken: text content, and results that answer a call.
    """
    if not _DATA.is_file():
        return []
    with gzip.open(_DATA, "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    long = [one["messages"] for one in found if one["stats"]["tokens_o200k"] > 40_000]
    usable = [messages for messages in long if _plain(messages)]
    step = max(1, len(usable) // at_most)
    return usable[::step][:at_most]


def _plain(messages: Sequence[Message]) -> bool:
    asked = {call["id"] for message in messages for call in message.get("tool_calls") or ()}
    return all(
        isinstance(message.get("content") or "", str)
        and (message["role"] != "tool" or message.get("tool_call_id") in asked)
        for message in messages
    )
