"""Retention in the rows of a SQL store, and what becomes of it where there are none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from history_curator.record.prune import prune_session
from history_curator.settings import RetentionConfig
from history_curator.sockets import prune_connection

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
