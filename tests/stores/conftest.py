"""Servers for the whole run, and one conversation per test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.stores.conversations import OPENERS, Conversation
from tests.stores.servers import PostgresServer, RedisServer, Server, SQLiteFile


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def redis() -> Iterator[Server]:
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Server:
    return SQLiteFile(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(params=sorted(OPENERS))
def store(request: pytest.FixtureRequest) -> str:
    """Every framework on every store."""
    name: str = request.param
    pytest.importorskip("langchain_core" if name.startswith("langchain") else "llama_index.core")
    return name


@pytest.fixture
def server(store: str, request: pytest.FixtureRequest) -> Server:
    """The server behind the store."""
    found: Server = request.getfixturevalue(OPENERS[store][0])
    return found


@pytest.fixture
def join(store: str, server: Server) -> Callable[..., Conversation]:
    """Opens the same new conversation again and again, each time with objects of its own."""
    key = f"thread-{uuid.uuid4()}"
    return lambda **options: Conversation.open(store, server, key, **options)
