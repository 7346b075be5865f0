"""One face for both kinds of LlamaIndex chat store, with an outbox for when they are down."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError
from history_curator.record.prune import prune_session
from history_curator.record.resilience import WriteBehind
from llamaindex_history_curator._loops import bridge_for
from llamaindex_history_curator._serialize import message_to_dict
from llamaindex_history_curator._steady import Steady

__all__ = [
    "ChatStore",
    "check_store",
    "log_view_only",
    "open_store",
    "pruner",
    "replaces_at_once",
]

ChatStore = BaseChatStore | AsyncDBChatStore

logger = logging.getLogger("history_curator.retention")

_AT_ONCE = frozenset({"SimpleChatStore.set_messages", "PostgresChatStore.set_messages"})
"""What replaces a conversation in one step; the others delete first and add afterwards."""


def check_store(store: ChatStore) -> ChatStore:
    """Return the store.

    Raises:
        ConfigurationError: for anything that is not a chat store.
    """
    if not isinstance(store, (BaseChatStore, AsyncDBChatStore)):
        raise ConfigurationError(
            f"chat_store: a {type(store).__name__} is not a chat store. "
            "Fix: pass a BaseChatStore or an AsyncDBChatStore."
        )
    return store


def open_store(store: ChatStore, key: str) -> WriteBehind[ChatMessage]:
    """Return one conversation of a chat store, behind an outbox.

    Raises:
        ConfigurationError: for anything that is not a chat store.
    """
    check_store(store)
    if isinstance(store, AsyncDBChatStore):
        return _open_async(store, key, Steady())
    # The one that keeps its messages in a dict returns the same objects anyway.
    steady = list if type(store) is SimpleChatStore else Steady()

    def append(messages: Sequence[ChatMessage]) -> None:
        for message in messages:
            store.add_message(key, message)

    async def aload() -> Sequence[ChatMessage]:
        return steady(await store.aget_messages(key))

    async def aappend(messages: Sequence[ChatMessage]) -> None:
        for message in messages:
            await store.async_add_message(key, message)

    async def areplace(messages: Sequence[ChatMessage]) -> None:
        await store.aset_messages(key, list(messages))

    async def aclear() -> None:
        await store.adelete_messages(key)

    return WriteBehind(
        lambda: steady(store.get_messages(key)),
        append,
        replace=lambda messages: store.set_messages(key, list(messages)),
        clear=lambda: store.delete_messages(key),
        aload=aload,
        aappend=aappend,
        areplace=areplace,
        aclear=aclear,
        same=_same,
        name=f"chat store {store.class_name()}",
    )


def replaces_at_once(store: ChatStore) -> bool:
    """Whether `set_messages` of a store leaves either the old conversation or the new one."""
    return getattr(type(store).set_messages, "__qualname__", "") in _AT_ONCE


def pruner(
    store: ChatStore, key: str, retention: RetentionConfig
) -> Callable[[], Coroutine[Any, Any, bool]] | None:
    """Return what applies retention to the rows of a SQL store, or None for other stores.

    Rows are edited in place in one transaction. It returns whether anything changed.
    """
    if not isinstance(store, SQLAlchemyChatStore):
        return None

    async def prune() -> bool:
        sessions, table = await store._initialize()

        def edit(connection: Any) -> bool:
            opened = SimpleNamespace(begin=lambda: nullcontext(connection))
            decisions = prune_session(opened, table, key, retention)
            return any(decision.action != "unreadable" for decision in decisions)

        async with sessions() as session:
            changed: bool = await (await session.connection()).run_sync(edit)
            await session.commit()
        return changed

    return prune


@lru_cache(maxsize=256)
def log_view_only(store: str) -> None:
    """Say, once per kind of store, that retention leaves the store alone."""
    logger.warning(
        "%s cannot replace a conversation in one step: retention applies to what is read, and the "
        "store keeps everything. Fix: pass rewrite=True if nothing else writes to this "
        "conversation and a crash may lose it.",
        store,
    )


def _open_async(store: AsyncDBChatStore, key: str, steady: Steady) -> WriteBehind[ChatMessage]:
    bridge = bridge_for(store)

    async def load() -> Sequence[ChatMessage]:
        # Archived messages were said as well: a record written by `Memory` is read whole.
        return steady(await store.get_messages(key, status=None))

    async def append(messages: Sequence[ChatMessage]) -> None:
        await store.add_messages(key, list(messages))

    async def replace(messages: Sequence[ChatMessage]) -> None:
        await store.set_messages(key, list(messages))

    async def clear() -> None:
        await store.delete_messages(key)

    return WriteBehind(
        lambda: bridge.run(load),
        lambda messages: bridge.run(lambda: append(messages)),
        replace=lambda messages: bridge.run(lambda: replace(messages)),
        clear=lambda: bridge.run(clear),
        aload=lambda: bridge.arun(load),
        aappend=lambda messages: bridge.arun(lambda: append(messages)),
        areplace=lambda messages: bridge.arun(lambda: replace(messages)),
        aclear=lambda: bridge.arun(clear),
        same=_same,
        name=f"chat store {store.class_name()}",
    )


def _same(stored: Any, given: Any) -> bool:
    return stored == given or message_to_dict(stored) == message_to_dict(given)
