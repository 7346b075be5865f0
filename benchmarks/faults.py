"""Whether stored conversations survive faults: nothing acknowledged is lost, nothing is doubled.

Conversations are written to real databases through both adapters while things break: the writer
is killed with SIGKILL at every step of a write, the database is killed at every step, it is down
for a while, its disk is full, two and eight processes write at once. A message counts as
acknowledged when the call that adds it has returned and nothing waits for the store. Afterwards a
new process reads the store. Every conversation is written by a process forked for it, so nothing
survives in memory.

    python -m benchmarks.faults [--faults writer down] [--stores langchain-sqlite] [--write]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.data import GENERATED
from benchmarks.fault_conversation import MARKS, Steps, Talk
from history_curator.entries import write_private
from tests.stores.conversations import OPENERS, fail_next_write
from tests.stores.servers import PostgresServer, RedisServer, Server, SQLiteFile

PAGE = GENERATED / "faults.md"
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "redis": "Redis"}
MOST_STEPS = 400
FOLDER = Path(tempfile.gettempdir()) / f"faults-{uuid.uuid4().hex}"
MESSAGES_EACH = 12
"""Messages of each of several writers."""


@dataclass
class Row:
    """What came of one fault, over all its runs."""

    fault: str
    store: str
    runs: int = 0
    acknowledged: int = 0
    stored: int = 0
    lost: int = 0
    doubled: int = 0

    def add(self, acknowledged: Sequence[str], stored: Sequence[str], said: Sequence[str]) -> None:
        """Compare what was promised with what is there."""
        there, promised, given = Counter(stored), Counter(acknowledged), Counter(said)
        self.runs += 1
        self.acknowledged += len(acknowledged)
        self.stored += len(stored)
        self.lost += sum((promised - there).values())
        self.doubled += sum((there - given).values())


def run_forked(body: Callable[[Connection], None]) -> tuple[int, Connection]:
    """Run a function in a process of its own; return its id and the other end of its line."""
    here, there = Pipe()
    pid = os.fork()
    if pid:
        there.close()
        return pid, here
    here.close()
    try:
        body(there)
    except BaseException as error:  # noqa: BLE001
        with contextlib.suppress(OSError):
            there.send(("error", f"{type(error).__name__}: {error}"))
    finally:
        there.close()
        os._exit(0)


def ask(line: Connection, what: str) -> None:
    """Have the parent process do something, and wait until it is done."""
    line.send(("ask", what))
    line.recv()


def receive_all(line: Connection) -> Iterator[tuple[str, Any]]:
    """Yield what a process says until it ends."""
    with contextlib.suppress(EOFError, ConnectionResetError):
        while True:
            yield line.recv()


def listen(pid: int, line: Connection, reply: Callable[[str], Any] | None = None) -> list[Any]:
    """Return everything a process said; answer what it asks."""
    said = []
    for word, value in receive_all(line):
        if word == "error":
            raise RuntimeError(value)
        if word == "ask" and reply is not None:
            reply(value)
            line.send("done")
        else:
            said.append((word, value))
    os.waitpid(pid, 0)
    line.close()
    return said


def read_stored(store: str, server: Server, key: str) -> list[str]:
    """Return what a new process finds."""

    def read(line: Connection) -> None:
        talk = Talk(store, server, key)
        line.send(("heard", read_settled(talk)))

    return next(value for word, value in listen(*run_forked(read)) if word == "heard")


def read_settled(talk: Talk) -> list[str]:
    """Read until the store answers; a pool may hold connections of one that died."""
    for _ in range(200):
        heard = talk.heard()
        if not talk.degraded:
            return heard
        time.sleep(0.05)
    raise RuntimeError("the store did not come back")


def kill_writer(store: str, server: Server) -> Row:
    """The writing process dies at the first step, at the second, and so on."""
    row = Row("writer killed at each step", store)
    for at in range(1, MOST_STEPS):
        key = f"k-{uuid.uuid4()}"

        def write(line: Connection, at: int = at, key: str = key) -> None:
            talk = Talk(store, server, key)
            steps = Steps(at, lambda: os.kill(os.getpid(), signal.SIGKILL)).install()
            steps.on = True
            for mark in MARKS:
                talk.say([mark])
                if not talk.degraded:
                    line.send(("stored", mark))
            line.send(("whole", steps.count))

        said = listen(*run_forked(write))
        row.add(
            [value for word, value in said if word == "stored"],
            read_stored(store, server, key),
            MARKS,
        )
        if said and said[-1][0] == "whole":
            return row
    raise RuntimeError(f"{store}: more than {MOST_STEPS} steps")


def kill_server(store: str, server: Server) -> Row | None:
    """The database dies at the first step, at the second, and so on; the writer goes on."""
    if isinstance(server, SQLiteFile):
        return None
    row = Row("database killed at each step", store)
    for at in range(1, MOST_STEPS):
        key = f"k-{uuid.uuid4()}"

        def write(line: Connection, at: int = at, key: str = key) -> None:
            talk = Talk(store, server, key)
            steps = Steps(at, lambda: ask(line, "kill")).install()
            steps.on = True
            for mark in MARKS:
                talk.say([mark])
            steps.on = False
            if steps.count >= at:
                ask(line, "restart")
            read_settled(talk)
            line.send(("stored", list(MARKS)))
            line.send(("reached", steps.count >= at))

        said = listen(*run_forked(write), lambda what: getattr(server, what)())
        known = dict(said)
        row.add(known["stored"], read_stored(store, server, key), MARKS)
        if not known["reached"]:
            return row
    raise RuntimeError(f"{store}: more than {MOST_STEPS} steps")


def bring_down_and_back(store: str, server: Server) -> Row:
    """The database is away for three of five messages."""
    row = Row("down and back", store)
    for first in range(3):
        key = f"k-{uuid.uuid4()}"

        def write(line: Connection, first: int = first, key: str = key) -> None:
            talk = Talk(store, server, key)
            read_settled(talk)
            for place, mark in enumerate(MARKS):
                if place == first:
                    ask(line, "kill")
                talk.say([mark])
                if place == first + 2:
                    ask(line, "restart")
            read_settled(talk)
            line.send(("stored", list(MARKS)))

        said = dict(listen(*run_forked(write), lambda what: getattr(server, what)()))
        row.add(said["stored"], read_stored(store, server, key), MARKS)
    return row


def fill_disk(store: str, server: Server) -> Row:
    """Files cannot grow for a while: the writer's own for SQLite, the server's for Redis.

    PostgreSQL answers with the error it gives then.
    """
    row = Row("disk full, then freed", store)
    key = f"k-{uuid.uuid4()}"

    def reply(what: str) -> None:
        if isinstance(server, PostgresServer):
            refuse_writes(server.url, refuse=what == "fill")
        elif isinstance(server, RedisServer):
            assert server._process is not None
            if what == "fill":
                no_more = (4_096, resource.RLIM_INFINITY)
                resource.prlimit(server._process.pid, resource.RLIMIT_FSIZE, no_more)
            else:
                server.kill()
                server.restart()

    def write(line: Connection) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        talk = Talk(store, server, key)
        read_settled(talk)
        here = isinstance(server, SQLiteFile)
        for place, mark in enumerate(MARKS * 4):
            if place == 2:
                if here:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, resource.RLIM_INFINITY))
                else:
                    ask(line, "fill")
            talk.say([mark if place < 5 else f"q{place}"])
        line.send(("failed", talk.degraded))
        if here:
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )
        else:
            ask(line, "free")
        read_settled(talk)

    said = dict(listen(*run_forked(write), reply))
    if not said.get("failed"):
        raise RuntimeError(f"{store}: the disk was not full")
    marks = [*MARKS, *(f"q{place}" for place in range(5, 20))]
    row.add(marks, read_stored(store, server, key), marks)
    return row


def refuse_writes(url: str, *, refuse: bool) -> None:
    """Let PostgreSQL answer every write as it does when its disk is full.

    Its processes run as a user of their own, whose limits only that user may set.
    """
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "create or replace function full_disk() returns trigger language plpgsql as "
            "$$ begin raise exception 'No space left on device' using errcode = '53100'; end $$"
        )
        tables = connection.execute("select tablename from pg_tables where schemaname = 'public'")
        for (table,) in tables.fetchall():
            connection.execute(f'drop trigger if exists full_disk on "{table}"')
            if refuse:
                connection.execute(
                    f'create trigger full_disk before insert or update on "{table}" '
                    "execute function full_disk()"
                )


def write_at_once(count: int) -> Callable[[str, Server], Row]:
    """Several processes add the same text at once, and some of their writes fail."""

    def run(store: str, server: Server) -> Row:
        row = Row(f"{count} writers of equal texts, every fourth write failing", store)
        key = f"k-{uuid.uuid4()}"
        pid, line = run_forked(lambda _: Talk(store, server, key).say(["q"]))
        listen(pid, line)

        def writing(number: int) -> Callable[[Connection], None]:
            def write(line: Connection) -> None:
                talk = open_talk(store, server, key)
                read_settled(talk)
                for place in range(MESSAGES_EACH):
                    if (place + number) % 4 == 1:
                        fail_next_write(talk.adapter, after=bool(place % 2))
                    talk.say(["ok"])
                read_settled(talk)
                line.send(("stored", MESSAGES_EACH))

            return write

        running = [run_forked(writing(number)) for number in range(count)]
        done = sum(dict(listen(*one))["stored"] for one in running)
        row.add(
            ["ok"] * done, read_stored(store, server, key)[1:], ["ok"] * (count * MESSAGES_EACH)
        )
        return row

    return run


def open_talk(store: str, server: Server, key: str) -> Talk:
    """Open a store that others may be opening, too: one that makes its table locks the file."""
    for _ in range(300):
        with contextlib.suppress(Exception):
            return Talk(store, server, key)
        time.sleep(0.1)
    return Talk(store, server, key)


def replace_files() -> Iterator[Row]:
    """A file is replaced by another: the process dies at each step, or the disk is full."""
    for fault in ("writer killed at each step", "disk full, then freed"):
        row = Row(fault, "file")
        for at in range(1, MOST_STEPS):
            folder = FOLDER / f"{fault[:4]}-{at}"
            folder.mkdir()
            path = write_private(folder / "talk.json", json.dumps(["old"]))

            def write(line: Connection, at: int = at, path: Path = path, how: str = fault) -> None:
                steps = Steps(at, lambda: os.kill(os.getpid(), signal.SIGKILL)).install()
                steps.on = how.startswith("writer")
                if not steps.on:
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
                with contextlib.suppress(OSError):
                    write_private(path, json.dumps(["new" * 100]))
                    line.send(("whole", True))

            said = listen(*run_forked(write))
            found = json.loads(path.read_text())
            expected = [found] if found in (["old"], ["new" * 100]) else []
            row.add(["file"], ["file"] * len(expected), ["file"])
            if said or fault.startswith("disk"):
                break
        yield row


FAULTS: dict[str, Callable[[str, Server], Row | None]] = {
    "writer": kill_writer,
    "database": kill_server,
    "down": bring_down_and_back,
    "disk": fill_disk,
    "two": write_at_once(2),
    "eight": write_at_once(8),
}


def render(rows: Sequence[Row]) -> str:
    """Return the table."""
    lines = [
        "| fault | store | adapter | runs | acknowledged | stored | lost | doubled |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        adapter, _, rest = row.store.partition("-")
        store = NAMES.get(OPENERS[row.store][0], "") if row.store in OPENERS else "a file"
        store += " (SQL store)" if rest.endswith("-sql") else ""
        names = {"langchain": "LangChain", "llamaindex": "LlamaIndex"}
        numbers = (row.runs, row.acknowledged, row.stored, row.lost, row.doubled)
        cells = (row.fault, store, names.get(adapter, "—"), *(f"{one:,}" for one in numbers))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Break everything, print the table, and fail when something was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", nargs="*", choices=sorted(FAULTS), default=list(FAULTS))
    parser.add_argument("--stores", nargs="*", choices=sorted(OPENERS), default=sorted(OPENERS))
    parser.add_argument("--write", action="store_true", help=f"also to {PAGE.name}")
    options = parser.parse_args(arguments)
    logging.disable()  # what the adapters say about outages is not the subject here
    servers: dict[str, Server] = {}
    rows: list[Row] = []
    _warm(options.stores)
    FOLDER.mkdir()
    try:
        for name in options.faults:
            for store in options.stores:
                kind = OPENERS[store][0]
                if kind not in servers:
                    servers[kind] = _start(kind)
                began = time.perf_counter()
                row = FAULTS[name](store, servers[kind])
                if row is not None:
                    rows.append(row)
                    took = time.perf_counter() - began
                    sys.stderr.write(f"{row} in {took:.0f} s\n")
        rows.extend(replace_files())
    finally:
        for server in servers.values():
            server.close()
        shutil.rmtree(FOLDER, ignore_errors=True)
    sys.stdout.write(render(rows))
    if options.write:
        PAGE.write_text(render(rows), encoding="utf-8")
    return int(any(row.lost or row.doubled for row in rows))


def _warm(stores: Sequence[str]) -> None:
    """Import here what every process would import again."""
    drivers = ("sqlalchemy.dialects.sqlite", "aiosqlite", "asyncpg", "psycopg", "redis.asyncio")
    packages = {store.partition("-")[0] + "_history_curator" for store in stores}
    for module in (*drivers, *packages):
        import_module(module)


def _start(kind: str) -> Server:
    if kind == "sqlite":
        return SQLiteFile(FOLDER)
    return PostgresServer() if kind == "postgres" else RedisServer()


if __name__ == "__main__":
    sys.exit(main())
