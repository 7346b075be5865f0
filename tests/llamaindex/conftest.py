"""Every database that a test opens is closed when the test ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from llamaindex_history_curator.chat_store import _own_engines, close_engine


@pytest.fixture(autouse=True)
def _close_databases(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[SQLAlchemyChatStore] = []
    original = SQLAlchemyChatStore.__init__

    def init(self: SQLAlchemyChatStore, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        opened.append(self)

    monkeypatch.setattr(SQLAlchemyChatStore, "__init__", init)
    yield
    for store in opened:
        engine = store._async_engine
        if engine is None:
            continue
        if engine in _own_engines:
            close_engine(engine).result(10)
        elif engine.dialect.name == "sqlite":
            asyncio.run(engine.dispose())
        else:  # its connections belong to a loop that is closed
            engine.sync_engine.dispose(close=False)
