"""Messages whole in stores that keep a part of them.

``langchain-redis`` stores text, kind and ``additional_kwargs`` of a message, and drops its id, its
name, the calls it makes and what it cost: a result would come back without its call. What such a
store drops travels in ``additional_kwargs``, which no provider is sent, and is put back on reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage

FIELDS = "history_curator_fields"

_DROPPED = (
    "id", "name", "tool_calls", "invalid_tool_calls", "usage_metadata", "response_metadata"
)  # fmt: skip


def keeps_parts(store: Any) -> bool:
    """Whether a store is known to keep a part of each message only."""
    return any(cls.__module__.startswith("langchain_redis") for cls in type(store).__mro__)


def pack(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Copies of messages that carry what the store would drop."""
    return [_packed(message) for message in messages]


def unpack(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages as they were before `pack`; others as they are."""
    return [_unpacked(message) for message in messages]


def _packed(message: BaseMessage) -> BaseMessage:
    given = {name: getattr(message, name, None) for name in _DROPPED}
    fields = {name: value for name, value in given.items() if value}
    extra = {**message.additional_kwargs, FIELDS: fields}
    return message.model_copy(update={"additional_kwargs": extra})


def _unpacked(message: BaseMessage) -> BaseMessage:
    fields = message.additional_kwargs.get(FIELDS)
    if not isinstance(fields, dict):
        return message
    extra = {key: value for key, value in message.additional_kwargs.items() if key != FIELDS}
    return message.model_copy(update={**fields, "additional_kwargs": extra})
