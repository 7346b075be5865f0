"""`CuratedChatMessageHistory` over real stores."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate

from history_curator.config import RetentionConfig
from history_curator.record import prune
from history_curator.tokens import count_tokens
from langchain_history_curator import CuratedChatMessageHistory, recall_tool
from tests.langchain.factories import ai, answer, human, tool
from tests.langchain.scripted import ScriptedModel, refusals, shape, text_of


class ListStore(BaseChatMessageHistory):
    """A store in memory."""

    def __init__(self) -> None:
        self.rows: list[BaseMessage] = []

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        return list(self.rows)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self.rows.extend(messages)

    def clear(self) -> None:
        self.rows.clear()


def exchange(turn: int) -> list[BaseMessage]:
    return [
        human(f"question {turn}"),
        ai(f"c{turn}", args={"n": turn}),
        tool(f"c{turn}", text_of(turn, 200)),
        answer(f"answer {turn}"),
    ]


def sqlite(tmp_path: Path, name: str = "h", *, driver: str = "sqlite", **more: Any) -> Any:
    community = pytest.importorskip("langchain_community.chat_message_histories")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        address = f"{driver}:///{tmp_path / 'h.db'}"
        return community.SQLChatMessageHistory(name, connection=address, **more)


def async_sqlite(tmp_path: Path) -> Any:
    pytest.importorskip("aiosqlite")
    return sqlite(tmp_path, driver="sqlite+aiosqlite", async_mode=True)


def curated(
    store: BaseChatMessageHistory, turns: int, **settings: Any
) -> CuratedChatMessageHistory:
    """A history over a store, with so many turns added."""
    history = CuratedChatMessageHistory(store, **{"max_tokens": 9_000, **settings})
    for turn in range(turns):
        history.add_messages(exchange(turn))
    return history


class TestView:
    def test_messages_is_the_view_and_record_is_everything(self) -> None:
        history = curated(ListStore(), 30, max_tokens=1_000)
        assert len(history.record) == 120
        assert count_tokens(history.messages) <= 1_000
        assert refusals([*history.messages, human("next")]) == []

    async def test_async_is_the_same(self) -> None:
        history = CuratedChatMessageHistory(ListStore(), max_tokens=1_000)
        for turn in range(20):
            await history.aadd_messages(exchange(turn))
        assert shape(await history.aget_messages()) == shape(history.messages)
        assert len(await history.aget_record()) == 80
        await history.aclear()
        assert history.record == []


async def test_an_async_sqlite_store(tmp_path: Path) -> None:
    store = async_sqlite(tmp_path)
    history = CuratedChatMessageHistory(store, max_tokens=1_000)
    await history.aadd_messages(exchange(1))
    assert len(await history.aget_messages()) == 4
    for record in (history, store):
        answer = await recall_tool(record).ainvoke({"query": "question 1"})
        assert "question 1" in answer
    await store.async_engine.dispose()


def test_a_missing_database_is_an_empty_history() -> None:
    history = CuratedChatMessageHistory(None, max_tokens=1_000)
    assert history.messages == []
    history.add_user_message("hello")
    assert [message.text for message in history.messages] == ["hello"]
    assert CuratedChatMessageHistory(None).record == []


class TestRetention:
    def test_the_view_prunes_without_touching_the_store(self) -> None:
        store = ListStore()
        history = curated(store, 5, retention={"preserve_turns": 1})
        assert len(store.rows) == 20
        assert len([m for m in history.messages if m.type == "tool"]) == 1

    @pytest.mark.parametrize("keep", ["trimmed", "none"])
    def test_rows_are_edited_in_place_and_a_second_writer_loses_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str
    ) -> None:
        store, other = sqlite(tmp_path), sqlite(tmp_path)
        monkeypatch.setattr(store, "clear", lambda: pytest.fail("the thread was cleared"))
        rules = {"preserve_turns": 1, "persist_tool_invocations": keep}
        history = curated(store, 0, retention=rules)
        apply = prune.apply_retention

        def while_the_other_writes(*given: Any, **options: Any) -> Any:
            other.add_messages([answer("meanwhile")])
            return apply(*given, **options)

        history.add_messages(exchange(0))
        monkeypatch.setattr(prune, "apply_retention", while_the_other_writes)
        history.add_messages(exchange(1))
        stored = other.messages
        assert stored[-1].text == "meanwhile"
        assert [message.text for message in stored] == [one.text for one in history.record]
        results = [message.text for message in stored if message.type == "tool"]
        trimmed = ['{"name": "t", "status": "success"}'] if keep == "trimmed" else []
        assert results == [*trimmed, text_of(1, 200)]

    async def test_rows_of_an_async_store_are_edited_in_place(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = async_sqlite(tmp_path)
        monkeypatch.setattr(store, "aclear", lambda: pytest.fail("the thread was cleared"))
        rules = {"preserve_turns": 1, "persist_tool_invocations": "none"}
        history = curated(store, 0, retention=rules)
        for turn in range(3):
            await history.aadd_messages(exchange(turn))
        stored = await store.aget_messages()
        await store.async_engine.dispose()
        assert [message.text for message in stored if message.type == "tool"] == [text_of(2, 200)]
        assert len(stored) == 8

    def test_a_store_that_cannot_edit_keeps_everything(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        class AppendOnly(ListStore):
            def clear(self) -> None:
                pytest.fail("the thread was cleared")

        store = AppendOnly()
        rules = RetentionConfig(
            preserve_turns=1, persist_tool_invocations="trimmed", prune_tools_for_llm=False
        )
        for turns in (0, 3):
            history = curated(store, turns, retention=rules)
        assert store.rows[2].text == text_of(0, 200)
        assert history.messages[2].text == '{"name": "t", "status": "success"}'
        assert sum("AppendOnly" in line for line in caplog.messages) == 1

    def test_a_trimmed_result_loses_its_artifact(self, tmp_path: Path) -> None:
        store = sqlite(tmp_path)
        rules = {"preserve_turns": 1, "persist_tool_invocations": "trimmed"}
        history = curated(store, 0, retention=rules)
        for turn in range(2):
            said = exchange(turn)
            said[2] = tool(f"c{turn}", text_of(turn, 200), artifact={"rows": [1] * 500})
            history.add_messages(said)
        artifacts = [m.artifact for m in store.messages if isinstance(m, ToolMessage)]
        assert artifacts == [None, {"rows": [1] * 500}]


def test_in_a_chain_over_sqlite_nothing_is_lost(tmp_path: Path) -> None:
    from langchain_core.runnables.history import RunnableWithMessageHistory

    model = ScriptedModel(steps=0, window=500)
    prompt = ChatPromptTemplate(
        [("system", "be brief"), ("placeholder", "{history}"), ("human", "{question}")]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chain = RunnableWithMessageHistory(
            prompt | model,
            lambda name: CuratedChatMessageHistory(sqlite(tmp_path, name), max_tokens=400),
            input_messages_key="question",
            history_messages_key="history",
        )
    session: Any = {"configurable": {"session_id": "s"}}
    for turn in range(60):
        chain.invoke({"question": f"question {turn} " + "word " * 20}, session)
    record = sqlite(tmp_path, "s").messages
    questions = [m.text.split()[1] for m in record if m.type == "human"]
    assert questions == [str(turn) for turn in range(60)]
    assert len(record) == 120
    assert max(map(len, model.views)) < 40
    assert max(model.costs) <= 500
