"""Stored conversations behind our adapters, whatever the store package."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.stores.servers import Server


class Conversation:
    """A conversation of an adapter: a `CuratedChatMessageHistory` or a `CuratedMemory`."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.is_langchain = hasattr(type(adapter), "record")

    @classmethod
    def open(cls, name: str, server: Server, key: str, **options: Any) -> Conversation:
        """Open a conversation of a store by its name in `OPENERS`, with objects of its own."""
        store = OPENERS[name][1](server, key)
        tokens = options.pop("max_tokens", 2_000)
        if name.startswith("langchain"):
            from langchain_history_curator import CuratedChatMessageHistory

            return cls(CuratedChatMessageHistory(store, max_tokens=tokens, **options))
        from llamaindex_history_curator import CuratedMemory

        options |= {"chat_store": store, "chat_store_key": key, "token_limit": tokens}
        return cls(CuratedMemory.from_defaults(**options))

    def add(self, messages: Sequence[Any]) -> None:
        """Add messages of the framework."""
        add = self.adapter.add_messages if self.is_langchain else self.adapter.put_messages
        add(list(messages))

    def say(self, texts: Sequence[str]) -> None:
        """Add user messages."""
        self.add(self._messages(texts))

    async def asay(self, texts: Sequence[str]) -> None:
        """Add user messages."""
        add = self.adapter.aadd_messages if self.is_langchain else self.adapter.aput_messages
        await add(self._messages(texts))

    def record(self) -> list[Any]:
        """Return every message, as stored."""
        found: list[Any] = self.adapter.record if self.is_langchain else self.adapter.get_all()
        return found

    def heard(self) -> list[str]:
        """Return the texts of the record."""
        return [str(message.content) for message in self.record()]

    def settle(self) -> list[str]:
        """Read until the store answers: a pool may hold connections of the server that died."""
        for _ in range(50):
            heard = self.heard()
            if not self.degraded:
                return heard
            time.sleep(0.1)
        pytest.fail("the store did not come back")

    async def aheard(self) -> list[str]:
        """Return the texts of the record."""
        read = self.adapter.aget_record if self.is_langchain else self.adapter.aget_all
        return [str(message.content) for message in await read()]

    def view(self) -> list[str]:
        """Return the texts of the view."""
        messages = self.adapter.messages if self.is_langchain else self.adapter.get()
        return [str(message.content or "") for message in messages]

    @property
    def degraded(self) -> bool:
        """Whether the store is down."""
        return bool(self.adapter.degraded)

    def _messages(self, texts: Sequence[str]) -> list[Any]:
        if self.is_langchain:
            from langchain_core.messages import HumanMessage

            return [HumanMessage(text) for text in texts]
        from llama_index.core.llms import ChatMessage

        return [ChatMessage(text) for text in texts]


def turn_of(number: int, *, langchain: bool) -> list[Any]:
    """Return a question, a call, its long result and an answer."""
    question, answer, call_id = f"question {number}", f"answer {number}", f"c{number}"
    result = "row " * 200
    if langchain:
        from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

        calls: Any = [{"name": "find", "args": {"query": "x"}, "id": call_id}]
        found = ToolMessage(result, tool_call_id=call_id, name="find")
        return [HumanMessage(question), AIMessage("", tool_calls=calls), found, AIMessage(answer)]
    from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock

    call = ToolCallBlock(tool_call_id=call_id, tool_name="find", tool_kwargs={"query": "x"})
    extra = {"tool_call_id": call_id, "name": "find"}
    return [
        ChatMessage(question),
        ChatMessage(role="assistant", blocks=[call]),
        ChatMessage(role="tool", content=result, additional_kwargs=extra),
        ChatMessage(role="assistant", content=answer),
    ]


def fail_next_write(adapter: Any, *, after: bool) -> None:
    """Let the next write to an adapter's store fail: before it reached the store, or after."""
    outbox = adapter._outbox if hasattr(adapter, "_outbox") else adapter._conversation
    calls, write = outbox._calls, outbox._calls["append"]

    def fail(messages: Any) -> None:
        calls["append"] = write
        if after:
            write(messages)
        raise ConnectionError("the connection broke")

    calls["append"] = fail


Opener = Callable[[Server, str], Any]
"""Opens a store of a framework on a server, for one conversation."""


def langchain_sql(server: Server, key: str) -> Any:
    """``SQLChatMessageHistory`` of langchain-community."""
    from langchain_community.chat_message_histories import SQLChatMessageHistory

    return SQLChatMessageHistory(key, connection=_sync(server.url))


def langchain_postgres(server: Server, key: str) -> Any:
    """``PostgresChatMessageHistory`` of langchain-postgres, which holds one connection."""
    import psycopg
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage
    from langchain_postgres import PostgresChatMessageHistory

    class Reconnecting(BaseChatMessageHistory):
        """Opens a new connection once the old one is broken, and ends a failed transaction."""

        async_mode = False

        def __init__(self) -> None:
            self.connection = psycopg.connect(server.url)
            PostgresChatMessageHistory.create_tables(self.connection, "chat_messages")

        @property
        def opened(self) -> Any:
            if self.connection.closed or self.connection.broken:
                self.connection = psycopg.connect(server.url)
            elif self.connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
                self.connection.rollback()  # a refused write leaves the connection unusable
            session = str(uuid.uuid5(uuid.NAMESPACE_OID, key))
            return PostgresChatMessageHistory(
                "chat_messages", session, sync_connection=self.connection
            )

        @property
        def messages(self) -> list[BaseMessage]:  # type: ignore[override]
            found: list[BaseMessage] = self.opened.get_messages()
            self.connection.commit()
            return found

        def add_messages(self, messages: Sequence[BaseMessage]) -> None:
            self.opened.add_messages(messages)

        def clear(self) -> None:
            self.opened.clear()

    return Reconnecting()


def langchain_redis(server: Server, key: str) -> Any:
    """``RedisChatMessageHistory`` of langchain-community, which needs no search module."""
    from langchain_community.chat_message_histories import RedisChatMessageHistory

    store = RedisChatMessageHistory(key, url=server.url)
    store.redis_client = _impatient_redis(server)
    return store


def llamaindex_sql(server: Server, key: str) -> Any:
    """``SQLAlchemyChatStore`` of llama-index-core."""
    from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

    return SQLAlchemyChatStore(table_name="chat", async_database_uri=_async(server.url))


def llamaindex_postgres(server: Server, key: str) -> Any:
    """``PostgresChatStore``, which keeps a conversation in one row."""
    from llama_index.storage.chat_store.postgres import PostgresChatStore

    return PostgresChatStore.from_params(
        connection_string=_sync(server.url), async_connection_string=_async(server.url)
    )


def llamaindex_redis(server: Server, key: str) -> Any:
    """``RedisChatStore``."""
    from llama_index.storage.chat_store.redis import RedisChatStore
    from redis.asyncio import Redis

    return RedisChatStore(
        redis_client=_impatient_redis(server), aredis_client=Redis.from_url(server.url)
    )


def _impatient_redis(server: Server) -> Any:
    """A client that reports a dead server at once instead of after its own retries."""
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return Redis.from_url(server.url, retry=Retry(NoBackoff(), 0))


def _sync(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


def _async(url: str) -> str:
    return url.replace("postgresql://", "postgresql+asyncpg://").replace(
        "sqlite://", "sqlite+aiosqlite://"
    )


OPENERS: dict[str, tuple[str, Opener]] = {
    "langchain-sqlite": ("sqlite", langchain_sql),
    "langchain-postgres": ("postgres", langchain_postgres),
    "langchain-postgres-sql": ("postgres", langchain_sql),
    "langchain-redis": ("redis", langchain_redis),
    "llamaindex-sqlite": ("sqlite", llamaindex_sql),
    "llamaindex-postgres": ("postgres", llamaindex_postgres),
    "llamaindex-postgres-sql": ("postgres", llamaindex_sql),
    "llamaindex-redis": ("redis", llamaindex_redis),
}
