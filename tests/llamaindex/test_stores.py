"""One memory over every kind of chat store, with real servers that die and come back."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.async_utils import asyncio_run
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from sqlalchemy.ext.asyncio import create_async_engine

from history_curator.entries import handle_of
from llamaindex_history_curator import CuratedMemory, recall_tool
from llamaindex_history_curator.messages import LlamaIndexFormat
from tests.llamaindex.factories import assistant, call, dumped, orphans, result, system, texts, user
from tests.llamaindex.models import cost, problems

LIMIT = 300
# Servers, and what happens when they die, are in tests/stores.
URIS = {"sqlite": "sqlite+aiosqlite:///chats.db", "sqlite-memory": "sqlite+aiosqlite:///:memory:"}


@pytest.fixture(params=["simple", *URIS])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    uri = URIS.get(request.param)
    return SQLAlchemyChatStore("chats", uri) if uri else SimpleChatStore()


@pytest.fixture
def memory(store: Any, request: pytest.FixtureRequest) -> CuratedMemory:
    return open_memory(store, request.node.name)


def open_memory(store: Any, key: str) -> CuratedMemory:
    return CuratedMemory.from_defaults(chat_store=store, chat_store_key=key, token_limit=LIMIT)


def conversation() -> list[Any]:
    said = [system("rules"), user("task")]
    for number in range(12):
        said += [call(f"c{number}", q=f"ü{number}"), result(f"c{number}", "w " * 60)]
    return [*said, assistant("done")]


class TestEveryStore:
    def test_sync(self, memory: CuratedMemory) -> None:
        for message in conversation():
            memory.put(message)
            view = memory.get()
            assert cost(view) <= LIMIT
            assert problems(view, "history") == []
        assert dumped(memory.get_all()) == dumped(conversation())
        again = open_memory(memory.chat_store, memory.chat_store_key)
        assert dumped(again.get()) == dumped(memory.get())
        memory.set([user("new")])
        assert texts(again.get_all()) == ["new"]
        memory.reset()
        assert again.get_all() == []

    async def test_async(self, memory: CuratedMemory) -> None:
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

    def test_recall(self, memory: CuratedMemory) -> None:
        memory.put_messages([user("hi"), assistant("the gate code is 4711"), *conversation()])
        assert "4711" not in dumped(memory.get())
        tool = recall_tool(memory)
        assert "4711" in tool(query="what was the gate code?").content
        handle = handle_of(LlamaIndexFormat().read(assistant("the gate code is 4711"), 1)[0])
        assert "4711" in tool(handle=handle).content
        memory.put(user("the lighthouse is closed"))
        assert "closed" in tool(query="lighthouse").content
        other = open_memory(memory.chat_store, f"not {memory.chat_store_key}")
        assert "Nothing" in recall_tool(other)(query="gate code").content

    async def test_tasks_lose_nothing_and_keep_their_order(self, memory: CuratedMemory) -> None:

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


async def test_what_memory_archived_is_part_of_the_record() -> None:
    options: Any = {"token_limit": 50, "token_flush_size": 10, "tokenizer_fn": str.split}
    old = Memory.from_defaults(session_id="s", **options)
    await old.aput(user("the gate code is 4711"))
    for number in range(10):
        await old.aput_messages([user(f"q{number} " + "w " * 9), assistant("a " * 9)])
    assert "4711" not in dumped(await old.aget())
    ours = CuratedMemory.from_defaults(sql_store=old.sql_store, session_id="s")
    assert len(await ours.aget_all()) == 21
    assert "4711" in (await recall_tool(ours).acall(query="gate code")).content
    archived = await ours.aget_all(status=MessageStatus.ARCHIVED)
    assert 0 < len(archived) < 21
    await ours.areset(status=MessageStatus.ARCHIVED)
    assert len(ours.get_all()) == 21 - len(archived)


def test_all_messages_of_a_store_without_statuses_are_active() -> None:
    memory = CuratedMemory.from_defaults([user("1")])
    memory.reset(status=MessageStatus.ARCHIVED)
    assert memory.get_all(status=MessageStatus.ARCHIVED) == []
    assert texts(memory.get_all(status=MessageStatus.ACTIVE)) == ["1"]
    memory.reset(status=MessageStatus.ACTIVE)
    assert memory.get_all() == []


@pytest.mark.parametrize("store", URIS, indirect=True)
def test_a_sync_call_while_the_loop_is_blocked(store: Any) -> None:
    async def main() -> None:
        memory = CuratedMemory.from_defaults(chat_store=store)
        await memory.aput(user("1"))

        async def inside() -> list[Any]:
            memory.put(assistant("2"))
            return memory.get()

        # LlamaIndex blocks a loop wherever it can.
        assert texts(asyncio_run(inside())) == ["1", "2"]
        await memory.aput(user("3"))
        assert texts(await memory.aget_all()) == ["1", "2", "3"]
        assert not memory.degraded

    finishes(main)


def test_an_engine_of_the_callers_own_stays_usable(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'chats.db'}")

    async def main() -> None:
        memory = CuratedMemory.from_defaults(async_engine=engine, table_name="chats")
        await memory.aput(user("1"))
        memory.put(user("2"))
        async with engine.connect() as connection:
            counted = await connection.exec_driver_sql("select count(*) from chats")
            assert counted.scalar() == 2
        await engine.dispose()

    finishes(main)


def finishes(main: Any) -> None:
    """Run an async function in a thread that is given up when it hangs; nothing takes a second."""
    done: Future[None] = Future()

    def run() -> None:
        try:
            done.set_result(asyncio.run(main()))
        except BaseException as error:  # noqa: BLE001 - raised in the test
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    done.result(60)


class Flaky(SimpleChatStore):
    """A store that can be down."""

    down: bool = False

    def get_messages(self, key: str) -> list[Any]:
        if self.down:
            raise ConnectionError("down")
        return super().get_messages(key)

    def set_messages(self, key: str, messages: list[Any]) -> None:
        self.get_messages(key)
        super().set_messages(key, messages)


async def test_a_replaced_record_reaches_the_store_when_it_is_back() -> None:
    store = Flaky()
    memory = CuratedMemory.from_defaults([user("1")], chat_store=store)
    store.down = True
    memory.set([user("2")])
    assert texts(memory.get_all()) == texts(await memory.aget()) == ["2"]
    assert memory.degraded
    store.down = False
    await memory.aput(assistant("3"))
    assert texts(store.get_messages("chat_history")) == ["2", "3"]
    assert not memory.degraded
