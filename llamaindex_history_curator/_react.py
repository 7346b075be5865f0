"""ReAct steps as exchanges.

A ReAct agent writes its calls as text and gets its results as user messages. Taken literally, a
result of 20,000 tokens would be a question that must not be cut. So an action and its observation
are curated as what they are, a call and its result, and become text again afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.react.types import ActionReasoningStep, ObservationReasoningStep
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock

_PREFIX = "Observation: "
_ID = "react-"


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
        call = ToolCallBlock(tool_call_id=f"{_ID}{place}", tool_name=_name(step.action))
        return message.model_copy(update={"blocks": [*message.blocks, call]})
    if _is_answer(steps, place):
        keywords = {"tool_call_id": f"{_ID}{place - 1}"}
        return message.model_copy(update={"role": MessageRole.TOOL, "additional_kwargs": keywords})
    return message


def as_text(messages: Sequence[ChatMessage], role: MessageRole) -> list[ChatMessage]:
    """Return curated messages with the calls and results of `as_exchanges` as text again."""
    return [_as_text(message, role) for message in messages]


def _as_text(message: ChatMessage, role: MessageRole) -> ChatMessage:
    if message.role is MessageRole.TOOL and _is_ours(message.additional_kwargs.get("tool_call_id")):
        text = message.content or ""
        if not text.startswith(_PREFIX):
            text = _PREFIX + text
        return ChatMessage(role=role, content=text)
    kept = [
        block
        for block in message.blocks
        if not (isinstance(block, ToolCallBlock) and _is_ours(block.tool_call_id))
    ]
    if len(kept) == len(message.blocks):
        return message
    return message.model_copy(update={"blocks": kept})


def _is_answer(steps: Sequence[Any], place: int) -> bool:
    return (
        0 < place < len(steps)
        and isinstance(steps[place], ObservationReasoningStep)
        and isinstance(steps[place - 1], ActionReasoningStep)
    )


def _is_ours(call_id: Any) -> bool:
    return isinstance(call_id, str) and call_id.startswith(_ID)


def _name(action: str) -> str:
    """A tool name every provider's rules let through, since a repair would not reach the text."""
    kept = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in action)
    return (kept if kept[:1].isalpha() else f"t{kept}")[:64]
