"""Sync and async chat stores behind one interface, and the record that a memory keeps in them."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY, BaseChatStoreMemory
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError, ConversionError, a_type
from history_curator.record.outbox import WriteBehind
from history_curator.record.prune import prune_connection
from history_curator.record.retention import Retention
from history_curator.run_steps import run_async, run_sync
from llamaindex_history_curator.messages import FORMAT
from llamaindex_history_curator.plain_values import copy_value

ChatStore = BaseChatStore | AsyncDBChatStore
Prune = Callable[[], Coroutine[Any, Any, bool]]
R = TypeVar("R")

_ID = "history_curator_id"
"""The keyword under which a stored message carries its id; no message that is read back has it."""
_TABLE = "llama_index_memory"
_REPLACE_IN_ONE_STEP = frozenset({"SimpleChatStore.set_messages", "PostgresChatStore.set_messages"})
"""The other stores delete first and add afterwards."""
_STORE_FIELDS = frozenset(("chat_store", "chat_store_key", "retention", "rewrite"))


def open_chat_store(chat_store: ChatStore | None, database: dict[str, Any]) -> ChatStore:
    """Return the chat store, opened from the arguments of `Memory` where it is not given."""
    given = {name: value for name, value in database.items() if value is not None}
    if chat_store is not None and given:
        raise ConfigurationError(
            f"chat_store is given together with {', '.join(given)}. Fix: leave one of them out."
        )
    if chat_store is not None:
        return chat_store
    if not given:
        return SimpleChatStore()
    store = SQLAlchemyChatStore(**{"table_name": _TABLE, **given})
    if "async_engine" not in given:
        loop_of(store).is_owner = True
    return store


def with_id(message: ChatMessage) -> ChatMessage:
    """Return a message with an id of its own, by which it is recognised in the store."""
    keywords = {**message.additional_kwargs, _ID: uuid4().hex}
    return message.model_copy(update={"additional_kwargs": keywords})


def _without_id(message: ChatMessage) -> ChatMessage:
    if _ID not in message.additional_kwargs:
        return message
    rest = {key: value for key, value in message.additional_kwargs.items() if key != _ID}
    return message.model_copy(update={"additional_kwargs": rest})


def hand_out(message: ChatMessage) -> ChatMessage:
    """Return a copy of a stored message, as it was before it was stored."""
    return copy_value(_without_id(message))


# The record of a memory.


class RecordMemory(BaseChatStoreMemory):
    """The writing half of a memory: put, set, reset, and everything back.

    Stores copies and returns copies. In a database a message is stored with an id, given when it
    is put; messages that are returned have none. A field that is assigned holds from then on:
    another `chat_store_key` is another conversation.
    """

    chat_store: Any = Field(default_factory=SimpleChatStore, exclude=True, repr=False)
    chat_store_key: str = DEFAULT_CHAT_STORE_KEY
    retention: RetentionConfig | None = None
    rewrite: bool = False

    _conversation: WriteBehind[ChatMessage] = PrivateAttr()
    _retention: Retention = PrivateAttr()
    _is_open: bool = PrivateAttr(default=False)

    def model_post_init(self, context: Any, /) -> None:
        """Open the store."""
        super().model_post_init(context)
        self._open_store()
        self._is_open = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in type(self).model_fields or not self._is_open:
            super().__setattr__(name, value)
            return
        waiting = self._conversation.pending if name in _STORE_FIELDS else ()
        if waiting and not run_sync(self._conversation.flush()):
            raise ConfigurationError(
                f"{name}: {len(waiting)} messages still wait for the chat store, which is down. "
                "Fix: assign it when `degraded` is False."
            )
        before = dict(self.__dict__)
        super().__setattr__(name, load_retention(value) if name == "retention" else value)
        try:
            self._apply(name)
        except Exception:
            self.__dict__.update(before)
            raise

    def _apply(self, name: str) -> None:
        """Make a field that was assigned hold."""
        if name in _STORE_FIELDS:
            self._open_store()

    def _open_store(self) -> None:
        store = self.chat_store
        if not isinstance(store, (BaseChatStore, AsyncDBChatStore)):
            raise ConfigurationError(
                f"chat_store: {a_type(store)} is not a chat store. "
                "Fix: pass a BaseChatStore or an AsyncDBChatStore."
            )
        prune = None
        if self.retention is not None:
            prune = _make_pruner(store, self.chat_store_key, self.retention)
        set_messages = getattr(type(store).set_messages, "__qualname__", "")
        edits_store = prune is not None or self.rewrite or set_messages in _REPLACE_IN_ONE_STEP
        retention = None if self._is_shadow else self.retention
        self._retention = Retention(FORMAT, retention, store=store, edits_store=edits_store)
        self._conversation = open_conversation(store, self.chat_store_key, self._stamp, prune)

    @property
    def session_id(self) -> str:
        """The conversation of the store: `chat_store_key`, by the name `Memory` has for it."""
        return self.chat_store_key

    @session_id.setter
    def session_id(self, value: str) -> None:
        self.chat_store_key = value

    def get_all(self) -> list[ChatMessage]:
        """Return the record: everything put and not reset, oldest first."""
        return list(map(hand_out, run_sync(self._conversation.read())))

    async def aget_all(self) -> list[ChatMessage]:
        """Return the record: everything put and not reset, oldest first."""
        return list(map(hand_out, await run_async(self._conversation.read())))

    def put(self, message: ChatMessage) -> None:
        """Add one message to the record."""
        self.put_messages([message])

    async def aput(self, message: ChatMessage) -> None:
        """Add one message to the record."""
        await self.aput_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the record, all at once."""
        run_sync(self._retention.add(self._conversation, _take_in(messages)))

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages to the record, all at once."""
        await run_async(self._retention.add(self._conversation, _take_in(messages)))

    def set(self, messages: list[ChatMessage]) -> None:
        """Replace the record."""
        run_sync(self._conversation.add(_take_in(messages), replace=True))

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the record."""
        await run_async(self._conversation.add(_take_in(messages), replace=True))

    def reset(self) -> None:
        """Forget everything."""
        run_sync(self._conversation.add([], replace=True))

    async def areset(self) -> None:
        """Forget everything."""
        await run_async(self._conversation.add([], replace=True))

    @property
    def degraded(self) -> bool:
        """Whether the chat store failed the last time it was asked."""
        return self._conversation.degraded

    @property
    def _is_shadow(self) -> bool:
        return getattr(getattr(self, "curator", None), "mode", None) == "shadow"

    def _stamp(self, message: ChatMessage) -> ChatMessage:
        # A dict cannot fail halfway, and shadow stores what it is given.
        is_plain = isinstance(self.chat_store, SimpleChatStore) or self._is_shadow
        return message if is_plain else with_id(message)


def _take_in(messages: Sequence[Any]) -> list[ChatMessage]:
    """Return copies of messages, and refuse anything else before it is stored."""
    for index, message in enumerate(messages):
        if not isinstance(message, ChatMessage):
            raise ConversionError(
                f"expected a ChatMessage, got {type(message).__name__}.",
                index=index,
                fix='put ChatMessage(role="user", content=…).',
            )
    return list(map(hand_out, messages))


def load_retention(given: RetentionConfig | dict[str, Any] | None) -> RetentionConfig | None:
    """Return retention as a configuration."""
    return RetentionConfig.from_dict(given) if isinstance(given, dict) else given


# One conversation of a store.


def open_conversation(
    store: ChatStore,
    key: str,
    stamp: Callable[[ChatMessage], ChatMessage] = with_id,
    prune: Prune | None = None,
) -> WriteBehind[ChatMessage]:
    """Return one conversation of a chat store, which goes on from memory while the store is down.

    `stamp` gives a message its id when it is added; `prune` applies retention in the store.
    """
    if isinstance(store, AsyncDBChatStore):
        calls = _async_store_calls(store, key, prune)
    else:
        calls = _sync_store_calls(store, key)
    name = f"chat store {store.class_name()}"
    return WriteBehind(**calls, stamp=stamp, key=_read_id, name=name)


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
        # Archived messages belong to the record: one written by `Memory` is read whole.
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


def _make_pruner(store: ChatStore, key: str, retention: RetentionConfig) -> Prune | None:
    """Return what edits the rows of a SQL store in one transaction, or None for other stores."""
    if not isinstance(store, SQLAlchemyChatStore):
        return None

    async def prune() -> bool:
        sessions, table = await store._initialize()
        async with sessions() as session:
            connection = await session.connection()
            changed: bool = await connection.run_sync(prune_connection, table, key, retention)
            await session.commit()
        return changed

    return prune


def _read_id(message: ChatMessage) -> str | None:
    found = message.additional_kwargs.get(_ID)
    return found if isinstance(found, str) else None


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
                self._loop = asyncio.new_event_loop()
                name = "history-curator-store"
                target = partial(_run_loop, self._loop)
                threading.Thread(target=target, name=name, daemon=True).start()
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
