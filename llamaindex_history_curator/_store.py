"""Chat stores of both kinds with one face: opened behind an outbox, called from any loop, found again."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from functools import partial
from typing import Any, NoReturn, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary, ref

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import sessionmaker

from history_curator.errors import ConfigurationError, a_type
from history_curator.record.resilience import WriteBehind
from history_curator.config import RetentionConfig
from history_curator.integrations import prune_connection
from llamaindex_history_curator._rows import message_to_dict

ChatStore = BaseChatStore | AsyncDBChatStore
Prune = Callable[[int | None], Coroutine[Any, Any, bool]]

ID = "history_curator_id"
"""The keyword under which a stored message carries its id; no message that is read back has it."""

_AT_ONCE = frozenset({"SimpleChatStore.set_messages", "PostgresChatStore.set_messages"})
"""What replaces a conversation in one step; the others delete first and add afterwards."""


def check_store(store: ChatStore) -> ChatStore:
    """Return the store.

    Raises:
        ConfigurationError: for anything that is not a chat store.
    """
    if not isinstance(store, (BaseChatStore, AsyncDBChatStore)):
        raise ConfigurationError(
            f"chat_store: {a_type(store)} is not a chat store. "
            "Fix: pass a BaseChatStore or an AsyncDBChatStore."
        )
    return store


def with_id(message: ChatMessage) -> ChatMessage:
    """Return a message with an id of its own, by which a write in doubt is found again."""
    keywords = {**message.additional_kwargs, ID: uuid4().hex}
    return message.model_copy(update={"additional_kwargs": keywords})


def without_id(message: ChatMessage) -> ChatMessage:
    """Return a message as it was before it was stored."""
    if ID not in message.additional_kwargs:
        return message
    rest = {key: value for key, value in message.additional_kwargs.items() if key != ID}
    return message.model_copy(update={"additional_kwargs": rest})


def open_store(
    store: ChatStore,
    key: str,
    *,
    stamp: Callable[[ChatMessage], ChatMessage] = with_id,
    prune: Prune | None = None,
) -> WriteBehind[ChatMessage]:
    """Return one conversation of a chat store, behind an outbox.

    Args:
        store: any chat store.
        key: the conversation.
        stamp: gives a message its id when it is added.
        prune: see `pruner`.
    """
    if isinstance(store, AsyncDBChatStore):
        calls = _bridged(store, key, prune)
    else:
        calls = _plain(store, key)
    return WriteBehind(
        **calls, stamp=stamp, key=_id, same=_same, name=f"chat store {store.class_name()}"
    )


def _plain(store: BaseChatStore, key: str) -> dict[str, Any]:
    """Return what a `WriteBehind` asks of a store that has a sync and an async form of all."""

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


def _bridged(store: AsyncDBChatStore, key: str, prune: Prune | None) -> dict[str, Any]:
    """Return the same of a store that is async only."""
    calls: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
        # Archived messages were said as well: a record written by `Memory` is read whole.
        "load": lambda: store.get_messages(key, status=None),
        "append": lambda messages: store.add_messages(key, list(messages)),
        "replace": lambda messages: store.set_messages(key, list(messages)),
        "clear": lambda: store.delete_messages(key),
    }
    if prune is not None:
        calls["edit"] = prune
    bridge = bridge_for(store, _mover(store))
    sync = {name: partial(bridge.run, call) for name, call in calls.items()}
    return sync | {f"a{name}": partial(bridge.arun, call) for name, call in calls.items()}


def replaces_at_once(store: ChatStore) -> bool:
    """Whether `set_messages` of a store leaves either the old conversation or the new one."""
    return getattr(type(store).set_messages, "__qualname__", "") in _AT_ONCE


def pruner(store: ChatStore, key: str, retention: RetentionConfig) -> Prune | None:
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


def _mover(store: AsyncDBChatStore) -> Callable[[], None]:
    """Return what gives a SQL store connections of its own.

    A driver ties a connection to the loop that opened it; those of the engine so far stay with
    whoever uses that engine there.
    """
    held = ref(store)

    def move() -> None:
        opened = held()
        engine = getattr(opened, "_async_engine", None)
        if not isinstance(opened, SQLAlchemyChatStore) or engine is None:
            return
        if not is_in_memory(engine.url):
            twin = copy(engine.sync_engine)
            twin.pool = engine.sync_engine.pool.recreate()
            opened._async_engine = type(engine)(twin)
            opened._async_session_factory = sessionmaker(
                bind=opened._async_engine,  # type: ignore[arg-type]
                expire_on_commit=False,
                class_=AsyncSession,
            )

    return move


def is_in_memory(uri: Any) -> bool:
    """Whether a database lives in the memory of this process, and nowhere else."""
    url = make_url(uri)
    name = url.database or ""
    return url.get_backend_name() == "sqlite" and (
        name in ("", ":memory:") or "mode=memory" in name or url.query.get("mode") == "memory"
    )


def _id(message: ChatMessage) -> str | None:
    found = message.additional_kwargs.get(ID)
    return found if isinstance(found, str) else None


def _same(stored: Any, given: Any) -> bool:
    stored, given = without_id(stored), without_id(given)
    return bool(stored == given) or message_to_dict(stored) == message_to_dict(given)


# How an async-only store is called from sync code.

R = TypeVar("R")


class LoopBridge:
    """Calls an async-only store from sync and async code, as far as possible always on one loop.

    A database driver ties connections to the event loop that opened them, so one ``asyncio.run``
    per call would leave a pool full of dead ones.

    An async caller is awaited on its own loop until a sync caller comes, for whom a loop of ours
    is started; from then on everything goes there. A sync caller never waits for a loop it does
    not own: LlamaIndex blocks the running loop wherever it offers a sync form of something async,
    and what the loop waits for may be this very call.

    Args:
        move: called once, before anything runs on the loop of ours: gives up what the store
            opened on the loop before.
    """

    def __init__(self, move: Callable[[], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._move = move
        self._own: asyncio.AbstractEventLoop | None = None
        self._used = False

    def run(self, call: Callable[..., Coroutine[Any, Any, R]], *args: Any) -> R:
        """Run an async function to its end from sync code, also inside a running loop."""
        loop = self._own or self._start()
        return asyncio.run_coroutine_threadsafe(call(*args), loop).result()

    async def arun(self, call: Callable[..., Coroutine[Any, Any, R]], *args: Any) -> R:
        """Await an async function."""
        if self._own is not None:
            made = asyncio.run_coroutine_threadsafe(call(*args), self._own)
            return await asyncio.wrap_future(made)
        self._used = True
        return await call(*args)

    def close(self) -> None:
        """Stop the loop of ours, if there is one."""
        if self._own is not None:
            self._own.call_soon_threadsafe(self._own.stop)

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._own is None:
                loop = asyncio.new_event_loop()
                name = "history-curator-store"
                threading.Thread(target=loop.run_forever, name=name, daemon=True).start()
                if self._move is not None and self._used:
                    self._move()
                self._own = loop
            return self._own


_bridges: dict[int, LoopBridge] = {}
_bridges_lock = threading.Lock()


def bridge_for(store: object, move: Callable[[], None] | None = None) -> LoopBridge:
    """Return the bridge of a store: one, however many memories are open on it."""
    key = id(store)
    with _bridges_lock:
        bridge = _bridges.get(key)
        if bridge is None:
            bridge = _bridges[key] = LoopBridge(move)
            weakref.finalize(store, _close, key)
        return bridge


def _close(key: int) -> None:
    bridge = _bridges.pop(key, None)
    if bridge is not None:
        bridge.close()


# How a memory that was saved as JSON finds its chat store again.

_registered: dict[str, ChatStore | Callable[[], ChatStore]] = {}
_opened: WeakValueDictionary[tuple[Any, ...], SQLAlchemyChatStore] = WeakValueDictionary()


def register_store(name: str, store: ChatStore | Callable[[], ChatStore]) -> None:
    """Name a chat store, so that a memory saved in one process finds it in another.

    A saved memory holds the name and no address or password. Call it where the program starts, in
    every process that saves or restores, before `Context.from_dict`.

    Args:
        name: the same in every process.
        store: the store, or a function that opens it, called when a memory first asks for it.

    Examples:
        >>> from llama_index.core.storage.chat_store import SimpleChatStore
        >>> register_store("chats", SimpleChatStore())
        >>> find_store({"name": "chats"}) is find_store({"name": "chats"})
        True
    """
    if not callable(store):
        check_store(store)
    _registered[name] = store


def describe_store(store: Any) -> dict[str, Any] | None:
    """Return what a store is found by, or None where only its owner can open it again.

    That is its registered name, or the address of a SQL store whose address is all there is to
    it: a password is never written down, nor an address that leaves out how to connect.
    """
    if isinstance(store, MissingStore):
        return store.described
    for name, known in _registered.items():
        if known is store:
            return {"name": name}
    if type(store) is not SQLAlchemyChatStore:
        return None
    url, engine = make_url(store.async_database_uri), store._async_engine
    if url.password or is_in_memory(url) or (engine is not None and engine.url != url):
        return None
    if url.get_backend_name() == "sqlite" and not str(url.database).startswith("file:"):
        url = url.set(database=os.path.abspath(str(url.database)))
    return {
        "table_name": store.table_name,
        "async_database_uri": url.render_as_string(),
        "db_schema": store.db_schema,
    }


def find_store(described: dict[str, Any] | None) -> ChatStore | None:
    """Return the store of a description, or None when it cannot be found here."""
    if described is None:
        return None
    if "name" in described:
        store = _registered.get(described["name"])
        if callable(store):
            store = _registered[described["name"]] = check_store(store())
        return store
    key = tuple(sorted(described.items(), key=str))
    opened = _opened.get(key)
    if opened is None:
        opened = _opened[key] = SQLAlchemyChatStore(**described)
    return opened


class MissingStore(BaseChatStore):
    """Stands for a store that could not be found: whoever asks it is told what to do."""

    kind: str
    described: dict[str, Any] | None = None

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows this store by."""
        return "MissingStore"

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = (self.described or {}).get("name")
        register = f"register_store({name or 'a name'!r}, …)"
        if name is None:
            register += ", there and here,"
        raise ConfigurationError(
            f"the {self.kind} of this memory is not open in this process, so nothing can be read "
            f"or added. Fix: call {register} before Context.from_dict, pass memory= to the run of "
            "the agent, or chat_store= to CuratedMemory.from_dict."
        )

    set_messages = get_messages = add_message = get_keys = _refuse  # type: ignore[pydantic-field]
    delete_messages = delete_message = delete_last_message = _refuse  # type: ignore[pydantic-field]
