"""Sync calls while an event loop is blocked: LlamaIndex blocks it wherever it can."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from llamaindex_history_curator import CuratedMemory
from tests.llamaindex.factories import assistant, texts, user

PATIENCE = 60.0
"""Seconds after which something hangs; nothing here takes one."""


def finishes(main: Any) -> None:
    """Run an async function in a thread that is given up when it hangs."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - raised in the test
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it hangs"
    if failed:
        raise failed[0]


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SQLAlchemyChatStore:
    path = ":memory:" if request.param == "memory" else str(tmp_path / "chats.db")
    return SQLAlchemyChatStore("chats", f"sqlite+aiosqlite:///{path}")


def test_a_loop_that_owns_the_store_is_blocked(store: SQLAlchemyChatStore) -> None:
    async def main() -> None:
        memory = CuratedMemory.from_defaults(chat_store=store)
        await memory.aput(user("1"))

        async def inside() -> list[ChatMessage]:
            memory.put(assistant("2"))
            return memory.get()

        assert texts(asyncio_run(inside())) == ["1", "2"]
        await memory.aput(user("3"))
        assert texts(await memory.aget_all()) == ["1", "2", "3"]
        assert not memory.degraded

    finishes(main)


def test_an_engine_of_the_callers_own_stays_usable(tmp_path: Path) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy.ext.asyncio")
    engine = sqlalchemy.create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'chats.db'}")

    async def main() -> None:
        memory = CuratedMemory.from_defaults(async_engine=engine, session_id="s")
        await memory.aput(user("1"))
        memory.put(user("2"))
        async with engine.connect() as connection:
            counted = await connection.exec_driver_sql("select count(*) from llama_index_memory")
            assert counted.scalar() == 2
        await engine.dispose()

    finishes(main)
