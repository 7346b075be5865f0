"""LLMs that answer from a script and remember what they were sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

from llama_index.core.base.llms.types import ChatMessage, LLMMetadata
from llama_index.core.llms.mock import MockFunctionCallingLLM
from pydantic import PrivateAttr

from history_curator import ConversationEntry
from history_curator.rules import get_profile
from history_curator.tokens import get_counter
from llamaindex_history_curator import LlamaIndexFormat
from llamaindex_history_curator.models import tool_schemas
from tests.llamaindex.factories import assistant, call

Answer = Callable[[int, Sequence[ChatMessage]], ChatMessage]


class RecordingLLM(MockFunctionCallingLLM):
    """Answers with ``answer(number, messages)`` and keeps what every call was sent."""

    window: int = 128_000
    output: int = 1_000
    kind: str = "RecordingLLM"

    _calls: list[tuple[list[ChatMessage], list[Any]]] = PrivateAttr(default_factory=list)

    def __init__(self, answer: Answer | None = None, **data: Any) -> None:
        super().__init__(**data)
        script = answer or (lambda number, messages: assistant(f"answer {number}"))

        def respond(messages: Sequence[ChatMessage], **kwargs: Any) -> ChatMessage:
            tools = list(kwargs.get("tools") or ())
            self._calls.append((list(messages), tools))
            return script(len(self._calls) - 1, messages)

        self._response_generator = respond

    @property
    def sent(self) -> list[list[ChatMessage]]:
        """The messages of every call."""
        return [messages for messages, _ in self._calls]

    @property
    def costs(self) -> list[int]:
        """The tokens of every call, tools included, counted apart from the adapter."""
        return [cost(messages, tools) for messages, tools in self._calls]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            context_window=self.window,
            num_output=self.output,
            is_chat_model=True,
            is_function_calling_model=True,
            model_name="recording",
        )

    def class_name(self) -> str:  # type: ignore[override]
        return self.kind


def act(kind: str, number: int = 0, name: str = "", **arguments: Any) -> ChatMessage:
    """One step of an agent, in the words of its kind: a call, or the answer where none is named."""
    if kind == "react":
        said = f"Action: {name}\nAction Input: {json.dumps(arguments)}" if name else "Answer: done"
        return assistant(f"Thought: hm.\n{said}")
    return call(f"c{number}", name=name, **arguments) if name else assistant("done")


_COUNTER = get_counter("o200k_base")
_FORMAT = LlamaIndexFormat()


def entries(messages: Sequence[ChatMessage]) -> list[ConversationEntry]:
    """The messages as read."""
    return [_FORMAT.read(message, index)[0] for index, message in enumerate(messages)]


def cost(messages: Sequence[ChatMessage], tools: Sequence[Any] = ()) -> int:
    """Tokens of a request: its messages, its tools and the priming."""
    total = sum(map(_COUNTER.count_entry, entries(messages)))
    return total + _COUNTER.count_tools(tool_schemas(list(tools))) + _COUNTER.priming


def problems(
    messages: Sequence[ChatMessage], tail: Literal["request", "history"] = "request"
) -> list[str]:
    """What a provider would refuse."""
    read = entries(messages)
    profile = get_profile("core")
    return [str(found) for found in profile.find(read, tail)]
