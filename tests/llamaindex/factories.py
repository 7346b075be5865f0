"""Messages that make a conversation readable on one line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock


def system(text: str = "be kind") -> ChatMessage:
    return ChatMessage(role="system", content=text)


def user(text: str = "hi") -> ChatMessage:
    return ChatMessage(role="user", content=text)


def assistant(text: str = "hello") -> ChatMessage:
    return ChatMessage(role="assistant", content=text)


def call(*ids: str, name: str = "look", text: str | None = None, **kwargs: Any) -> ChatMessage:
    blocks: list[Any] = [] if text is None else [TextBlock(text=text)]
    blocks += [
        ToolCallBlock(tool_call_id=id_, tool_name=name, tool_kwargs=dict(kwargs)) for id_ in ids
    ]
    return ChatMessage(role="assistant", blocks=blocks)


def result(id_: str, text: str = "found", **kwargs: Any) -> ChatMessage:
    return ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": id_, **kwargs})


def turns(count: int, words: int = 20) -> list[ChatMessage]:
    """Questions and answers, each of so many words."""
    return [
        message
        for number in range(count)
        for message in (user(f"q{number} " + "x " * words), assistant(f"a{number} " + "y " * words))
    ]


def wire(id_: str, name: str = "look", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def from_dict(message: Mapping[str, Any]) -> ChatMessage:
    """An OpenAI-style dict as a `ChatMessage`, in the shape LlamaIndex's own adapter gives it."""
    kwargs = {key: value for key, value in message.items() if key not in ("role", "content")}
    content = message.get("content")
    blocks: list[Any] = [] if content is None else [TextBlock(text=content)]
    for entry in kwargs.get("tool_calls") or ():
        function = entry["function"]
        blocks.append(
            ToolCallBlock(
                tool_call_id=entry["id"],
                tool_name=function["name"],
                tool_kwargs=function["arguments"],
            )
        )
    return ChatMessage(role=message["role"], blocks=blocks, additional_kwargs=kwargs)


def roles(messages: Sequence[ChatMessage]) -> list[str]:
    return [message.role.value for message in messages]


def texts(messages: Sequence[ChatMessage]) -> list[str | None]:
    return [message.content for message in messages]


def dumped(messages: Sequence[ChatMessage]) -> str:
    """Everything in the messages, as text, to compare before and after."""
    return json.dumps([message.model_dump(mode="json") for message in messages], sort_keys=True)


def orphans(messages: Sequence[ChatMessage]) -> list[str]:
    """What pairing rules the messages break, said independently of the library."""
    problems: list[str] = []
    open_ids: list[str] = []
    for index, message in enumerate(messages):
        if message.role.value == "tool":
            answered = message.additional_kwargs.get("tool_call_id")
            if answered in open_ids:
                open_ids.remove(answered)
            else:
                problems.append(f"{index}: result {answered!r} answers no open call")
            continue
        if open_ids:
            problems.append(f"{index}: calls {open_ids} are unanswered")
        open_ids = [
            str(block.tool_call_id) for block in message.blocks if isinstance(block, ToolCallBlock)
        ]
    if open_ids:
        problems.append(f"end: calls {open_ids} are unanswered")
    return problems
