"""One memory over every kind of chat store, with real servers that die and come back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from history_curator.entries import handle_of
from llamaindex_history_curator import CuratedMemory, recall_tool
from llamaindex_history_curator.messages import LlamaIndexFormat
from tests.llamaindex.factories import assistant, call, dumped, orphans, result, system, texts, user
from tests.llamaindex.models import cost, problems
from tests.stores.servers import PostgresServer, RedisServer, Server

LIMIT = 300
KINDS = ["simple", "sqlite", "sqlite-memory", "postgres", "postgres-sql", "redis"]


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    pytest.importorskip("llama_index.storage.chat_store.redis")
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    pytest.importorskip("llama_index.storage.chat_store.postgres")
    server = PostgresServer()
    yield server
    server.close()


def open_redis(server: Server) -> Any:
    from llama_index.storage.chat_store.redis import RedisChatStore

    return RedisChatStore(redis_url=server.url)


def open_postgres(server: Server) -> Any:
    from llama_index.storage.chat_store.postgres import PostgresChatStore

    return PostgresChatStore.from_params(
        connection_string=server.url.replace("postgresql://", "postgresql+psycopg://"),
        async_connection_string=server.url.replace("postgresql://", "postgresql+asyncpg://"),
        table_name="chats",
    )


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    kind = request.param
    if kind == "simple":
        return SimpleChatStore()
    if kind == "sqlite":
        return SQLAlchemyChatStore(
            table_name="chats", async_database_uri=f"sqlite+aiosqlite:///{tmp_path}/chats.db"
        )
    if kind == "sqlite-memory":
        return SQLAlchemyChatStore(table_name="chats")
    if kind == "redis":
        return open_redis(request.getfixturevalue("redis"))
    server = request.getfixturevalue("postgres")
    if kind == "postgres":
        return open_postgres(server)
    return SQLAlchemyChatStore(
        table_name="sqlchats",
        async_database_uri=server.url.replace("postgresql://", "postgresql+asyncpg://"),
    )


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return request.node.name


def conversation() -> list[Any]:
    said = [system("rules"), user("task")]
    for number in range(12):
        said += [call(f"c{number}", q=f"ü{number}"), result(f"c{number}", "w " * 60)]
    return [*said, assistant("done")]


class TestEveryStore:
    def test_sync(self, store: Any, key: str) -> None:
        memory = CuratedMemory.from_defaults(
            chat_store=store, chat_store_key=key, token_limit=LIMIT
        )
        for message in conversation():
            memory.put(message)
            view = memory.get()
            assert cost(view) <= LIMIT
            assert problems(view, "history") == []
        assert dumped(memory.get_all()) == dumped(conversation())
        again = CuratedMemory.from_defaults(chat_store=store, chat_store_key=key, token_limit=LIMIT)
        assert dumped(again.get()) == dumped(memory.get())
        memory.set([user("new")])
        assert texts(again.get_all()) == ["new"]
        memory.reset()
        assert again.get_all() == []

    async def test_async(self, store: Any, key: str) -> None:
        memory = CuratedMemory.from_defaults(
            chat_store=store, chat_store_key=key, token_limit=LIMIT
        )
        await memory.aput_messages(conversation())
        await memory.aput(user("next"))
        view = await memory.aget()
        assert cost(view) <= LIMIT
        assert orphans(view) == []
        assert view[-1].content == "next"
        assert dumped(await memory.aget_all()) == dumped([*conversation(), user("next")])
        await memory.aset([user("new")])
        assert texts(await memory.aget_all()) == ["new"]
        await memory.areset()
        assert await memory.aget_all() == []

    def test_recall(self, store: Any, key: str) -> None:
        memory = CuratedMemory.from_defaults(
            chat_store=store, chat_store_key=key, token_limit=LIMIT
        )
        memory.put_messages([user("hi"), assistant("the gate code is 4711"), *conversation()])
        assert "4711" not in dumped(memory.get())
        tool = recall_tool(memory)
        assert "4711" in tool(query="what was the gate code?").content
        handle = handle_of(LlamaIndexFormat().read(assistant("the gate code is 4711"), 1)[0])
        assert "4711" in tool(handle=handle).content
        memory.put(user("the lighthouse is closed"))
        assert "closed" in tool(query="lighthouse").content
        other = CuratedMemory.from_defaults(chat_store=store, chat_store_key=f"not {key}")
        assert "Nothing" in recall_tool(other)(query="gate code").content

    async def test_tasks_lose_nothing_and_keep_their_order(self, store: Any, key: str) -> None:
        memory = CuratedMemory.from_defaults(
            chat_store=store, chat_store_key=key, token_limit=LIMIT
        )

        async def work(worker: int) -> None:
            for number in range(5):
                await memory.aput(user(f"{worker}-{number}"))
                await memory.aget()

        await asyncio.gather(*(work(worker) for worker in range(5)))
        said = texts(await memory.aget_all())
        assert len(said) == len(set(said)) == 25
        for worker in range(5):
            own = [text for text in said if text and text.startswith(f"{worker}-")]
            assert own == [f"{worker}-{number}" for number in range(5)]


class TestMixing:
    async def test_recall_from_a_memory_of_the_framework(self, tmp_path: Path) -> None:
        uri = f"sqlite+aiosqlite:///{tmp_path}/chats.db"
        old = Memory.from_defaults(
            session_id="s",
            token_limit=50,
            token_flush_size=10,
            tokenizer_fn=str.split,
            async_database_uri=uri,
        )
        await old.aput(user("the gate code is 4711"))
        for _ in range(10):
            await old.aput_messages([user("q " * 9), assistant("a " * 9)])
        assert "4711" not in dumped(await old.aget())
        assert "4711" in (await recall_tool(old).acall(query="gate code")).content

    async def test_what_memory_archived_is_part_of_the_record(self) -> None:
        old = Memory.from_defaults(
            session_id="s", token_limit=50, token_flush_size=10, tokenizer_fn=str.split
        )
        for number in range(10):
            await old.aput_messages([user(f"q{number} " + "w " * 9), assistant("a " * 9)])
        assert len(await old.aget()) < 20
        ours = CuratedMemory.from_defaults(chat_store=old.sql_store, chat_store_key="s")
        assert len(await ours.aget_all()) == 20


class TestOutage:
    @pytest.mark.parametrize("kind", ["redis", "postgres"])
    async def test_the_conversation_goes_on_and_the_store_catches_up(
        self, kind: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
    ) -> None:
        server: Server = request.getfixturevalue(kind)
        opened = (open_redis if kind == "redis" else open_postgres)(server)
        memory = CuratedMemory.from_defaults(chat_store=opened, chat_store_key=f"outage-{kind}")
        memory.put_messages([user("1"), assistant("2")])
        server.kill()
        try:
            with caplog.at_level(logging.WARNING, "history_curator.store"):
                memory.put(user("3"))
                await memory.aput(assistant("4"))
                assert texts(memory.get()) == ["1", "2", "3", "4"]
                assert texts(await memory.aget()) == ["1", "2", "3", "4"]
            assert memory.degraded
            assert caplog.text.count("is unavailable") == 1
        finally:
            server.restart()
        memory.put(user("5"))
        assert not memory.degraded
        fresh = CuratedMemory.from_defaults(
            chat_store=(open_redis if kind == "redis" else open_postgres)(server),
            chat_store_key=f"outage-{kind}",
        )
        assert texts(fresh.get_all()) == ["1", "2", "3", "4", "5"]

    def test_a_replaced_record_reaches_the_store_when_it_is_back(self) -> None:
        class Flaky(SimpleChatStore):
            down: bool = False

            def get_messages(self, key: str) -> list[Any]:
                if self.down:
                    raise ConnectionError("down")
                return super().get_messages(key)

            def set_messages(self, key: str, messages: list[Any]) -> None:
                if self.down:
                    raise ConnectionError("down")
                super().set_messages(key, messages)

        store = Flaky()
        memory = CuratedMemory.from_defaults([user("1")], chat_store=store)
        store.down = True
        memory.set([user("2")])
        assert texts(memory.get_all()) == ["2"]
        store.down = False
        memory.put(assistant("3"))
        assert texts(store.get_messages("chat_history")) == ["2", "3"]
