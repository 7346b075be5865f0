"""Sync and async chat stores behind one interface."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy.engine import URL, make_url

from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError, a_type
from history_curator.record.outbox import WriteBehind
from history_curator.record.prune import prune_connection
from llamaindex_history_curator._rows import message_to_dict

ChatStore = BaseChatStore | AsyncDBChatStore
Prune = Callable[[int | None], Coroutine[Any, Any, bool]]
R = TypeVar("R")

ID = "history_curator_id"
"""The keyword under which a stored message carries its id; no message that is read back has it."""
_TABLE = "llama_index_memory"
_REPLACE_IN_ONE_STEP = frozenset({"SimpleChatStore.set_messages", "PostgresChatStore.set_messages"})
"""The other stores delete first and add afterwards."""


def open_chat_store(chat_store: ChatStore | None, database: dict[str, Any]) -> ChatStore:
    """Return the chat store, opened from the arguments of `Memory` where it is not given.

    Raises:
        ConfigurationError: for anything that is not a chat store, or for both.
    """
    given = {name: value for name, value in database.items() if value is not None}
    if chat_store is not None and given:
        raise ConfigurationError(
            f"chat_store is given together with {', '.join(given)}. Fix: leave one of them out."
        )
    if chat_store is not None:
        return check_chat_store(chat_store)
    if not given:
        return SimpleChatStore()
    store = SQLAlchemyChatStore(**{"table_name": _TABLE, **given})
    if "async_engine" not in given:
        loop_of(store).is_owner = True
    return store


def check_chat_store(store: Any) -> ChatStore:
    """Return a chat store.

    Raises:
        ConfigurationError: for anything that is not one.
    """
    if not isinstance(store, (BaseChatStore, AsyncDBChatStore)):
        raise ConfigurationError(
            f"chat_store: {a_type(store)} is not a chat store. "
            "Fix: pass a BaseChatStore or an AsyncDBChatStore."
        )
    return store


def choose_key(chat_store_key: str, session_id: str | None, database: dict[str, Any]) -> str:
    """Return which conversation of the store is meant.

    Like `Memory`, a database without a name for the conversation gets one of its own, so that no
    two people share one.
    """
    if session_id is None:
        is_unnamed = chat_store_key == DEFAULT_CHAT_STORE_KEY and any(database.values())
        return str(uuid4()) if is_unnamed else chat_store_key
    if chat_store_key not in (DEFAULT_CHAT_STORE_KEY, session_id):
        raise ConfigurationError(
            "chat_store_key and session_id are both given, and differ. Fix: leave one of them out."
        )
    return session_id


def with_id(message: ChatMessage) -> ChatMessage:
    """Return a message with an id of its own, by which it is recognised in the store."""
    keywords = {**message.additional_kwargs, ID: uuid4().hex}
    return message.model_copy(update={"additional_kwargs": keywords})


def without_id(message: ChatMessage) -> ChatMessage:
    """Return a message as it was before it was stored."""
    if ID not in message.additional_kwargs:
        return message
    rest = {key: value for key, value in message.additional_kwargs.items() if key != ID}
    return message.model_copy(update={"additional_kwargs": rest})


def open_conversation(
    store: ChatStore,
    key: str,
    stamp: Callable[[ChatMessage], ChatMessage],
    prune: Prune | None = None,
) -> WriteBehind[ChatMessage]:
    """Return one conversation of a chat store, which goes on from memory while the store is down.

    Args:
        store: any chat store.
        key: the conversation.
        stamp: gives a message its id when it is added.
        prune: see `make_pruner`.
    """
    if isinstance(store, AsyncDBChatStore):
        calls = _async_store_calls(store, key, prune)
    else:
        calls = _sync_store_calls(store, key)
    name = f"chat store {store.class_name()}"
    return WriteBehind(**calls, stamp=stamp, key=_read_id, same=_is_same, name=name)


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


def _async_store_calls(store: AsyncDBChatStore, key: str, prune: Prune | None) -> dict[str, Any]:
    calls: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
        # Archived messages were said as well: a record written by `Memory` is read whole.
        "load": lambda: store.get_messages(key, status=None),
        "append": lambda messages: store.add_messages(key, list(messages)),
        "replace": lambda messages: store.set_messages(key, list(messages)),
        "clear": lambda: store.delete_messages(key),
    }
    if prune is not None:
        calls["edit"] = prune
    loop = loop_of(store)
    sync = {name: partial(loop.run, call) for name, call in calls.items()}
    return sync | {f"a{name}": partial(loop.arun, call) for name, call in calls.items()}


def replaces_in_one_step(store: ChatStore) -> bool:
    """Whether `set_messages` of a store leaves either the old conversation or the new one."""
    return getattr(type(store).set_messages, "__qualname__", "") in _REPLACE_IN_ONE_STEP


def make_pruner(store: ChatStore, key: str, retention: RetentionConfig) -> Prune | None:
    """Return what applies retention to the rows of a SQL store, or None for other stores.

    Rows are edited in place in one transaction. It takes how many turns grew old (None looks at
    all), and returns whether anything changed.
    """
    if not isinstance(store, SQLAlchemyChatStore):
        return None

    async def prune(aged: int | None) -> bool:
        sessions, table = await store._initialize()
        async with sessions() as session:
            connection = await session.connection()
            changed: bool = await connection.run_sync(prune_connection, table, key, retention, aged)
            await session.commit()
        return changed

    return prune


def _read_id(message: ChatMessage) -> str | None:
    found = message.additional_kwargs.get(ID)
    return found if isinstance(found, str) else None


def _is_same(stored: Any, given: Any) -> bool:
    stored, given = without_id(stored), without_id(given)
    return bool(stored == given) or message_to_dict(stored) == message_to_dict(given)


class BackgroundLoop:
    """Calls an async-only store from sync and async code.

    An async caller is awaited on its own loop, unless the store is ours (`is_owner`) or a sync
    caller was there before: drivers tie a connection to the loop that opened it, so from then on
    everything runs on one loop in a thread. A sync caller never waits for a loop that LlamaIndex
    may have blocked. The connections that were opened on our loop are closed with the store.
    """

    def __init__(self, store: AsyncDBChatStore) -> None:
        self.is_owner = False
        self._store = weakref.ref(store)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Any = None

    @property
    def is_running(self) -> bool:
        """Whether a loop of ours was started for the store."""
        return self._loop is not None

    def run(self, call: Callable[..., Coroutine[Any, Any, R]], *args: Any) -> R:
        """Run an async function to its end from sync code, also inside a running loop."""
        return asyncio.run_coroutine_threadsafe(self._call(call, args), self._start()).result()

    async def arun(self, call: Callable[..., Coroutine[Any, Any, R]], *args: Any) -> R:
        """Await an async function."""
        if self._loop is None and not self.is_owner:
            return await call(*args)
        future = asyncio.run_coroutine_threadsafe(self._call(call, args), self._start())
        return await asyncio.wrap_future(future)

    async def _call(self, call: Callable[..., Coroutine[Any, Any, R]], args: Any) -> R:
        try:
            return await call(*args)
        finally:
            if self.is_owner:
                self._engine = getattr(self._store(), "_async_engine", None)

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                engine = getattr(self._store(), "_async_engine", None)
                self.is_owner = self.is_owner or engine is None
                if engine is not None and engine.dialect.name != "sqlite":
                    # Connections so far stay with the loop that opened them.
                    engine.sync_engine.dispose(close=False)
                loop = asyncio.new_event_loop()
                name = "history-curator-store"
                threading.Thread(target=_run_loop, args=(loop,), name=name, daemon=True).start()
                self._loop = loop
            return self._loop

    def close(self) -> None:
        """Close the connections that were opened on our loop, and the loop."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(_stop_loop(self._engine), self._loop)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def _stop_loop(engine: Any) -> None:
    try:
        if engine is not None:
            await engine.dispose()
    finally:
        asyncio.get_running_loop().stop()


_loops: dict[int, BackgroundLoop] = {}
_loops_lock = threading.Lock()


def loop_of(store: AsyncDBChatStore) -> BackgroundLoop:
    """Return the loop of a store: one, however many memories are open on it."""
    key = id(store)
    with _loops_lock:
        loop = _loops.get(key)
        if loop is None:
            loop = _loops[key] = BackgroundLoop(store)
            weakref.finalize(store, lambda: _loops.pop(key).close())
        return loop


# How a memory that was saved as JSON finds its chat store again.


def is_in_memory(store: ChatStore) -> bool:
    """Whether a store lives in the memory of this process, and nowhere else."""
    if not isinstance(store, SQLAlchemyChatStore):
        return isinstance(store, SimpleChatStore)
    url = _url_of(store)
    name = url.database or ""
    return url.get_backend_name() == "sqlite" and (
        name in ("", ":memory:") or "mode=memory" in name or url.query.get("mode") == "memory"
    )


def _url_of(store: SQLAlchemyChatStore) -> URL:
    engine = store._async_engine
    return make_url(store.async_database_uri) if engine is None else engine.url


def store_reference(store: ChatStore) -> dict[str, Any] | None:
    """Return the address of a SQL store, or None where only its owner can open it again.

    A password is never written down, nor an address that leaves out how to connect.
    """
    if type(store) is not SQLAlchemyChatStore or is_in_memory(store):
        return None
    url = make_url(store.async_database_uri)
    if url.password or _url_of(store) != url:
        return None
    if url.get_backend_name() == "sqlite" and not str(url.database).startswith("file:"):
        url = url.set(database=os.path.abspath(str(url.database)))
    return {
        "table_name": store.table_name,
        "async_database_uri": url.render_as_string(),
        "db_schema": store.db_schema,
    }


class MissingStore(BaseChatStore):
    """Stands for a store that is not open in this process: every use is an error that says so."""

    kind: str

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows this store by."""
        return "MissingStore"

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ConfigurationError(
            f"the {self.kind} of this memory is not open in this process, so nothing can be read "
            "or added. Fix: pass memory= to the run of the agent, or chat_store= to "
            "CuratedMemory.from_dict."
        )

    set_messages = get_messages = add_message = get_keys = _refuse  # type: ignore[pydantic-field]
    delete_messages = delete_message = delete_last_message = _refuse  # type: ignore[pydantic-field]
