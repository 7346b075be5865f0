"""Retention in the rows of a SQL store, and what becomes of it where there are none."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from history_curator.config import RetentionConfig
from history_curator.record.prune import prune_session

logger = logging.getLogger("history_curator.retention")

_COLUMNS = frozenset({"id", "message", "session_id"})


def edits_rows(store: Any) -> bool:
    """Whether a store is laid out like ``SQLChatMessageHistory``, so that rows can be edited."""
    table = getattr(getattr(store, "sql_model_class", None), "__table__", None)
    if table is None or not (_engine(store) or _async_engine(store)):
        return False
    named = getattr(store, "session_id_field_name", "session_id") == "session_id"
    return named and {column.name for column in table.columns} >= _COLUMNS


def pruner(store: Any, retention: RetentionConfig) -> Callable[[], Any] | None:
    """Return what applies retention to the rows of a sync store, in one transaction."""
    engine = _engine(store)
    if engine is None:
        return None
    table = store.sql_model_class.__table__
    return lambda: prune_session(engine, table, store.session_id, retention)


def async_pruner(store: Any, retention: RetentionConfig) -> Callable[[], Awaitable[Any]] | None:
    """Return what applies retention to the rows of an async store, in one transaction."""
    engine = _async_engine(store)
    if engine is None:
        return None
    table = store.sql_model_class.__table__

    def prune(connection: Any) -> None:
        opened = SimpleNamespace(begin=lambda: nullcontext(connection))
        prune_session(opened, table, store.session_id, retention)

    async def aprune() -> None:
        async with engine.begin() as connection:
            await connection.run_sync(prune)

    return aprune


@lru_cache(maxsize=256)
def log_view_only(store: str) -> None:
    """Say, once per kind of store, that retention leaves the store alone."""
    logger.warning(
        "%s cannot edit messages in place: retention applies to what is read, and the store keeps "
        "everything. Fix: pass rewrite=True if nothing else writes to this conversation and a "
        "crash may lose it.",
        store,
    )


def _engine(store: Any) -> Any:
    return getattr(store, "engine", None)


def _async_engine(store: Any) -> Any:
    return getattr(store, "async_engine", None)
