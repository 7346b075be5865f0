"""One face for both kinds of LlamaIndex chat store, with an outbox for when they are down."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from functools import partial
from typing import Any
from uuid import uuid4
from weakref import ref

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import sessionmaker

from history_curator.errors import ConfigurationError, a_type
from history_curator.record.resilience import WriteBehind
from history_curator.settings import RetentionConfig
from history_curator.sockets import prune_connection
from llamaindex_history_curator._copies import copy_model
from llamaindex_history_curator._serialize import message_to_dict
from llamaindex_history_curator._store_loop import Making, bridge_for

ChatStore = BaseChatStore | AsyncDBChatStore

logger = logging.getLogger("history_curator.retention")

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
    return copy_model(
        message, {"additional_kwargs": {**message.additional_kwargs, ID: uuid4().hex}}
    )


def without_id(message: ChatMessage) -> ChatMessage:
    """Return a message as it was before it was stored."""
    if ID not in message.additional_kwargs:
        return message
    rest = {key: value for key, value in message.additional_kwargs.items() if key != ID}
    return copy_model(message, {"additional_kwargs": rest})


def open_store(
    store: ChatStore,
    key: str,
    *,
    stamp: Callable[[ChatMessage], ChatMessage] = with_id,
    prune: Callable[[int | None], Coroutine[Any, Any, bool]] | None = None,
) -> WriteBehind[ChatMessage]:
    """Return one conversation of a chat store, behind an outbox.

    Args:
        store: any chat store.
        key: the conversation.
        stamp: gives a message its id when it is added.
        prune: see `pruner`.

    Raises:
        ConfigurationError: for anything that is not a chat store.
    """
    check_store(store)
    if isinstance(store, AsyncDBChatStore):
        return _open_async(store, key, stamp, prune)

    def append(messages: Sequence[ChatMessage]) -> None:
        for message in messages:
            store.add_message(key, message)

    async def aappend(messages: Sequence[ChatMessage]) -> None:
        for message in messages:
            await store.async_add_message(key, message)

    async def aload() -> Sequence[ChatMessage]:
        return await store.aget_messages(key) or ()

    return WriteBehind(
        lambda: store.get_messages(key) or (),
        append,
        replace=lambda messages: store.set_messages(key, list(messages)),
        clear=lambda: store.delete_messages(key),
        aload=aload,
        aappend=aappend,
        areplace=lambda messages: store.aset_messages(key, list(messages)),
        aclear=lambda: store.adelete_messages(key),
        stamp=stamp,
        key=_id,
        same=_same,
        name=f"chat store {store.class_name()}",
    )


def replaces_at_once(store: ChatStore) -> bool:
    """Whether `set_messages` of a store leaves either the old conversation or the new one."""
    return getattr(type(store).set_messages, "__qualname__", "") in _AT_ONCE


def pruner(
    store: ChatStore, key: str, retention: RetentionConfig
) -> Callable[[int | None], Coroutine[Any, Any, bool]] | None:
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


def _open_async(
    store: AsyncDBChatStore,
    key: str,
    stamp: Callable[[ChatMessage], ChatMessage],
    prune: Callable[[int | None], Coroutine[Any, Any, bool]] | None,
) -> WriteBehind[ChatMessage]:
    bridge = bridge_for(store, _mover(store))

    # Archived messages were said as well: a record written by `Memory` is read whole.
    load = partial(store.get_messages, key, status=None)
    clear = partial(store.delete_messages, key)

    def append(messages: Sequence[ChatMessage]) -> Making[Any]:
        return partial(store.add_messages, key, list(messages))

    def replace(messages: Sequence[ChatMessage]) -> Making[Any]:
        return partial(store.set_messages, key, list(messages))

    return WriteBehind(
        lambda: bridge.run(load),
        lambda messages: bridge.run(append(messages)),
        replace=lambda messages: bridge.run(replace(messages)),
        clear=lambda: bridge.run(clear),
        aload=lambda: bridge.arun(load),
        aappend=lambda messages: bridge.arun(append(messages)),
        areplace=lambda messages: bridge.arun(replace(messages)),
        aclear=lambda: bridge.arun(clear),
        edit=None if prune is None else lambda aged: bridge.run(partial(prune, aged)),
        aedit=None if prune is None else lambda aged: bridge.arun(partial(prune, aged)),
        stamp=stamp,
        key=_id,
        same=_same,
        name=f"chat store {store.class_name()}",
    )


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
