"""Messages that always stay."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_core.messages import BaseMessage


def pin(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return copies of messages that every view keeps, such as few-shot examples.

    What is pinned stays whole and in its place, whatever the budget does to the rest; a pinned
    tool call brings its results. The mark is a note for us: no provider is sent it.

    Example:
        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> examples = pin([HumanMessage("2 🦜 9"), AIMessage("11")])
        >>> examples[0].additional_kwargs
        {'pinned': True}
    """
    return [
        message.model_copy(
            update={"additional_kwargs": {**message.additional_kwargs, "pinned": True}}
        )
        for message in messages
    ]
