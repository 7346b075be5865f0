"""Pruning real stores of both frameworks, on SQLite."""

from __future__ import annotations

import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.record.prune import prune_connection, prune_store
from tests.stores.conversations import turn_of

pytest.importorskip("sqlalchemy")

TRIM = RetentionConfig(persist_tool_invocations="trimmed")
NONE = RetentionConfig(persist_tool_invocations="none")
BULK = "row " * 300


def dump(path: Path) -> list[Any]:
    with sqlite3.connect(path) as connection:
        table = connection.execute(
            "select name from sqlite_master where type = 'table'"
        ).fetchone()[0]
        return connection.execute(f"select * from {table} order by id").fetchall()


@pytest.fixture
def langchain_store(tmp_path: Path) -> Path:
    stores = pytest.importorskip("langchain_community.chat_message_histories")
    messages = pytest.importorskip("langchain_core.messages")
    path = tmp_path / "langchain.db"
    for session in ("ann", "bob"):
        history = stores.SQLChatMessageHistory(session, connection=f"sqlite:///{path}")
        for turn in range(4):
            call = f"c{turn}"
            history.add_messages(
                [
                    messages.HumanMessage(f"question {turn}"),
                    messages.AIMessage(
                        [
                            {"type": "text", "text": "looking"},
                            {"type": "tool_use", "id": call, "name": "find", "input": {"q": "x"}},
                        ],
                        tool_calls=[{"name": "find", "args": {"q": "x"}, "id": call}],
                        response_metadata={"model": "m"},
                    ),
                    messages.ToolMessage(
                        BULK, tool_call_id=call, name="find", artifact={"rows": [1]}, status="error"
                    ),
                    messages.AIMessage(f"answer {turn}"),
                ]
            )
        history.engine.dispose()
    return path


@pytest.fixture
async def llamaindex_store(tmp_path: Path) -> Path:
    sql = pytest.importorskip("llama_index.core.storage.chat_store.sql")
    pytest.importorskip("aiosqlite")
    path = tmp_path / "llamaindex.db"
    store = sql.SQLAlchemyChatStore(
        table_name="chat", async_database_uri=f"sqlite+aiosqlite:///{path}"
    )
    for turn in range(4):
        await store.add_messages("ann", turn_of(turn, langchain=False))
    await store._async_engine.dispose()
    return path


class TestLangChain:
    def test_a_dry_run_changes_nothing(
        self, langchain_store: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        before = dump(langchain_store)
        caplog.set_level(logging.INFO, logger="history_curator.retention")
        pruned = prune_store(f"sqlite:///{langchain_store}", config=NONE)
        assert dump(langchain_store) == before
        assert [(one.session_id, one.rows, one.trimmed, one.removed) for one in pruned] == [
            ("ann", 16, 2, 2),
            ("bob", 16, 2, 2),
        ]
        assert str(pruned[0]).startswith("message_store, ann: 16 messages, 2 trimmed, 2 removed, ")
        assert f"prune (dry run): {pruned[0]}" in caplog.messages

    def test_results_that_share_a_user_message_stay_with_their_calls(self, tmp_path: Path) -> None:
        stores = pytest.importorskip("langchain_community.chat_message_histories")
        messages = pytest.importorskip("langchain_core.messages")
        url = f"sqlite:///{tmp_path / 'blocks.db'}"
        history = stores.SQLChatMessageHistory("ann", connection=url)
        calls = [{"name": "find", "args": {"q": 1}, "id": call_id} for call_id in "ab"]
        found = [
            {"type": "tool_result", "tool_use_id": one["id"], "content": BULK} for one in calls
        ]
        said = [messages.AIMessage("", tool_calls=calls), messages.HumanMessage(found)]
        said = [messages.HumanMessage("question"), *said, messages.AIMessage("answer")]
        history.add_messages([*said, *map(messages.HumanMessage, "xyz")])
        for config in (TRIM, NONE):
            (pruned,) = prune_store(url, config=config, apply=True)
            assert pruned.saved == 0

    def test_trimmed(self, langchain_store: Path) -> None:
        pruned = prune_store(f"sqlite:///{langchain_store}", config=TRIM, apply=True)
        rows = [json.loads(row[2])["data"] for row in dump(langchain_store)]
        assert len(rows) == 32
        assert json.loads(rows[2]["content"]) == {"name": "find", "status": "error"}
        assert "artifact" not in rows[2]
        assert rows[1]["tool_calls"][0]["args"] == {}
        assert '"q"' not in json.dumps(rows[1])
        assert rows[1]["response_metadata"] == {"model": "m"}
        assert rows[10]["content"] == BULK
        assert rows[9]["tool_calls"][0]["args"] == {"q": "x"}
        assert sum(one.saved for one in pruned) > 4 * 1_000

    def test_none_leaves_a_conversation_in_words(self, langchain_store: Path) -> None:
        prune_store(f"sqlite:///{langchain_store}", config=NONE, apply=True)
        stores = pytest.importorskip("langchain_community.chat_message_histories")
        messages = stores.SQLChatMessageHistory(
            "ann", connection=f"sqlite:///{langchain_store}"
        ).messages
        assert [message.type for message in messages[:6]] == ["human", "ai", "ai"] * 2
        assert [message.text for message in messages[1:3]] == ["looking", "answer 0"]
        assert messages[1].tool_calls == []
        assert [message.type for message in messages[6:]] == ["human", "ai", "tool", "ai"] * 2

    def test_one_conversation_can_be_chosen(self, langchain_store: Path) -> None:
        before = dump(langchain_store)
        only = {"table": "message_store", "session_id": "bob"}
        pruned = prune_store(f"sqlite:///{langchain_store}", **only, config=NONE, apply=True)
        assert [one.session_id for one in pruned] == ["bob"]
        assert dump(langchain_store)[:16] == before[:16]

    def test_unreadable_rows_are_left_alone(self, langchain_store: Path) -> None:
        with sqlite3.connect(langchain_store) as connection:
            connection.execute("update message_store set message = 'oops' where id = 2")
        prune_store(f"sqlite:///{langchain_store}", config=NONE, apply=True)
        assert dump(langchain_store)[1][2] == "oops"

    def test_failure_leaves_the_conversation_whole(self, langchain_store: Path) -> None:
        before = dump(langchain_store)
        with sqlite3.connect(langchain_store) as connection:
            connection.execute(
                "create trigger full before delete on message_store when old.id = 7 begin "
                "select raise(abort, 'disk full'); end"
            )
        with pytest.raises(HistoryCuratorError, match="conversation 'ann', which is as it was"):
            prune_store(f"sqlite:///{langchain_store}", config=NONE, apply=True)
        assert dump(langchain_store) == before


def test_an_open_transaction_prunes_one_conversation(langchain_store: Path) -> None:
    stores = pytest.importorskip("langchain_community.chat_message_histories")
    url = f"sqlite:///{langchain_store}"
    ann, bob = (stores.SQLChatMessageHistory(name, connection=url) for name in ("ann", "bob"))
    for changes in (True, False):
        with ann.engine.begin() as connection:
            table = ann.sql_model_class.__table__
            assert prune_connection(connection, table, "ann", NONE) is changes
    assert (len(ann.messages), len(bob.messages)) == (14, 16)
    ann.engine.dispose()


class TestLlamaIndex:
    async def test_trimmed(self, llamaindex_store: Path) -> None:
        (pruned,) = prune_store(f"sqlite+aiosqlite:///{llamaindex_store}", config=TRIM, apply=True)
        rows = [json.loads(row[-1]) for row in dump(llamaindex_store)]
        assert (pruned.table, pruned.trimmed) == ("chat", 4)
        assert json.loads(rows[2]["blocks"][0]["text"]) == {"name": "find", "status": "success"}
        assert rows[1]["blocks"][0]["tool_kwargs"] == {}
        assert rows[10]["blocks"][0]["text"] == "row " * 200


class TestErrors:
    def test_a_store_that_is_not_there_is_not_made(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="no store at"):
            prune_store(f"sqlite:///{tmp_path / 'none.db'}")
        assert not (tmp_path / "none.db").exists()
        with pytest.raises(ConfigurationError, match=r"sqlite:///chat\.db"):
            prune_store("chat.db")

    def test_a_store_without_conversations_is_refused(self, tmp_path: Path) -> None:
        with sqlite3.connect(tmp_path / "other.db") as connection:
            connection.execute("create table stock (id integer, price integer)")
        with pytest.raises(ConfigurationError, match="No conversation of LangChain or LlamaIndex"):
            prune_store(f"sqlite:///{tmp_path / 'other.db'}")

    @pytest.mark.parametrize("only", [{"session_id": "eve"}, {"table": "chat"}])
    def test_an_unknown_conversation_or_table_is_refused(
        self, langchain_store: Path, only: Any
    ) -> None:
        with pytest.raises(ConfigurationError, match=r"found .'message_store'.\."):
            prune_store(f"sqlite:///{langchain_store}", **only)
