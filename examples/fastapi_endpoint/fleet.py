"""What several workers need who share one database.

``python -m examples.fastapi_endpoint.fleet`` makes the tables of ``CHAT_STORE``: once, before the
workers start, for two that make the same table at the same time get in each other's way.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import asynccontextmanager, suppress
from functools import cache

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    NullPool,
    String,
    Table,
    Text,
    create_engine,
    delete,
    insert,
    select,
    text,
)
from sqlalchemy.exc import IntegrityError

_METADATA = MetaData()
_SUMMARIES = Table(
    "summaries",
    _METADATA,
    Column("thread", Text, primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("text", Text, nullable=False),
)
_LOCK = text("SELECT pg_try_advisory_lock(hashtextextended(:thread, 0))")
_TASKS: set[asyncio.Task[None]] = set()


class StoredSummaries(MutableMapping[str, str]):
    """The summaries of a conversation in a table, where every worker finds what another one wrote.

    A name is made from the text that was summarised, so a stored summary is never out of date.
    """

    def __init__(self, database: Engine, thread: str) -> None:
        self._database, self._thread = database, thread
        self._is_ours = _SUMMARIES.c.thread == thread

    def __getitem__(self, name: str) -> str:
        query = select(_SUMMARIES.c.text).where(self._is_ours, _SUMMARIES.c.name == name)
        with self._database.connect() as connection:
            found = connection.scalar(query)
        if found is None:
            raise KeyError(name)
        return str(found)

    def __setitem__(self, name: str, summary: str) -> None:
        row = insert(_SUMMARIES).values(thread=self._thread, name=name, text=summary)
        # Another worker may have been first: its summary stays.
        with suppress(IntegrityError), self._database.begin() as connection:
            connection.execute(row)

    def __delitem__(self, name: str) -> None:
        row = delete(_SUMMARIES).where(self._is_ours, _SUMMARIES.c.name == name)
        with self._database.begin() as connection:
            if not connection.execute(row).rowcount:
                raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        with self._database.connect() as connection:
            return iter(connection.scalars(select(_SUMMARIES.c.name).where(self._is_ours)).all())

    def __len__(self) -> int:
        return len(list(iter(self)))


@asynccontextmanager
async def hold_thread(url: str, thread: str) -> AsyncIterator[Connection | None]:
    """Hold a conversation, so that a second request for it waits, on whichever worker it is.

    What is written over the connection arrives before the conversation is let go, even when the
    worker is killed: PostgreSQL releases the lock after it has done all that the connection asked.
    Other databases have no such locks: there is no connection then, and nothing is held.
    """
    engine = _open_unpooled(url)
    if engine.dialect.name != "postgresql":
        yield None
        return
    connection = await asyncio.to_thread(engine.connect)
    try:
        while not await asyncio.to_thread(_try_to_lock, connection, thread):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        yield connection
    finally:
        connection.close()


@cache
def _open_unpooled(url: str) -> Engine:
    """Return connections that end when they are closed, whatever happened: so the lock is let go."""
    return create_engine(url, poolclass=NullPool)


def _try_to_lock(connection: Connection, thread: str) -> bool:
    is_held = connection.scalar(_LOCK, {"thread": thread})
    connection.commit()
    return bool(is_held)


async def run_to_end(parts: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield parts that a task of its own makes: it goes on when the client has hung up."""
    queue: asyncio.Queue[str | None] = asyncio.Queue()

    async def fill() -> None:
        try:
            async for part in parts:
                queue.put_nowait(part)
        finally:
            queue.put_nowait(None)

    task = asyncio.create_task(fill())
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
    while (part := await queue.get()) is not None:
        yield part
    await task


def create_tables(url: str) -> None:
    """Make the tables of messages and summaries where they are missing."""
    from langchain_community.chat_message_histories import SQLChatMessageHistory

    engine = create_engine(url)
    SQLChatMessageHistory("", connection=engine)
    _METADATA.create_all(engine)
    engine.dispose()


if __name__ == "__main__":
    create_tables(os.environ["CHAT_STORE"])
