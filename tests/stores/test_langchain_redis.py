"""``langchain-redis`` on a real Redis.

Its history asks the search module of Redis, which no wheel brings. What it asks is answered here
from the same server: documents are kept under the keys and in the form it chose.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from history_curator.tokens import count_tokens
from langchain_history_curator import CuratedChatMessageHistory
from tests.langchain.scripted import refusals
from tests.stores.conversations import turn_of
from tests.stores.servers import RedisServer

module = pytest.importorskip("langchain_redis", reason="needs langchain-redis")


class Documents:
    """What `RedisChatMessageHistory` asks of a search index, without the search module."""

    def __init__(self, history: Any) -> None:
        self._redis = history.redis_client
        self._prefix = f"{history.key_prefix}{history.session_id}:"

    def load(self, data: list[dict[str, Any]], keys: list[str], ttl: int | None) -> None:
        with self._redis.pipeline() as together:
            for key, document in zip(keys, data, strict=True):
                together.set(key, json.dumps(document), ex=ttl)
            together.execute()

    def query(self, query: Any) -> Any:
        names = sorted(self._redis.scan_iter(match=f"{self._prefix}*"))
        if type(query).__name__ == "CountQuery":
            return len(names)
        found = [(name, json.loads(self._redis.get(name))) for name in names]
        found.sort(key=lambda each: each[1]["timestamp"])
        rows = ((name, one["type"], json.dumps(one["data"])) for name, one in found)
        return [dict(zip(("id", "type", "$.data"), row, strict=True)) for row in rows]

    def paginate(self, query: Any, page_size: int) -> Iterator[list[Any]]:
        yield self.query(query)

    def drop_keys(self, keys: list[str]) -> None:
        self._redis.delete(*keys)


@pytest.fixture
def reopen(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Opens the same conversation again and again."""
    import redis as client

    index = "langchain_redis.chat_message_history.SearchIndex"
    monkeypatch.setattr(f"{index}.info", lambda self: {})
    monkeypatch.setattr(f"{index}.create", lambda self, **options: None)

    def store() -> Any:
        opened = module.RedisChatMessageHistory("a", redis_client=client.Redis.from_url(redis.url))
        opened.index = Documents(opened)
        return opened

    return store


def test_the_view_fits_and_the_record_is_whole_after_a_restart(reopen: Callable[[], Any]) -> None:
    messages = [one for turn in range(15) for one in turn_of(turn, langchain=True)]
    first = CuratedChatMessageHistory(reopen(), max_tokens=800)
    first.add_messages(messages)
    again = CuratedChatMessageHistory(reopen(), max_tokens=800)
    assert [message.text for message in again.record] == [message.text for message in messages]
    assert count_tokens(again.messages) <= 800
    assert not refusals([*again.messages, HumanMessage("next")])
    assert [message.text for message in again.messages] == [one.text for one in first.messages]
    assert [message.id for message in again.record] == [message.id for message in first.record]
    again.clear()
    assert reopen().messages == []


async def test_calls_ids_and_names_are_put_back(reopen: Callable[[], Any]) -> None:
    history = CuratedChatMessageHistory(reopen(), max_tokens=800)
    await history.aadd_messages(turn_of(1, langchain=True))
    record: list[Any] = CuratedChatMessageHistory(reopen()).record
    assert record == await history.aget_record()
    assert [call["id"] for call in record[1].tool_calls] == ["c1"]
    assert (record[2].tool_call_id, record[2].name) == ("c1", "find")
    assert all(message.id and not message.additional_kwargs for message in record)
    await history.aclear()


def test_messages_that_others_stored_are_read_as_they_are(reopen: Callable[[], Any]) -> None:
    store = reopen()
    store.add_messages([HumanMessage("hello")])
    assert [message.text for message in CuratedChatMessageHistory(store).messages] == ["hello"]
    store.clear()
