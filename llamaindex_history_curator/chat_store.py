"""Chat stores: sync and async ones behind one interface, and found again by their address."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import cache, partial
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy import MetaData
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError, a_type
from history_curator.record.outbox import WriteBehind
from history_curator.record.prune import prune_connection
from llamaindex_history_curator.messages import copy_value

ChatStore = BaseChatStore | AsyncDBChatStore
R = TypeVar("R")

_ID = "history_curator_id"
"""The keyword under which a stored message carries its id; no message that is read back has it."""
_TABLE = "llama_index_memory"


def open_chat_store(chat_store: Any, database: dict[str, Any]) -> ChatStore:
    """Return the chat store, opened from the arguments of `Memory` where it is not given."""
    given = {name: value for name, value in database.items() if value is not None}
    if chat_store is not None and given:
        raise ConfigurationError(
            f"chat_store is given together with {', '.join(given)}. Fix: leave one of them out."
        )
    if chat_store is not None and not isinstance(chat_store, (BaseChatStore, AsyncDBChatStore)):
        raise ConfigurationError(
            f"chat_store: {a_type(chat_store)} is not a chat store. "
            "Fix: pass a BaseChatStore or an AsyncDBChatStore."
        )
    if given:
        return SQLAlchemyChatStore(**{"table_name": _TABLE, **given})
    return SimpleChatStore() if chat_store is None else chat_store


def can_edit(store: ChatStore) -> bool:
    """Whether a store edits or replaces a conversation in one step: others delete it first."""
    name = getattr(type(store).set_messages, "__qualname__", "")
    in_one_step = ("SimpleChatStore.set_messages", "PostgresChatStore.set_messages")
    return isinstance(store, SQLAlchemyChatStore) or name in in_one_step


def hand_out(message: ChatMessage) -> ChatMessage:
    """Return a copy of a stored message, as it was before it was stored."""
    return copy_value(_without_id(message))


def _with_id(message: ChatMessage) -> ChatMessage:
    keywords = {**message.additional_kwargs, _ID: uuid4().hex}
    return message.model_copy(update={"additional_kwargs": keywords})


def _without_id(message: ChatMessage) -> ChatMessage:
    if _ID not in message.additional_kwargs:
        return message
    rest = {key: value for key, value in message.additional_kwargs.items() if key != _ID}
    return message.model_copy(update={"additional_kwargs": rest})


def _read_id(message: ChatMessage) -> str | None:
    found = message.additional_kwargs.get(_ID)
    return found if isinstance(found, str) else None


# One conversation of a store.


def open_conversation(
    store: ChatStore, key: str, retention: RetentionConfig | None = None, *, ids: bool = True
) -> WriteBehind[ChatMessage]:
    """Return one conversation of a chat store, which goes on from memory while the store is down.

    With `ids` a stored message carries an id, by which it is recognised after a write that failed.
    """
    if isinstance(store, AsyncDBChatStore):
        calls = _async_store_calls(_with_own_engine(store), key, retention)
    else:
        calls = _sync_store_calls(store, key)
    if ids and not isinstance(store, SimpleChatStore):
        calls |= {"stamp": _with_id, "key": _read_id}
    return WriteBehind(**calls, name=f"chat store {store.class_name()}")


def _sync_store_calls(store: BaseChatStore, key: str) -> dict[str, Any]:
    def append(messages: Sequence[ChatMessage]) -> None:
        for message in messages:
            store.add_message(key, message)

    async def aappend(messages: Sequence[ChatMessage]) -> None:
        for message in messages:
            await store.async_add_message(key, message)

    async def aload() -> Sequence[ChatMessage]:
        return await store.aget_messages(key) or ()

    return {
        "load": lambda: store.get_messages(key) or (),
        "append": append,
        "replace": lambda messages: store.set_messages(key, list(messages)),
        "clear": lambda: store.delete_messages(key),
        "aload": aload,
        "aappend": aappend,
        "areplace": lambda messages: store.aset_messages(key, list(messages)),
        "aclear": lambda: store.adelete_messages(key),
    }


def _async_store_calls(
    store: AsyncDBChatStore, key: str, retention: RetentionConfig | None
) -> dict[str, Any]:
    calls: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
        # Archived messages belong to the record: one written by `Memory` is read whole.
        "load": lambda: store.get_messages(key, status=None),
        "append": lambda messages: store.add_messages(key, list(messages)),
        "replace": lambda messages: store.set_messages(key, list(messages)),
        "clear": lambda: store.delete_messages(key),
    }
    if retention is not None and isinstance(store, SQLAlchemyChatStore):
        calls["edit"] = partial(_prune_rows, store, key, retention)
    sync = {name: partial(_run, call) for name, call in calls.items()}
    return sync | {f"a{name}": partial(_arun, call) for name, call in calls.items()}


async def _prune_rows(store: SQLAlchemyChatStore, key: str, retention: RetentionConfig) -> bool:
    """Apply retention to the rows of a conversation, in one transaction."""
    sessions, table = await store._initialize()
    async with sessions() as session:
        connection = await session.connection()
        changed: bool = await connection.run_sync(prune_connection, table, key, retention)
        await session.commit()
    return changed


# Stores that can only be awaited are used on one loop that never ends: a connection belongs to the
# loop that opened it, and a caller's loop may end first, or be blocked by LlamaIndex.

_own_engines: weakref.WeakSet[AsyncEngine] = weakref.WeakSet()


@cache
def _own_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="history-curator-store", daemon=True).start()
    return loop


os.register_at_fork(after_in_child=_own_loop.cache_clear)


def _run(call: Callable[..., Coroutine[Any, Any, R]], *args: Any) -> R:
    return asyncio.run_coroutine_threadsafe(call(*args), _own_loop()).result()


async def _arun(call: Callable[..., Coroutine[Any, Any, R]], *args: Any) -> R:
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(*args), _own_loop()))


def _with_own_engine(store: AsyncDBChatStore) -> AsyncDBChatStore:
    """Return a SQL store with an engine of ours, closed when the store is no longer used.

    An engine of the caller's keeps its connections, which belong to another loop: ours has the
    same address. SQLite may be in memory, and its connections can be shared.
    """
    if not isinstance(store, SQLAlchemyChatStore):
        return store
    engine = store._async_engine
    if engine in _own_engines or (engine is not None and engine.dialect.name == "sqlite"):
        return store
    if engine is not None:
        store = store.model_copy()
        store._metadata, store._async_session_factory = MetaData(), None
    store._async_engine = create_async_engine(engine.url if engine else store.async_database_uri)
    _own_engines.add(store._async_engine)
    weakref.finalize(store, close_engine, store._async_engine)
    return store


def close_engine(engine: Any) -> Future[None] | None:
    """Begin to close the connections of an engine of ours; an engine of others is theirs to close."""
    if engine not in _own_engines:
        return None
    return asyncio.run_coroutine_threadsafe(engine.dispose(), _own_loop())


# How a memory that was saved as JSON finds its chat store again.


def is_in_memory(store: Any) -> bool:
    """Whether a store lives in the memory of this process, and nowhere else."""
    if isinstance(store, SQLAlchemyChatStore):
        url = _url_of(store)
        return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")
    return isinstance(store, SimpleChatStore)


def _url_of(store: SQLAlchemyChatStore) -> URL:
    engine = store._async_engine
    return make_url(store.async_database_uri) if engine is None else engine.url


def address_of(store: Any) -> dict[str, Any] | None:
    """Return the address of a SQL store, or None where only its owner can open it again.

    A password is never written down.
    """
    if type(store) is not SQLAlchemyChatStore or is_in_memory(store) or _url_of(store).password:
        return None
    url = _url_of(store)
    if url.get_backend_name() == "sqlite":
        url = url.set(database=os.path.abspath(str(url.database)))
    uri = url.render_as_string()
    return {"table_name": store.table_name, "async_database_uri": uri, "db_schema": store.db_schema}


class MissingStore(BaseChatStore):
    """Stands for a store that is not open in this process: every use is an error that says so."""

    kind: str

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ConfigurationError(
            f"the {self.kind} of this memory is not open in this process, so nothing can be read "
            "or added. Fix: pass memory= to the run of the agent, or chat_store= to "
            "CuratedMemory.from_dict."
        )

    set_messages = get_messages = add_message = get_keys = _refuse  # type: ignore[pydantic-field]
    delete_messages = delete_message = delete_last_message = _refuse  # type: ignore[pydantic-field]
