"""`CuratedChatMessageHistory` over real stores."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda

from history_curator.config import RetentionConfig
from history_curator.tokens import count_tokens
from langchain_history_curator import CuratedChatMessageHistory, recall_tool
from tests.langchain.factories import ai, answer, human, system, tool
from tests.langchain.scripted import ScriptedModel, refusals, shape, text_of


class ListStore(BaseChatMessageHistory):
    """A store in memory that can be switched off."""

    def __init__(self) -> None:
        self.rows: list[BaseMessage] = []
        self.down = False

    def _check(self) -> None:
        if self.down:
            raise ConnectionError("no route to host")

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        self._check()
        return list(self.rows)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self._check()
        self.rows.extend(messages)

    def clear(self) -> None:
        self._check()
        self.rows.clear()


def exchange(turn: int, size: int = 200) -> list[BaseMessage]:
    return [
        human(f"question {turn}"),
        ai(f"c{turn}", args={"n": turn}),
        tool(f"c{turn}", text_of(turn, size)),
        answer(f"answer {turn}"),
    ]


def sqlite(tmp_path: Path, name: str = "h") -> Any:
    community = pytest.importorskip("langchain_community.chat_message_histories")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return community.SQLChatMessageHistory(name, connection=f"sqlite:///{tmp_path / 'h.db'}")


class TestView:
    def test_messages_is_the_view_and_record_is_everything(self) -> None:
        history = CuratedChatMessageHistory(ListStore(), max_tokens=1_000)
        for turn in range(30):
            history.add_messages(exchange(turn))
        assert len(history.record) == 120
        assert count_tokens(history.messages) <= 1_000
        assert refusals([*history.messages, human("next")]) == []

    def test_a_view_may_end_on_the_answer(self) -> None:
        history = CuratedChatMessageHistory(ListStore(), max_tokens=1_000)
        history.add_messages(exchange(1))
        assert history.messages[-1].text == "answer 1"

    async def test_async_is_the_same(self) -> None:
        history = CuratedChatMessageHistory(ListStore(), max_tokens=1_000)
        for turn in range(20):
            await history.aadd_messages(exchange(turn))
        assert shape(await history.aget_messages()) == shape(history.messages)
        assert len(await history.aget_record()) == 80
        await history.aclear()
        assert history.record == []

    def test_convenience_methods_reach_the_store(self) -> None:
        store = ListStore()
        history = CuratedChatMessageHistory(store, max_tokens=1_000)
        history.add_user_message("hi")
        history.add_ai_message("hello")
        assert [m.type for m in store.rows] == ["human", "ai"]
        history.clear()
        assert store.rows == []

    def test_reading_twice_gives_the_same(self, tmp_path: Path) -> None:
        history = CuratedChatMessageHistory(sqlite(tmp_path), max_tokens=1_000)
        for turn in range(20):
            history.add_messages(exchange(turn))
        assert shape(history.messages) == shape(history.messages)

    def test_no_deprecation_warning_of_its_own(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            history = CuratedChatMessageHistory(ListStore(), max_tokens=1_000)
            history.add_messages(exchange(1))
            assert history.messages

    def test_it_can_be_recalled_from(self) -> None:
        history = CuratedChatMessageHistory(ListStore(), max_tokens=1_000, recall=True)
        for turn in range(30):
            history.add_messages(exchange(turn))
        assert "question 3" in recall_tool(history).invoke({"query": "question 3"})


class TestStores:
    def test_sqlite_survives_a_restart(self, tmp_path: Path) -> None:
        first = CuratedChatMessageHistory(sqlite(tmp_path), max_tokens=1_000)
        for turn in range(20):
            first.add_messages(exchange(turn))
        again = CuratedChatMessageHistory(sqlite(tmp_path), max_tokens=1_000)
        assert shape(again.record) == shape(first.record)
        assert shape(again.messages) == shape(first.messages)

    async def test_a_sync_sqlite_store_under_async_callers(self, tmp_path: Path) -> None:
        history = CuratedChatMessageHistory(sqlite(tmp_path), max_tokens=1_000)
        await history.aadd_messages(exchange(1))
        assert len(await history.aget_messages()) == 4

    async def test_an_async_sqlite_store(self, tmp_path: Path) -> None:
        community = pytest.importorskip("langchain_community.chat_message_histories")
        pytest.importorskip("aiosqlite")
        store = community.SQLChatMessageHistory(
            "h", connection=f"sqlite+aiosqlite:///{tmp_path / 'a.db'}", async_mode=True
        )
        history = CuratedChatMessageHistory(store, max_tokens=1_000)
        await history.aadd_messages(exchange(1))
        assert len(await history.aget_messages()) == 4
        await store.async_engine.dispose()

    def test_langchains_own_in_memory_store(self) -> None:
        from langchain_core.chat_history import InMemoryChatMessageHistory

        history = CuratedChatMessageHistory(InMemoryChatMessageHistory(), max_tokens=1_000)
        history.add_messages(exchange(1))
        assert len(history.record) == 4


class TestOutage:
    def test_the_conversation_goes_on_and_is_stored_later(self) -> None:
        store = ListStore()
        history = CuratedChatMessageHistory(store, max_tokens=1_000)
        history.add_messages(exchange(0))
        store.down = True
        history.add_messages(exchange(1))
        assert history.degraded
        assert len(history.record) == 8
        assert len(history.pending) == 4
        assert history.messages[-1].text == "answer 1"
        store.down = False
        assert history.flush()
        assert len(store.rows) == 8
        assert not history.degraded

    async def test_async(self) -> None:
        store = ListStore()
        history = CuratedChatMessageHistory(store, max_tokens=1_000)
        store.down = True
        await history.aadd_messages(exchange(1))
        assert len(await history.aget_messages()) == 4
        store.down = False
        assert await history.aflush()
        assert len(store.rows) == 4


class TestRetention:
    def test_older_turns_lose_their_tool_details_in_the_store(self) -> None:
        store = ListStore()
        history = CuratedChatMessageHistory(
            store,
            max_tokens=4_000,
            retention=RetentionConfig(preserve_turns=1, persist_tool_invocations="none"),
        )
        for turn in range(5):
            history.add_messages(exchange(turn))
        assert len([m for m in store.rows if isinstance(m, ToolMessage)]) == 1
        assert [m.text for m in store.rows if m.type == "human"] == [
            f"question {turn}" for turn in range(5)
        ]

    def test_the_view_prunes_without_touching_the_store(self) -> None:
        store = ListStore()
        history = CuratedChatMessageHistory(
            store, max_tokens=9_000, retention={"preserve_turns": 1}
        )
        for turn in range(5):
            history.add_messages(exchange(turn))
        assert len(store.rows) == 20
        assert len([m for m in history.messages if m.type == "tool"]) == 1

    def test_trimmed_results_stay_paired(self) -> None:
        store = ListStore()
        history = CuratedChatMessageHistory(
            store,
            max_tokens=9_000,
            retention={
                "preserve_turns": 1,
                "persist_tool_invocations": "trimmed",
                "prune_tools_for_llm": False,
            },
        )
        for turn in range(4):
            history.add_messages(exchange(turn))
        assert len(store.rows) == 16
        assert store.rows[2].text == '{"name": "t", "status": "success"}'
        assert refusals([*history.messages, human("next")]) == []


class TestRunnableWithMessageHistory:
    def chain(self, model: ScriptedModel, tmp_path: Path, budget: int) -> Any:
        from langchain_core.runnables.history import RunnableWithMessageHistory

        prompt = ChatPromptTemplate.from_messages(
            [("system", "be brief"), MessagesPlaceholder("history"), ("human", "{question}")]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return RunnableWithMessageHistory(
                prompt | model,
                lambda session_id: CuratedChatMessageHistory(
                    sqlite(tmp_path, session_id), max_tokens=budget
                ),
                input_messages_key="question",
                history_messages_key="history",
            )

    def test_over_sqlite_nothing_is_lost(self, tmp_path: Path) -> None:
        model = ScriptedModel(steps=0, window=500)
        chain = self.chain(model, tmp_path, 400)
        session: Any = {"configurable": {"session_id": "s"}}
        for turn in range(60):
            chain.invoke({"question": f"question {turn} " + "word " * 20}, session)
        record = sqlite(tmp_path, "s").messages
        assert [m.text.split()[1] for m in record if m.type == "human"] == [
            str(turn) for turn in range(60)
        ]
        assert len(record) == 120
        assert max(map(len, model.views)) < 40
        assert max(model.costs) <= 500

    async def test_async(self, tmp_path: Path) -> None:
        model = ScriptedModel(steps=0, window=500)
        chain = self.chain(model, tmp_path, 400)
        session: Any = {"configurable": {"session_id": "s"}}
        for turn in range(25):
            await chain.ainvoke({"question": f"question {turn} " + "word " * 20}, session)
        assert len(sqlite(tmp_path, "s").messages) == 50

    def test_messages_in_and_out_without_a_history_key(self, tmp_path: Path) -> None:
        from langchain_core.runnables.history import RunnableWithMessageHistory

        model = ScriptedModel(steps=0, window=500)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chain = RunnableWithMessageHistory(
                RunnableLambda(model.invoke),
                lambda session_id: CuratedChatMessageHistory(
                    sqlite(tmp_path, session_id), max_tokens=300
                ),
            )
        session: Any = {"configurable": {"session_id": "s"}}
        for turn in range(30):
            chain.invoke([HumanMessage(f"question {turn} " + "word " * 20)], session)
        record = sqlite(tmp_path, "s").messages
        assert [m.text.split()[1] for m in record if m.type == "human"] == [
            str(turn) for turn in range(30)
        ]
        assert len([m for m in record if isinstance(m, AIMessage)]) == 30


def test_system_messages_in_the_store_survive() -> None:
    history = CuratedChatMessageHistory(ListStore(), max_tokens=600)
    history.add_messages([system("be brief")])
    for turn in range(20):
        history.add_messages(exchange(turn))
    assert history.messages[0].text == "be brief"
