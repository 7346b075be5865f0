"""Several writers of one conversation, some of whose writes fail: nothing lost, nothing doubled."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.stores.conversations import Conversation, LangChainConversation

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Join = Callable[[], Conversation]


def buffer_of(conversation: Conversation) -> Any:
    if isinstance(conversation, LangChainConversation):
        return conversation.history._buffer
    return conversation.memory._buffer  # type: ignore[attr-defined]


def fail_next_write(conversation: Conversation, when: str) -> None:
    """Let the next write fail: before it reached the store, or after, unknown to the writer."""
    operations = buffer_of(conversation)._store
    for table in (operations._plain, operations._awaited):
        append = table["append"]
        if append is None:
            continue

        def failing(items: Any, _append: Any = append, _table: Any = table) -> Any:
            _table["append"] = _append
            if when == "after":
                _append(items)
            raise ConnectionError("the connection broke")

        table["append"] = failing


@pytest.mark.parametrize("when", ["before", "after"])
def test_equal_texts_of_two_writers_one_of_whom_fails(join: Join, when: str) -> None:
    one, other = join(), join()
    one.say(["start"])
    assert other.heard() == ["start"]
    fail_next_write(one, when)
    one.say(["yes", "yes"])
    assert one.degraded
    other.say(["yes"])
    other.say(["yes", "no"])
    assert one.heard().count("yes") == 4
    assert not one.degraded
    assert Counter(join().heard()) == {"start": 1, "yes": 4, "no": 1}
    assert Counter(other.heard()) == {"start": 1, "yes": 4, "no": 1}


@pytest.mark.parametrize("writers", [2, 8])
def test_many_writers_of_equal_texts_whose_writes_fail_now_and_then(
    join: Join, writers: int
) -> None:
    join().say(["start"])
    conversations = [join() for _ in range(writers)]
    each = 12
    errors: list[BaseException] = []

    def write(number: int) -> None:
        mine = conversations[number]
        try:
            for count in range(each):
                if (count + number) % 4 == 1:
                    fail_next_write(mine, "before" if count % 2 else "after")
                mine.say(["ok"])
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(20):
        for conversation in conversations:
            conversation.heard()
        if not any(one.degraded for one in conversations):
            break
    assert errors == []
    assert Counter(join().heard()) == {"start": 1, "ok": writers * each}


def test_an_id_is_given_when_a_message_is_recorded(join: Join) -> None:
    conversation = join()
    fail_next_write(conversation, "before")
    conversation.say(["one", "one"])
    waiting = buffer_of(conversation).pending
    key = buffer_of(conversation)._key
    ids = [key(message) for message in waiting]
    assert len(set(ids)) == 2
    assert None not in ids
    conversation.heard()
    stored = buffer_of(join())
    stored.read()
    assert [key(message) for message in stored._known] == ids


def test_nothing_that_is_read_back_has_an_id_of_ours() -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.llms import ChatMessage
    from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

    from llamaindex_history_curator import CuratedMemory

    store = SQLAlchemyChatStore(table_name="chat", async_database_uri="sqlite+aiosqlite://")
    memory = CuratedMemory.from_defaults(chat_store=store, token_limit=2_000)
    said = [ChatMessage("hi"), ChatMessage("hi", role="assistant", additional_kwargs={"a": 1})]
    memory.put_messages(said)
    assert memory.get() == memory.get_all() == said
    memory.set([*memory.get_all(), ChatMessage("hi")])
    assert memory.replaced == ()
    assert "history_curator_id" not in memory.to_string()
