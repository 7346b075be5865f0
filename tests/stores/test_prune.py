"""Pruning PostgreSQL while others write."""

from __future__ import annotations

import json
import threading
import uuid
from typing import Any

import pytest

from history_curator.record.prune import prune_session, prune_store
from history_curator.config import RetentionConfig
from tests.stores.servers import Server

pytest.importorskip("langchain_community")
sa = pytest.importorskip("sqlalchemy")

NONE = RetentionConfig(persist_tool_invocations="none")
TRIM = RetentionConfig(persist_tool_invocations="trimmed")
BULK = "row " * 100


def turn(number: int) -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    call = {"name": "find", "args": {"query": "x"}, "id": f"c{number}"}
    return [
        HumanMessage(f"question {number}"),
        AIMessage("", tool_calls=[call]),
        ToolMessage(BULK, tool_call_id=f"c{number}", name="find"),
        AIMessage(f"answer {number}"),
    ]


def test_messages_added_meanwhile_stay(postgres: Server) -> None:
    from langchain_community.chat_message_histories import SQLChatMessageHistory

    url = postgres.url.replace("postgresql://", "postgresql+psycopg://")
    session = f"s-{uuid.uuid4()}"
    history = SQLChatMessageHistory(session, connection=url)
    history.add_messages(turn(0))

    def write() -> None:
        mine = SQLChatMessageHistory(session, connection=url)
        for number in range(1, 30):
            mine.add_messages(turn(number))

    writer = threading.Thread(target=write)
    writer.start()
    table = history.sql_model_class.__table__
    while writer.is_alive():
        prune_session(history.engine, table, session, NONE)
    writer.join()
    prune_session(history.engine, table, session, NONE)
    said = [message.text for message in history.messages if message.type != "tool"]
    words = [text for text in said if text]
    assert words == [f"{what} {n}" for n in range(30) for what in ("question", "answer")]
    assert [message.type for message in history.messages].count("tool") == 2


def test_jsonb_of_langchain_postgres(postgres: Server) -> None:
    psycopg = pytest.importorskip("psycopg")
    stores = pytest.importorskip("langchain_postgres")
    session = str(uuid.uuid4())
    table = f"chat_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres.url) as connection:
        stores.PostgresChatMessageHistory.create_tables(connection, table)
        history = stores.PostgresChatMessageHistory(table, session, sync_connection=connection)
        for number in range(3):
            history.add_messages(turn(number))
        report = prune_store(postgres.url, table=table, session_id=session, config=TRIM, apply=True)
        assert (report.rows, report.trimmed, report.removed) == (12, 2, 0)
        messages = history.get_messages()
    assert json.loads(str(messages[2].content)) == {"name": "find", "status": "success"}
    assert messages[6].content == BULK
