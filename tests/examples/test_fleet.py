"""Four workers of the example endpoint on one PostgreSQL, one of them killed at work."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
pytest.importorskip("fastapi")
pytest.importorskip("langchain_community")
pytest.importorskip("sqlalchemy")
pytest.importorskip("psycopg")

import httpx
from langchain_core.chat_history import InMemoryChatMessageHistory
from sqlalchemy import text

from examples.fastapi_endpoint import app as example
from examples.fastapi_endpoint.fleet import StoredSummaries, create_tables
from examples.fastapi_endpoint.offline import SERVICES as SERVICE_OWNERS
from examples.fastapi_endpoint.offline import look_up_service
from history_curator import SummarizingManager
from langchain_history_curator import CuratedChatMessageHistory
from tests.examples import fleet_worker
from tests.stores.servers import PostgresServer

CONVERSATIONS = 200
TURNS = 2
CLIENTS = 8
SERVICES = ("Cincinnati", "Telemetry", "Quay")
_processes = multiprocessing.get_context("forkserver")


class Worker:
    """A process that serves the endpoint."""

    def __init__(self, store: str) -> None:
        self.gate = _processes.Event()
        self.gate.set()
        receiver, sender = _processes.Pipe(duplex=False)
        options = {"args": (store, self.gate, sender), "daemon": True}
        self.process = _processes.Process(target=fleet_worker.serve, **options)  # type: ignore[arg-type]
        self.process.start()
        self.running = 0
        self._receiver = receiver

    def wait(self) -> None:
        assert self._receiver.poll(60)
        self.url = f"http://127.0.0.1:{self._receiver.recv()}"
        deadline = time.monotonic() + 60
        while not self.is_healthy():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def is_healthy(self) -> bool:
        try:
            return bool(httpx.get(f"{self.url}/health").json() == {"database": True})
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.join(10)


class Fleet:
    """Workers, and a client that sends each request to any of them."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.workers = [Worker(store) for _ in range(4)]
        for worker in self.workers:
            worker.wait()
        self.client = httpx.Client(timeout=60)
        self.lock = threading.Lock()
        self.answered = self.broken = 0

    def ask(self, thread: str, prompt: str, key: str, random: Random) -> None:
        """Send a request until it is answered in full: to another worker when one breaks off."""
        for _ in range(20):
            with self.lock:
                worker = random.choice(self.workers)
                worker.running += 1
            try:
                answer = self.client.post(
                    f"{worker.url}/api/threads/{thread}",
                    json={"prompt": prompt},
                    headers={"Idempotency-Key": key},
                ).text
            except httpx.TransportError:
                answer = ""
            with self.lock:
                worker.running -= 1
                if "event: done" in answer:
                    self.answered += 1
                    return
                self.broken += 1
            time.sleep(0.1)
        raise AssertionError(f"no worker answers {thread}")

    def talk(self, number: int) -> None:
        random = Random(number)
        for turn, prompt in enumerate(prompts(number)):
            self.ask(f"fleet {number}", prompt, f"{number}-{turn}", random)

    def kill_one_at_work(self) -> None:
        """Kill a worker while its model answers, and start another one in its place."""
        victim = self.workers[0]
        victim.gate.clear()
        busy_since = time.monotonic()
        while time.monotonic() - busy_since < 0.5:  # what came through before has ended by then
            time.sleep(0.02)
            if victim.running < 2:
                busy_since = time.monotonic()
        victim.kill()
        new = Worker(self.store)
        new.wait()
        with self.lock:
            self.workers[0] = new

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        self.client.close()


def prompts(number: int) -> list[str]:
    details = "The ticket came in tonight, and somebody has to be called. " * 12
    return [
        f"Who owns {SERVICES[(number + turn) % 3]}? It is for ticket {number}. {details}"
        for turn in range(TURNS)
    ]


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    server = PostgresServer()
    url = server.url.replace("postgresql:", "postgresql+psycopg:")
    create_tables(url)
    with example.open_database(url).connect() as connection:  # nobody kills the database here
        connection.execution_options(isolation_level="AUTOCOMMIT")
        for command in ("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()"):
            connection.execute(text(command))
    yield url
    example.open_database(url).dispose()
    server.close()


@pytest.fixture(scope="module")
def fleet(store: str) -> Iterator[Fleet]:
    _processes.set_forkserver_preload(["tests.examples.fleet_worker"])
    running = Fleet(store)
    yield running
    running.close()


@pytest.fixture
def here(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the example of this process use the same database."""
    for name in ("STORE", "MAX_TOKENS", "MODEL"):
        monkeypatch.setattr(example, name, getattr(example, name))
    fleet_worker.use(store)


def views_of_one_process(record: list[Any], summaries: dict[str, str]) -> Iterator[str]:
    """Yield the digest of the view before each answer of a record, made from the record alone."""
    for end, message in enumerate(record):
        if message.type == "ai":
            history = CuratedChatMessageHistory(
                InMemoryChatMessageHistory(messages=record[:end]),
                SummarizingManager(example.MODEL, cache=summaries),
                max_tokens=example.MAX_TOKENS,
                retention=example.RETENTION,
            )
            yield fleet_worker.digest(history.messages)


def expected_record(number: int) -> Iterator[tuple[str, str]]:
    for turn, prompt in enumerate(prompts(number)):
        service = SERVICES[(number + turn) % 3]
        yield "human", prompt
        yield "ai", ""
        yield "tool", str(look_up_service.invoke({"name": service}))
        yield "ai", f"{service} is owned by {SERVICE_OWNERS[service]['owner']}."


def test_four_workers_are_one(store: str, fleet: Fleet, here: None) -> None:
    with ThreadPoolExecutor(CLIENTS) as clients:
        talks = [clients.submit(fleet.talk, number) for number in range(CONVERSATIONS)]
        while fleet.answered < CONVERSATIONS // 2:
            assert not any(talk.done() and talk.exception() for talk in talks)
            time.sleep(0.02)
        fleet.kill_one_at_work()
        for talk in talks:
            talk.result()
    assert fleet.answered == CONVERSATIONS * TURNS
    assert fleet.broken
    moved = 0
    for number in range(CONVERSATIONS):
        record = example.open_thread(f"fleet {number}").record
        summaries = dict(StoredSummaries(example.open_database(store), f"fleet {number}"))
        # Nothing is lost, and nothing is there twice.
        assert [(each.type, each.content) for each in record] == list(expected_record(number))
        answers = [each.response_metadata for each in record if each.type == "ai"]
        views = [noted["view"] for noted in answers]
        assert views == list(views_of_one_process(record, summaries))
        assert len(summaries) == 1  # one process alone needs no other than the stored one
        moved += len({noted["worker"] for noted in answers}) > 1
    assert moved > CONVERSATIONS // 2


def test_requests_for_one_conversation_take_turns(store: str, fleet: Fleet, here: None) -> None:
    questions = [f"Who owns {service}?" for service in SERVICES]

    def ask(number: int) -> None:
        fleet.ask("together", questions[number], f"together {number}", Random(number))

    with ThreadPoolExecutor(len(questions)) as clients:
        list(clients.map(ask, range(len(questions))))
    record = example.open_thread("together").record
    assert [each.type for each in record] == ["human", "ai", "tool", "ai"] * len(questions)
    for asked, answered in zip(record[::4], record[3::4], strict=True):
        assert answered.content.split()[0] in asked.content
