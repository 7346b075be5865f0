"""``langchain-redis`` on a real Redis.

Its history asks the search module of Redis, which no wheel brings. What it asks is answered here
from the same server: documents are kept under the keys and in the form it chose.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from history_curator.tokens import count_tokens
from langchain_history_curator import CuratedChatMessageHistory
from tests.langchain.scripted import refusals
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
        return [
            {"id": name, "type": one["type"], "$.data": json.dumps(one["data"])}
            for name, one in found
        ]

    def paginate(self, query: Any, page_size: int) -> Iterator[list[Any]]:
        yield self.query(query)

    def drop_keys(self, keys: list[str]) -> None:
        self._redis.delete(*keys)


@pytest.fixture
def url(redis: RedisServer) -> str:
    return redis.url


def opened(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    import redis as client

    monkeypatch.setattr(
        "langchain_redis.chat_message_history.SearchIndex.info", lambda self: {}, raising=True
    )
    monkeypatch.setattr(
        "langchain_redis.chat_message_history.SearchIndex.create",
        lambda self, **options: None,
        raising=True,
    )
    store = module.RedisChatMessageHistory("a", redis_client=client.Redis.from_url(url))
    store.index = Documents(store)
    return store


def exchange(turn: int) -> list[BaseMessage]:
    call: Any = {"name": "look", "args": {"turn": turn}, "id": f"c{turn}"}
    return [
        HumanMessage(f"question {turn}"),
        AIMessage("", tool_calls=[call]),
        ToolMessage(f"{turn}: " + "rows " * 100, tool_call_id=f"c{turn}", name="look"),
        AIMessage(f"answer {turn}"),
    ]


class TestHistory:
    def test_the_view_fits_and_the_record_is_whole_after_a_restart(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = CuratedChatMessageHistory(opened(url, monkeypatch), max_tokens=800)
        for turn in range(15):
            first.add_messages(exchange(turn))
        again = CuratedChatMessageHistory(opened(url, monkeypatch), max_tokens=800)
        said = [message.text for turn in range(15) for message in exchange(turn)]
        assert [message.text for message in again.record] == said
        assert count_tokens(again.messages) <= 800
        assert not refusals([*again.messages, HumanMessage("next")])
        assert [m.text for m in again.messages] == [m.text for m in first.messages]
        assert [m.id for m in again.record] == [m.id for m in first.record]
        again.clear()
        assert opened(url, monkeypatch).messages == []

    def test_a_call_stays_with_its_result(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        history = CuratedChatMessageHistory(opened(url, monkeypatch), max_tokens=800)
        history.add_messages(exchange(1))
        record = CuratedChatMessageHistory(opened(url, monkeypatch)).record
        assert [call["id"] for call in record[1].tool_calls] == ["c1"]  # type: ignore[attr-defined]
        assert record[2].tool_call_id == "c1"  # type: ignore[attr-defined]
        assert record[2].name == "look"
        assert all(message.id for message in record)
        assert all(not message.additional_kwargs for message in record)
        assert [m.type for m in history.messages] == ["human", "ai", "tool", "ai"]
        history.clear()

    async def test_in_async(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        history = CuratedChatMessageHistory(opened(url, monkeypatch), max_tokens=800)
        await history.aadd_messages(exchange(1))
        again = CuratedChatMessageHistory(opened(url, monkeypatch))
        assert await again.aget_record() == await history.aget_record()
        assert (await again.aget_record())[1].tool_calls  # type: ignore[attr-defined]
        await history.aclear()

    def test_what_was_stored_without_us_is_read_as_it_is(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = opened(url, monkeypatch)
        store.add_messages([HumanMessage("hello")])
        assert [m.text for m in CuratedChatMessageHistory(store).messages] == ["hello"]
        store.clear()
