"""Calls and results that an agent writes as text.

A ReAct agent writes its calls as text and gets its results as user messages, and so does one that
writes code. Taken literally, a result of 20,000 tokens would be a question that must not be cut. So
an action and its observation are curated as what they are, a call and its result, and become text
again afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.agent.react.types import ActionReasoningStep, ObservationReasoningStep
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock


@dataclass(frozen=True, slots=True)
class Spoken:
    """How an agent says what a call returned.

    Attributes:
        opening: how every result begins.
        gap: what stands between that and the result itself.
        ids: how the ids begin that calls and results have while they are curated.
    """

    opening: str
    gap: str
    ids: str

    def call(self, message: ChatMessage, number: int, name: str) -> ChatMessage:
        """Return a message with a call behind its text."""
        call = ToolCallBlock(tool_call_id=f"{self.ids}{number}", tool_name=name)
        return message.model_copy(update={"blocks": [*message.blocks, call]})

    def result(self, message: ChatMessage, number: int) -> ChatMessage:
        """Return a message as the result of a call."""
        keywords = {"tool_call_id": f"{self.ids}{number}"}
        return message.model_copy(update={"role": MessageRole.TOOL, "additional_kwargs": keywords})

    def as_text(
        self, messages: Sequence[ChatMessage], role: MessageRole = MessageRole.USER
    ) -> list[ChatMessage]:
        """Return curated messages with these calls and results as text again."""
        return [self._as_text(message, role) for message in messages]

    def _as_text(self, message: ChatMessage, role: MessageRole) -> ChatMessage:
        if self._is_ours(message.additional_kwargs.get("tool_call_id")):
            text = message.content or ""
            if not text.startswith(self.opening):
                text = f"{self.opening}{self.gap}{text}"
            return ChatMessage(role=role, content=text)
        blocks = message.blocks
        kept = [one for one in blocks if not self._is_ours(getattr(one, "tool_call_id", None))]
        return message if len(kept) == len(blocks) else message.model_copy(update={"blocks": kept})

    def _is_ours(self, call_id: Any) -> bool:
        return isinstance(call_id, str) and call_id.startswith(self.ids)


SPOKEN = Spoken("Observation:", " ", "react-")


def observed(steps: Sequence[Any]) -> list[ChatMessage]:
    """Return the steps of a run as calls and results."""
    plain = [ChatMessage(role="assistant", content=step.get_content()) for step in steps]
    return as_exchanges(plain, steps)


def as_exchanges(messages: Sequence[ChatMessage], steps: Sequence[Any]) -> list[ChatMessage]:
    """Return formatted messages with their last ``len(steps)`` as calls and results."""
    start = len(messages) - len(steps)
    said = zip(messages[start:], range(len(steps)), strict=True)
    return [*messages[:start], *(_as_exchange(message, steps, place) for message, place in said)]


def _as_exchange(message: ChatMessage, steps: Sequence[Any], place: int) -> ChatMessage:
    step = steps[place]
    if isinstance(step, ActionReasoningStep) and _is_answer(steps, place + 1):
        return SPOKEN.call(message, place, _name(step.action))
    return SPOKEN.result(message, place - 1) if _is_answer(steps, place) else message


def _is_answer(steps: Sequence[Any], place: int) -> bool:
    return (
        0 < place < len(steps)
        and isinstance(steps[place], ObservationReasoningStep)
        and isinstance(steps[place - 1], ActionReasoningStep)
    )


def _name(action: str) -> str:
    """A tool name every provider's rules let through, since a repair would not reach the text."""
    kept = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in action)
    return (kept if kept[:1].isalpha() else f"t{kept}")[:64]
