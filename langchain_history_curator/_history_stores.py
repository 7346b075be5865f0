"""What some stores of chat histories can do, and what some cannot.

Rows of a SQL store can be edited in place. ``langchain-redis`` stores text, kind and
``additional_kwargs`` of a message, and drops its id, its name, the calls it makes and what it cost:
a result would come back without its call. What such a store drops travels in ``additional_kwargs``,
which no provider is sent, and is put back on reading.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from history_curator.record.prune import prune_session
from history_curator.settings import RetentionConfig
from history_curator.sockets import prune_connection

FIELDS = "history_curator_fields"

_DROPPED = (
    "id", "name", "tool_calls", "invalid_tool_calls", "usage_metadata", "response_metadata"
)  # fmt: skip

_COLUMNS = frozenset({"id", "message", "session_id"})


def edits_rows(store: Any) -> bool:
    """Whether a store is laid out like ``SQLChatMessageHistory``, so that rows can be edited."""
    table = getattr(getattr(store, "sql_model_class", None), "__table__", None)
    if table is None or not (_engine(store) or _async_engine(store)):
        return False
    named = getattr(store, "session_id_field_name", "session_id") == "session_id"
    return named and {column.name for column in table.columns} >= _COLUMNS


def pruner(store: Any, retention: RetentionConfig) -> Callable[[int | None], bool] | None:
    """Return what applies retention to the rows of a sync store, in one transaction.

    It takes how many turns grew old (None looks at all), and returns whether anything changed.
    """
    engine = _engine(store)
    if engine is None:
        return None
    table = store.sql_model_class.__table__
    return lambda aged: bool(prune_session(engine, table, store.session_id, retention, aged=aged))


def async_pruner(
    store: Any, retention: RetentionConfig
) -> Callable[[int | None], Awaitable[bool]] | None:
    """Return the same for an async store."""
    engine = _async_engine(store)
    if engine is None:
        return None
    table = store.sql_model_class.__table__

    async def aprune(aged: int | None) -> bool:
        async with engine.begin() as connection:
            changed: bool = await connection.run_sync(
                prune_connection, table, store.session_id, retention, aged
            )
        return changed

    return aprune


def _engine(store: Any) -> Any:
    return getattr(store, "engine", None)


def _async_engine(store: Any) -> Any:
    return getattr(store, "async_engine", None)


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
