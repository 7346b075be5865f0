"""Pruning real stores of both frameworks, on SQLite."""

from __future__ import annotations

import json
import logging
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from history_curator.config import RetentionConfig
from history_curator.errors import ConfigurationError
from history_curator.record.prune import prune_connection, prune_store
from tests.stores.conversations import turn_of

pytest.importorskip("sqlalchemy")

TRIM = RetentionConfig(persist_tool_invocations="trimmed")
NONE = RetentionConfig(persist_tool_invocations="none")
BULK = "row " * 200


def dump(path: Path, table: str) -> list[Any]:
    with sqlite3.connect(path) as connection:
        return connection.execute(f"select * from {table} order by id").fetchall()


def open_history(path: Path, session: str) -> Any:
    stores = pytest.importorskip("langchain_community.chat_message_histories")
    return stores.SQLChatMessageHistory(session, connection=f"sqlite:///{path}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of LangChain with four turns of two conversations."""
    path = tmp_path / "langchain.db"
    for session in ("ann", "bob"):
        history = open_history(path, session)
        for turn in range(4):
            history.add_messages(turn_of(turn, langchain=True))
        history.engine.dispose()
    return path


class TestLangChain:
    def test_a_dry_run_changes_nothing(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        before = dump(path, "message_store")
        caplog.set_level(logging.INFO, logger="history_curator.retention")
        pruned = prune_store(f"sqlite:///{path}", config=NONE)
        assert dump(path, "message_store") == before
        assert [(one.session_id, one.rows, one.trimmed, one.removed) for one in pruned] == [
            ("ann", 16, 0, 4),
            ("bob", 16, 0, 4),
        ]
        assert str(pruned[0]).startswith("message_store, ann: 16 messages, 0 trimmed, 4 removed, ")
        assert f"prune (dry run): {pruned[0]}" in caplog.messages

    def test_results_that_share_a_user_message_stay_with_their_calls(self, tmp_path: Path) -> None:
        core = pytest.importorskip("langchain_core.messages")
        calls = [{"name": "find", "args": {"q": 1}, "id": call_id} for call_id in "ab"]
        found = [{"type": "tool_result", "tool_use_id": each, "content": BULK} for each in "ab"]
        said = [core.HumanMessage("question"), core.AIMessage("", tool_calls=calls)]
        said += [core.HumanMessage(found), core.AIMessage("answer"), *map(core.HumanMessage, "xyz")]
        open_history(tmp_path / "blocks.db", "ann").add_messages(said)
        for config in (TRIM, NONE):
            url = f"sqlite:///{tmp_path / 'blocks.db'}"
            (pruned,) = prune_store(url, config=config, apply=True)
            assert pruned.saved == 0

    def test_trimmed_leaves_names_and_outcomes_of_older_turns(self, path: Path) -> None:
        pruned = prune_store(f"sqlite:///{path}", config=TRIM, apply=True)
        rows = [json.loads(row[2])["data"] for row in dump(path, "message_store")]
        assert len(rows) == 32
        assert json.loads(rows[2]["content"]) == {"name": "find", "status": "success"}
        assert rows[1]["tool_calls"][0]["args"] == {}
        assert rows[10]["content"] == BULK
        assert rows[9]["tool_calls"][0]["args"] == {"query": "x"}
        assert sum(one.saved for one in pruned) > 4 * 700

    def test_unreadable_rows_are_left_alone(self, path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("update message_store set message = 'oops' where id = 2")
        prune_store(f"sqlite:///{path}", config=NONE, apply=True)
        assert dump(path, "message_store")[1][2] == "oops"

    def test_an_open_transaction_prunes_one_conversation(self, path: Path) -> None:
        ann = open_history(path, "ann")
        for changes in (True, False):
            with ann.engine.begin() as connection:
                table = ann.sql_model_class.__table__
                pruned = prune_connection(connection, table, "ann", NONE)
                assert bool(pruned.removed) is changes
        assert len(dump(path, "message_store")) == 12 + 16
        ann.engine.dispose()


async def test_llamaindex_rows_are_trimmed(tmp_path: Path) -> None:
    sql = pytest.importorskip("llama_index.core.storage.chat_store.sql")
    pytest.importorskip("aiosqlite")
    path = tmp_path / "llamaindex.db"
    url = f"sqlite+aiosqlite:///{path}"
    store = sql.SQLAlchemyChatStore(table_name="chat", async_database_uri=url)
    for turn in range(4):
        await store.add_messages("ann", turn_of(turn, langchain=False))
    await store._async_engine.dispose()
    (pruned,) = prune_store(url, config=TRIM, apply=True)
    rows = [json.loads(row[-1]) for row in dump(path, "chat")]
    assert (pruned.table, pruned.trimmed) == ("chat", 4)
    assert json.loads(rows[2]["blocks"][0]["text"]) == {"name": "find", "status": "success"}
    assert rows[1]["blocks"][0]["tool_kwargs"] == {}
    assert rows[10]["blocks"][0]["text"] == BULK


class TestErrors:
    def test_a_store_that_is_not_there_is_not_made(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(ConfigurationError, match="no store at"):
            prune_store(f"sqlite:///{tmp_path / 'none.db'}")
        assert not (tmp_path / "none.db").exists()
        with pytest.raises(ConfigurationError, match=r"sqlite:///chat\.db"):
            prune_store("chat.db")
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(ConfigurationError, match="Fix: pip install psycopg"):
            prune_store("postgresql://x/y")

    def test_a_store_without_conversations_is_refused(self, tmp_path: Path) -> None:
        with sqlite3.connect(tmp_path / "other.db") as connection:
            connection.execute("create table stock (id integer, price integer)")
        with pytest.raises(ConfigurationError, match="No conversation of LangChain or LlamaIndex"):
            prune_store(f"sqlite:///{tmp_path / 'other.db'}")
