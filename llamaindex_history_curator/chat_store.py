"""Chat stores: sync and async ones behind one interface."""

from __future__ import annotations

import asyncio
import copy
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import cache, partial
from typing import Any, NoReturn
from uuid import uuid4

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError
from history_curator.record.outbox import WriteBehind
from history_curator.record.prune import prune_connection

ChatStore = BaseChatStore | AsyncDBChatStore

_ID = "history_curator_id"
"""The keyword under which a stored message carries its id; no message that is read back has it."""


def can_edit(store: ChatStore) -> bool:
    """Whether a store edits or replaces a conversation in one step: others delete it first."""
    name = getattr(type(store).set_messages, "__qualname__", "").split(".")[0]
    is_known = name in ("SimpleChatStore", "PostgresChatStore")
    return is_known or isinstance(store, SQLAlchemyChatStore)


def hand_out(message: ChatMessage) -> ChatMessage:
    """Return a copy of a stored message, as it was before it was stored."""
    found = copy.deepcopy(message)
    found.additional_kwargs.pop(_ID, None)
    return found


def _with_id(message: ChatMessage) -> ChatMessage:
    keywords = {**message.additional_kwargs, _ID: uuid4().hex}
    return message.model_copy(update={"additional_kwargs": keywords})


# One conversation of a store, as sync calls: awaited, they run in a thread.


def open_conversation(
    store: ChatStore, key: str, retention: RetentionConfig | None, *, stamps: bool
) -> WriteBehind[ChatMessage]:
    """Return one conversation of a chat store, which goes on from memory while the store is down.

    With `stamps` a stored message has an id, by which it is recognised after a write that failed.
    """
    is_async = isinstance(store, AsyncDBChatStore)
    used: Any = _with_own_engine(store) if isinstance(store, AsyncDBChatStore) else store
    # Archived messages belong to the record: one written by `Memory` is read whole.
    options = {"status": None} if is_async else {}

    def append(messages: Sequence[ChatMessage]) -> Any:
        if is_async:
            return used.add_messages(key, list(messages))
        for message in messages:
            used.add_message(key, message)
        return None

    calls: dict[str, Any] = {
        "load": lambda: used.get_messages(key, **options) or (),
        "append": append,
        "replace": lambda messages: used.set_messages(key, list(messages)),
        "clear": lambda: used.delete_messages(key),
    }
    if retention is not None and isinstance(used, SQLAlchemyChatStore):
        calls["edit"] = partial(_prune_rows, used, key, retention)
    if is_async:
        calls = {name: partial(_run, call) for name, call in calls.items()}
    if stamps and not isinstance(store, SimpleChatStore):
        calls |= {"stamp": _with_id, "key": lambda message: message.additional_kwargs.get(_ID)}
    return WriteBehind(**calls, name=f"chat store {store.class_name()}")


def call_by_status(store: ChatStore, name: str, key: str, status: MessageStatus) -> Any:
    """Read or delete the messages of a conversation that have a status: elsewhere all are active."""
    if isinstance(store, AsyncDBChatStore):
        return _run(getattr(_with_own_engine(store), name), key, status)
    return getattr(store, name)(key) if status is MessageStatus.ACTIVE else []


async def _prune_rows(store: SQLAlchemyChatStore, key: str, retention: RetentionConfig) -> None:
    """Apply retention to the rows of a conversation, in one transaction."""
    sessions, table = await store._initialize()
    async with sessions() as session:
        connection = await session.connection()
        await connection.run_sync(prune_connection, table, key, retention)
        await session.commit()


# Stores that can only be awaited are used on one loop that never ends: a connection belongs to the
# loop that opened it, and a caller's loop may end first, or be blocked by LlamaIndex.

_own_engines: weakref.WeakSet[AsyncEngine] = weakref.WeakSet()


@cache
def _own_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="history-curator-store", daemon=True).start()
    return loop


os.register_at_fork(after_in_child=_own_loop.cache_clear)


def _run(call: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
    return asyncio.run_coroutine_threadsafe(call(*args), _own_loop()).result()


def _with_own_engine(store: AsyncDBChatStore) -> AsyncDBChatStore:
    """Return a SQL store with an engine of ours, closed when the store is no longer used.

    An engine of the caller's keeps its connections, which belong to another loop: ours has the
    same address. SQLite may be in memory, and its connections can be shared.
    """
    engine = getattr(store, "_async_engine", None)
    is_shared = engine is not None and (engine in _own_engines or engine.dialect.name == "sqlite")
    if is_shared or not isinstance(store, SQLAlchemyChatStore):
        return store
    if engine is not None:
        store = store.model_copy()
        store._metadata, store._async_session_factory = MetaData(), None
    store._async_engine = create_async_engine(engine.url if engine else store.async_database_uri)
    _own_engines.add(store._async_engine)
    weakref.finalize(store, close_engine, store._async_engine)
    return store


def close_engine(engine: Any) -> Future[None]:
    """Begin to close the connections of an engine of ours."""
    return asyncio.run_coroutine_threadsafe(engine.dispose(), _own_loop())


class MissingStore(BaseChatStore):
    """Stands for a store that is not open in this process: every use is an error that says so."""

    kind: str

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ConfigurationError(
            f"the {self.kind} of this memory is not open in this process, so nothing can be read "
            "or added. Fix: pass memory= to a new run of the agent, put it into the context of one "
            'that goes on, ctx.store.set("memory", …), or pass chat_store= to '
            "CuratedMemory.from_dict."
        )

    set_messages = get_messages = add_message = get_keys = _refuse  # type: ignore[pydantic-field]
    delete_messages = delete_message = delete_last_message = _refuse  # type: ignore[pydantic-field]
