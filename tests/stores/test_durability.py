"""No message lost, none doubled, order kept: on real databases, in both frameworks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import pytest

from tests.stores.conversations import Conversation
from tests.stores.servers import RedisServer, Server

pytestmark = [
    pytest.mark.timeout(240),
    # Drivers leave the sockets of a killed server to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Join = Callable[[], Conversation]


def texts(start: int, stop: int) -> list[str]:
    return [f"message {number}" for number in range(start, stop)]


def settle(conversation: Conversation) -> list[str]:
    """Read until the store answers: a pool may hold connections of the server that died."""
    for _ in range(20):
        heard = conversation.heard()
        if not conversation.degraded:
            return heard
        time.sleep(0.1)
    pytest.fail("the store did not come back")


@contextmanager
def down(server: Server) -> Iterator[None]:
    server.kill()
    try:
        yield
    finally:
        server.restart()


def test_what_is_said_is_there_for_the_next_process(join: Join) -> None:
    join().say(texts(0, 3))
    other = join()
    other.say(texts(3, 4))
    assert join().heard() == texts(0, 4) == other.heard()


async def test_async_and_sync_share_the_conversation(join: Join) -> None:
    conversation = join()
    await conversation.asay(texts(0, 2))
    assert await conversation.aheard() == texts(0, 2)


class TestConcurrentWriters:
    def test_none_lost_none_doubled_each_in_order(self, join: Join) -> None:
        join().say(["start"])
        writers, each = 4, 15
        conversations = [join() for _ in range(writers)]
        errors: list[BaseException] = []

        def write(number: int) -> None:
            try:
                for count in range(each):
                    conversations[number].say([f"{number}:{count}"])
            except BaseException as error:  # noqa: BLE001
                errors.append(error)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for conversation in conversations:
            settle(conversation)
        assert errors == []
        heard = join().heard()
        assert heard[0] == "start"
        assert len(heard) == 1 + writers * each
        for number in range(writers):
            mine = [text for text in heard if text.startswith(f"{number}:")]
            assert mine == [f"{number}:{count}" for count in range(each)]


class TestKilledServer:
    def test_the_conversation_goes_on_and_arrives_later(
        self, join: Join, server: Server, caplog: pytest.LogCaptureFixture
    ) -> None:
        conversation = join()
        conversation.say(texts(0, 5))
        assert conversation.heard() == texts(0, 5)
        with caplog.at_level(logging.WARNING, logger="history_curator.store"), down(server):
            conversation.say(texts(5, 7))
            conversation.say(texts(7, 8))
            assert conversation.degraded
            assert conversation.heard() == texts(0, 8)
            assert conversation.view()[-1] == "message 7"
        warnings = [one for one in caplog.records if one.name == "history_curator.store"]
        assert len(warnings) == 1
        assert settle(conversation) == texts(0, 8)
        conversation.say(texts(8, 9))
        settle(conversation)
        assert join().heard() == texts(0, 9)

    def test_killed_while_writing(self, join: Join, server: Server) -> None:
        conversation = join()
        conversation.say(texts(0, 1))
        half = threading.Event()
        back = threading.Event()

        def write() -> None:
            for number in range(1, 40):
                conversation.say(texts(number, number + 1))
                if number == 10:
                    half.set()
                if number == 30:
                    back.wait(60)

        writer = threading.Thread(target=write)
        writer.start()
        half.wait(60)
        with down(server):
            time.sleep(0.05)
        back.set()
        writer.join()
        settle(conversation)
        assert join().heard() == texts(0, 40)

    def test_nothing_known_degrades_to_empty(self, join: Join, server: Server) -> None:
        join().say(texts(0, 2))
        late = join()
        with down(server):
            assert late.heard() == []
            late.say(texts(2, 3))
            assert late.heard() == texts(2, 3)
        assert settle(late) == texts(0, 3)


def test_ten_thousand_messages(join: Join, store: str, server: Server) -> None:
    conversation = join()
    # One store rewrites the whole conversation for every message that is added.
    begun = 9_900 if store == "llamaindex-postgres" else 500
    with server.hurry() if isinstance(server, RedisServer) else nullcontext():
        conversation.begin(texts(0, begun))
        for start in range(begun, 10_000, 500):
            conversation.say(texts(start, min(start + 500, 10_000)))
    fresh = join()
    assert fresh.heard() == texts(0, 10_000)
    view = fresh.view()
    assert view[-1] == "message 9999"
    assert 10 < len(view) < 1_000
    fresh.say(["one more"])
    assert join().heard() == [*texts(0, 10_000), "one more"]
