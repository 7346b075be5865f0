"""A chat model that follows a script and refuses what OpenAI would refuse."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from history_curator.tokens import count_tokens
from tests.support.strict import REFUSALS

_WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron"


class Refused(Exception):
    """The 400 a provider answers with."""


def refusals(messages: Sequence[BaseMessage]) -> list[str]:
    """What OpenAI says about these messages, as its client sends them; foreign blocks may pass."""
    client = pytest.importorskip("langchain_openai.chat_models.base")
    dicts = [client._convert_message_to_dict(message) for message in messages]
    for message, sent in zip(messages, dicts, strict=True):
        blocks = message.content if isinstance(message.content, list) else []
        if any(isinstance(block, dict) and block.get("type") != "text" for block in blocks):
            sent["content"] = "[blocks]"
    return REFUSALS["openai"]({"messages": dicts})


def shape(messages: Sequence[BaseMessage]) -> list[tuple[Any, ...]]:
    """A view as plain values, to compare views of different runs."""
    return [
        (
            message.type,
            message.content,
            getattr(message, "tool_call_id", None),
            tuple(str(call["id"]) for call in getattr(message, "tool_calls", ())),
        )
        for message in messages
    ]


class ScriptedModel(BaseChatModel):
    """Calls a tool `steps` times, then answers. Where it stands it reads off the last result.

    Refuses, like OpenAI: orphans, unanswered calls, empty input, and more than `window` tokens.
    """

    steps: int = 10
    window: int | None = None
    calls_per_step: Callable[[int], int] = Field(default=lambda step: 1)
    crash_at: int | None = None
    views: list[list[BaseMessage]] = Field(default_factory=list)
    costs: list[int] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(one) for one in tools], **kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        cost = count_tokens(messages, tools=kwargs.get("tools"))
        self.views.append(list(messages))
        self.costs.append(cost)
        problems = refusals(messages)
        if self.window is not None and cost > self.window:
            problems.append(f"{cost} tokens, maximum context length is {self.window}")
        if problems:
            raise Refused("; ".join(problems))
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        step = 0
        if isinstance(messages[-1], ToolMessage):
            match = re.match(r"step (\d+)", messages[-1].text)
            assert match, f"the newest result lost its head: {messages[-1].text[:80]!r}"
            step = int(match[1]) + 1
        if step == self.crash_at:
            raise ConnectionError("the machine went down")
        if step >= self.steps:
            return AIMessage(f"done after {step}", id=f"final-{step}")
        count = self.calls_per_step(step)
        return AIMessage(
            "",
            id=f"ai-{step}",
            tool_calls=[
                {"name": "look", "args": {"step": step, "part": part}, "id": f"call_{step}_{part}"}
                for part in range(count)
            ],
        )


def text_of(step: int, words: int) -> str:
    """A text of about `words` tokens that differs from step to step."""
    known = _WORDS.split()
    line = " ".join(known[(step + k) % len(known)] for k in range(12))
    return "\n".join([f"step {step}", *(f"{k}: {line}" for k in range(max(1, words // 22)))])


def size_of(step: int) -> int:
    """Result sizes of the long run: mostly some hundred tokens, sometimes 20,000."""
    if step % 60 == 17:
        return 20_000
    return (30, 120, 700, 60, 1_500, 40, 300)[step % 7]


@tool
def look(step: int, part: int = 0) -> str:
    """Look something up.

    Args:
        step: which step this is.
        part: which of several things to look up.
    """
    return text_of(step, size_of(step) if part == 0 else 40)
