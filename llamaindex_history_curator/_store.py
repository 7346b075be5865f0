"""One face for both kinds of LlamaIndex chat store, with an outbox for when they are down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore

from history_curator.errors import ConfigurationError
from history_curator.record.resilience import WriteBehind
from llamaindex_history_curator._loops import bridge_for
from llamaindex_history_curator._serialize import message_to_dict
from llamaindex_history_curator._steady import Steady

__all__ = ["ChatStore", "check_store", "open_store"]

ChatStore = BaseChatStore | AsyncDBChatStore


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
    steady = Steady()
    check_store(store)
    if isinstance(store, AsyncDBChatStore):
        return _open_async(store, key, steady)

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
