"""Who else decides what a budget holds, asked for the text of their view."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from history_curator.tokens import TokenCounter

Message = dict[str, Any]
View = Callable[[list[Message]], str]


def written(message: Message) -> str:
    """Return all text of a message: its content and the arguments of its calls."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = json.dumps(content)
    calls = message.get("tool_calls") or ()
    return "\n".join([content, *(call["function"]["arguments"] for call in calls)])


def latest(messages: list[Message], tokens: int, counter: TokenCounter) -> list[Message]:
    """Return the system messages and the latest others, a little more than `tokens` of them.

    Contenders that drop the oldest until the rest fits reach the same end from here, sooner.
    """
    start = len(messages)
    while start and tokens > 0:
        start -= 1
        tokens -= counter.count(written(messages[start]))
    return [*(m for m in messages[:start] if m["role"] == "system"), *messages[start:]]


def suffix_window(max_tokens: int, counter: TokenCounter) -> View:
    """The system message and as many of the latest messages as fit."""

    def view(messages: list[Message]) -> str:
        system = [m for m in messages if m["role"] == "system"]
        left = max_tokens - counter.priming - sum(counter.count(written(m)) + 3 for m in system)
        kept: list[str] = []
        for message in reversed([m for m in messages if m["role"] != "system"]):
            left -= counter.count(written(message)) + 3
            if left < 0:
                break
            kept.append(written(message))
        return "\n".join([*map(written, system), *reversed(kept)])

    return view


def trim_messages(max_tokens: int, counter: TokenCounter) -> View:
    """langchain-core's ``trim_messages``, with a counter that counts no message twice."""
    from langchain_core.messages import convert_to_messages
    from langchain_core.messages import trim_messages as trim

    known: dict[int, tuple[Message, Any]] = {}
    sizes: dict[int, int] = {}

    def count(messages: Sequence[Any]) -> int:
        return 3 + sum(sizes.get(id(m), 0) or counter.count(str(m.content)) + 3 for m in messages)

    def view(messages: list[Message]) -> str:
        converted = []
        for message in latest(messages, max_tokens * 5 // 4, counter):
            if id(message) not in known:
                made = convert_to_messages([message])[0]
                known[id(message)] = (message, made)
                sizes[id(made)] = counter.count(written(message)) + 3
            converted.append(known[id(message)][1])
        kept = trim(
            converted,
            strategy="last",
            max_tokens=max_tokens,
            token_counter=count,
            include_system=True,
        )
        back = {id(made): message for message, made in known.values()}
        return "\n".join(written(back[id(m)]) for m in kept if id(m) in back)

    return view


def chat_memory_buffer(max_tokens: int, counter: TokenCounter) -> View:
    """llama-index-core's ``ChatMemoryBuffer``."""
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import ChatMemoryBuffer

    def view(messages: list[Message]) -> str:
        tail = latest(messages, max_tokens * 21 // 20 + 100, counter)
        history = [ChatMessage(role=m["role"], content=written(m)) for m in tail]
        buffer = ChatMemoryBuffer.from_defaults(
            chat_history=history,
            token_limit=max_tokens,
            tokenizer_fn=lambda text: range(counter.count(text)),  # type: ignore[arg-type,return-value]
        )
        return "\n".join(str(message.content) for message in buffer.get())

    return view


def peers() -> dict[str, Callable[[int, TokenCounter], View]]:
    """Return those that are installed. None of them looks at the question."""
    found: dict[str, Callable[[int, TokenCounter], View]] = {"suffix window": suffix_window}
    if find_spec("langchain_core"):
        found["trim_messages"] = trim_messages
    if find_spec("llama_index"):
        found["ChatMemoryBuffer"] = chat_memory_buffer
    return found
