"""No message lost, none doubled, order kept: on real databases, in both frameworks."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.stores.conversations import Conversation, fail_next_write
from tests.stores.servers import Server, down

pytestmark = [
    pytest.mark.timeout(240),
    # Drivers leave the sockets of a killed server to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Join = Callable[[], Conversation]


def texts(start: int, stop: int) -> list[str]:
    return [f"message {number}" for number in range(start, stop)]


async def test_async_and_sync_share_the_conversation(join: Join) -> None:
    conversation = join()
    await conversation.asay(texts(0, 2))
    assert await conversation.aheard() == texts(0, 2)


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"])
def test_a_text_that_the_store_can_never_hold_does_not_block_the_next(
    join: Join, text: str
) -> None:
    conversation = join()
    conversation.say(["before"])
    with suppress(Exception):  # some stores hold it
        conversation.say([text])
    conversation.say(["after"])
    assert not conversation.degraded
    assert [one for one in join().heard() if one != text] == ["before", "after"]


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
        assert conversation.settle() == texts(0, 8)
        conversation.say(texts(8, 9))
        conversation.settle()
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
        conversation.settle()
        assert join().heard() == texts(0, 40)


class TestFailedWrites:
    """Several writers of equal texts, some of whose writes fail."""

    @pytest.mark.parametrize("after", [False, True])
    def test_a_failed_write_is_neither_lost_nor_doubled(self, join: Join, after: bool) -> None:
        one, other = join(), join()
        one.say(["start"])
        assert other.heard() == ["start"]
        fail_next_write(one.adapter, after=after)
        one.say(["yes", "yes"])
        assert one.adapter.degraded
        other.say(["yes"])
        other.say(["yes", "no"])
        assert one.heard().count("yes") == 4
        assert not one.adapter.degraded
        for conversation in (join(), other):
            assert Counter(conversation.heard()) == {"start": 1, "yes": 4, "no": 1}

    def test_many_writers_whose_writes_fail_now_and_then(self, join: Join) -> None:
        join().say(["start"])
        conversations, each = [join() for _ in range(4)], 12

        def write(number: int) -> None:
            for count in range(each):
                if (count + number) % 4 == 1:
                    fail_next_write(conversations[number].adapter, after=bool(count % 2))
                conversations[number].say(["ok"])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        for conversation in conversations:
            conversation.settle()
        assert Counter(join().heard()) == {"start": 1, "ok": 4 * each}


def test_messages_that_are_read_back_have_no_id_of_ours() -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.llms import ChatMessage
    from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

    from llamaindex_history_curator import CuratedMemory

    store = SQLAlchemyChatStore(table_name="chat", async_database_uri="sqlite+aiosqlite://")
    memory = CuratedMemory.from_defaults(chat_store=store, token_limit=2_000)
    messages = [ChatMessage("hi"), ChatMessage("hi", role="assistant", additional_kwargs={"a": 1})]
    memory.put_messages(messages)
    assert memory.get() == memory.get_all() == messages
    memory.set([*memory.get_all(), ChatMessage("hi")])
    assert "history_curator_id" not in str(memory.get_all())
