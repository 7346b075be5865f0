"""Chat stores: sync and async ones behind one interface, and found again by their address."""

from __future__ import annotations

import asyncio
import copy
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine, Hashable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY, BaseChatStoreMemory
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy import MetaData
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError, a_type
from history_curator.record.outbox import WriteBehind
from history_curator.record.prune import prune_connection
from history_curator.record.retention import Retention
from history_curator.run_steps import Call, Steps, run_async, run_sync
from llamaindex_history_curator.messages import FORMAT

ChatStore = BaseChatStore | AsyncDBChatStore
R = TypeVar("R")

_ID = "history_curator_id"
"""The keyword under which a stored message carries its id; no message that is read back has it."""
_TABLE = "llama_index_memory"
_asked: ContextVar[dict[str, str | None]] = ContextVar("asked")
"""The question that this task put last, by the id of the memory."""


def open_chat_store(chat_store: Any, database: dict[str, Any]) -> ChatStore:
    """Return the chat store, opened from the arguments of `Memory` where it is not given."""
    given = {name: value for name, value in database.items() if value is not None}
    if chat_store is not None and not isinstance(chat_store, (BaseChatStore, AsyncDBChatStore)):
        raise ConfigurationError(
            f"chat_store: {a_type(chat_store)} is not a chat store. "
            "Fix: pass a BaseChatStore or an AsyncDBChatStore."
        )
    if chat_store is None and given:
        return SQLAlchemyChatStore(**{"table_name": _TABLE, **given})
    return chat_store or SimpleChatStore()


def can_edit(store: ChatStore) -> bool:
    """Whether a store edits or replaces a conversation in one step: others delete it first."""
    name = getattr(type(store).set_messages, "__qualname__", "").split(".")[0]
    return isinstance(store, SQLAlchemyChatStore) or name in (
        "SimpleChatStore",
        "PostgresChatStore",
    )


def hand_out(message: ChatMessage) -> ChatMessage:
    """Return a copy of a stored message, as it was before it was stored."""
    found = copy.deepcopy(message)
    found.additional_kwargs.pop(_ID, None)
    return found


def _with_id(message: ChatMessage) -> ChatMessage:
    keywords = {**message.additional_kwargs, _ID: uuid4().hex}
    return message.model_copy(update={"additional_kwargs": keywords})


def _read_id(message: ChatMessage) -> Hashable:
    return message.additional_kwargs.get(_ID)


# The record of a memory.


class RecordMemory(BaseChatStoreMemory):
    """The writing half of a memory: put, set, reset, and everything back, as copies."""

    chat_store: Any = Field(default=None, exclude=True, repr=False, frozen=True)
    chat_store_key: str = Field(default=DEFAULT_CHAT_STORE_KEY, frozen=True)
    retention: RetentionConfig | None = Field(default=None, frozen=True)
    rewrite: bool = Field(default=False, frozen=True)

    _id: str = PrivateAttr(default_factory=lambda: uuid4().hex)
    _conversation: WriteBehind[ChatMessage] = PrivateAttr()
    _retention: Retention = PrivateAttr()
    _shortened: list[Hashable] | None = PrivateAttr(default=None)
    """The keys of the messages of the last view, where it was shorter than the record."""

    def _open_record(self, *, is_shadow: bool) -> None:
        store, key, rules = self.chat_store, self.chat_store_key, self.retention
        edits = self.rewrite or can_edit(store)
        applied = None if is_shadow else rules
        self._retention = Retention(FORMAT, applied, store=store, edits_store=edits)
        self._conversation = open_conversation(store, key, rules, ids=not is_shadow)

    @property
    def session_id(self) -> str:
        """The conversation of the store: `chat_store_key`, by the name `Memory` has for it."""
        return self.chat_store_key

    @property
    def sql_store(self) -> ChatStore:
        """The chat store, by the name `Memory` has for it."""
        store: ChatStore = self.chat_store
        return store

    @property
    def degraded(self) -> bool:
        """Whether the chat store failed the last time it was asked."""
        return self._conversation.degraded

    def get_all(self, status: MessageStatus | None = None) -> list[ChatMessage]:
        """Return the record, oldest first: of a database, also what `Memory` archived in it."""
        return list(map(hand_out, run_sync(self._read_all(status))))

    async def aget_all(self, status: MessageStatus | None = None) -> list[ChatMessage]:
        """Return the record; see `get_all`."""
        return list(map(hand_out, await run_async(self._read_all(status))))

    def _read_all(self, status: MessageStatus | None) -> Steps[list[ChatMessage]]:
        if status is None or not isinstance(self.chat_store, AsyncDBChatStore):
            return (yield from self._conversation.read())
        return list((yield self._call_store("get_messages", status)))

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
        taken = _take_in(messages)
        is_question = bool(taken) and taken[-1].role.value == "user"
        _asked.set({self._id: taken[-1].content} if is_question else {})
        await run_async(self._retention.add(self._conversation, taken))

    def set(self, messages: list[ChatMessage]) -> None:
        """Replace the record. A view of this memory replaces nothing: what follows it is added."""
        run_sync(self._set(messages))

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the record; see `set`."""
        await run_async(self._set(messages))

    def _set(self, messages: Sequence[ChatMessage]) -> Steps[None]:
        taken, view = _take_in(messages), self._shortened
        is_view = view is not None and list(map(FORMAT.key_of, taken[: len(view)])) == view
        if view is not None and is_view:
            problem = f"the messages begin with a view of {self}: only what follows it is added. "
            fix = "Fix: leave chat_history out, or call reset() first."
            warnings.warn(problem + fix, UserWarning, stacklevel=2)
            taken = taken[len(view) :]
        yield from self._conversation.add(taken, replace=not is_view)

    def reset(self, status: MessageStatus | None = None) -> None:
        """Forget everything; of a database, only what has a `status`, if one is given."""
        run_sync(self._reset(status))

    async def areset(self, status: MessageStatus | None = None) -> None:
        """Forget everything; see `reset`."""
        await run_async(self._reset(status))

    def _reset(self, status: MessageStatus | None) -> Steps[None]:
        self._shortened = None
        if status is None or not isinstance(self.chat_store, AsyncDBChatStore):
            yield from self._conversation.add([], replace=True)
        else:
            yield self._call_store("delete_messages", status)

    def _call_store(self, name: str, status: MessageStatus) -> Call:
        method = getattr(_with_own_engine(self.chat_store), name)
        return Call(_run, _arun, (partial(method, self.chat_store_key, status=status),))

    def _own_question(self) -> str | None:
        """Return the question that this task put last."""
        return _asked.get({}).get(self._id)


def _take_in(messages: Sequence[Any]) -> list[ChatMessage]:
    """Return copies of messages, and refuse anything else before it is stored."""
    for index, message in enumerate(messages):
        if not isinstance(message, ChatMessage):
            FORMAT.read(message, index)  # raises
    return list(map(hand_out, messages))


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

    # Awaited, they run in a thread: so do most stores of this kind, and no connection needs a loop.
    return {
        "load": lambda: store.get_messages(key) or (),
        "append": append,
        "replace": lambda messages: store.set_messages(key, list(messages)),
        "clear": lambda: store.delete_messages(key),
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


def close_engine(engine: Any) -> Future[None] | None:
    """Begin to close the connections of an engine of ours; an engine of others is theirs to close."""
    if engine not in _own_engines:
        return None
    return asyncio.run_coroutine_threadsafe(engine.dispose(), _own_loop())


# How a memory that was saved as JSON finds its chat store again.


def is_in_memory(store: Any) -> bool:
    """Whether a store lives in the memory of this process, and nowhere else."""
    if isinstance(store, SQLAlchemyChatStore):
        return _url_of(store).database in (None, "", ":memory:")
    return isinstance(store, SimpleChatStore)


def _url_of(store: SQLAlchemyChatStore) -> URL:
    engine = store._async_engine
    return make_url(store.async_database_uri) if engine is None else engine.url


def address_of(store: Any) -> dict[str, Any] | None:
    """Return the address of a SQL store, None where only its owner can open it: with a password."""
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
