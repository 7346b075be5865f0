"""What the databases hold of older turns' tool details, in both frameworks."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from history_curator.config import RetentionConfig
from history_curator.record.prune import prune_connection, prune_store
from tests.stores.conversations import Conversation, turn_of
from tests.stores.servers import Server, down

pytestmark = [
    pytest.mark.timeout(240),
    # Drivers leave the sockets of a killed server to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

BULK = "row " * 200
TRIMMED = json.dumps({"name": "find", "status": "success"})
NONE = RetentionConfig(persist_tool_invocations="none")
TRIM = RetentionConfig(persist_tool_invocations="trimmed")
Join = Callable[..., Conversation]


KEEPS_EVERYTHING = ("langchain-postgres", "langchain-redis", "llamaindex-redis")
"""Stores that would have to be cleared before they are written anew."""


def open_thread(join: Join, retention: RetentionConfig, **options: Any) -> Conversation:
    return join(retention=retention, max_tokens=20_000, **options)


def add_turn(thread: Conversation, number: int) -> None:
    """Ask, call, return, answer."""
    for message in turn_of(number, langchain=thread.is_langchain):
        thread.add([message])


def stored(thread: Conversation) -> list[tuple[str, str]]:
    """Return (role, text) of everything that is read."""
    role_of = attrgetter("type" if thread.is_langchain else "role.value")
    return [(role_of(one), str(one.content or "")) for one in thread.record()]


def words_of(rows: list[tuple[str, str]]) -> list[str]:
    return [text for _, text in rows if text.startswith(("question", "answer"))]


def words_of_turns(count: int) -> list[str]:
    return [f"{what} {n}" for n in range(count) for what in ("question", "answer")]


@pytest.mark.parametrize("flag", [True, False, "trimmed"])
def test_config_flag_toggles_tool_persistence_of_older_rows(
    join: Join, store: str, flag: Any
) -> None:
    thread = open_thread(join, RetentionConfig.from_dict({"persist_tool_invocations": flag}))
    for number in range(4):
        add_turn(thread, number)
    rows = stored(join())
    results = [text for role, text in rows if role == "tool"]
    assert words_of(rows) == words_of_turns(4)
    flag = flag if store not in KEEPS_EVERYTHING else True
    older = {True: [BULK] * 2, False: [], "trimmed": [TRIMMED] * 2}[flag]
    assert results == [*older, BULK, BULK]
    assert len(rows) == (12 if flag is False else 16)


def test_outage_while_turns_grow_old(join: Join, server: Server, store: str) -> None:
    thread = open_thread(join, RetentionConfig(persist_tool_invocations="trimmed"))
    for number in range(2):
        add_turn(thread, number)
    with down(server):
        add_turn(thread, 2)
        assert sum(text.startswith("question") for _, text in stored(thread)) == 3
    thread.settle()
    add_turn(thread, 3)
    stored(thread)
    rows = stored(join())
    assert words_of(rows) == words_of_turns(4)
    is_whole = store in KEEPS_EVERYTHING
    results = [text == BULK for role, text in rows if role == "tool"]
    assert results == [is_whole, is_whole, True, True]


def test_shadow_mode_stores_messages_as_they_are_and_edits_none(join: Join) -> None:
    retention = RetentionConfig(persist_tool_invocations="none", preserve_turns=1)
    thread = open_thread(join, retention, mode="shadow")
    for number in range(4):
        add_turn(thread, number)
    given = [one for number in range(4) for one in turn_of(number, langchain=thread.is_langchain)]
    assert thread.record() == given
    assert thread.view() == [text for _, text in stored(thread)]
    assert stored(join()) == stored(thread)


def test_a_turn_costs_a_few_statements_however_long_the_conversation_is(tmp_path: Path) -> None:
    stores = pytest.importorskip("langchain_community.chat_message_histories")
    sa = pytest.importorskip("sqlalchemy")
    from langchain_history_curator import CuratedChatMessageHistory

    store = stores.SQLChatMessageHistory("ann", connection=f"sqlite:///{tmp_path / 'chat.db'}")
    store.add_messages([one for turn in range(500) for one in turn_of(turn, langchain=True)])
    history = CuratedChatMessageHistory(store, max_tokens=2_000, retention=TRIM)
    history.messages  # noqa: B018 - a host reads before it adds
    history.add_messages(turn_of(500, langchain=True))  # looks at all of them once
    statements: list[str] = []

    def count(_: Any, __: Any, statement: str, *more: Any) -> None:
        statements.append(statement)

    sa.event.listen(store.engine, "before_cursor_execute", count)
    for turn in range(600, 610):
        for message in turn_of(turn, langchain=True):
            history.add_messages([message])
    # A turn is four inserts; growing old, it is one read and two edits.
    assert len(statements) <= 10 * (4 + 1 + 2)
    tools = [message.text.startswith("row") for message in store.messages if message.type == "tool"]
    assert tools[-3:] == [False, True, True]
    store.engine.dispose()


def test_pruning_a_store_keeps_messages_added_meanwhile(postgres: Server) -> None:
    from langchain_community.chat_message_histories import SQLChatMessageHistory

    url = postgres.url.replace("postgresql://", "postgresql+psycopg://")
    session = f"s-{uuid.uuid4()}"
    history = SQLChatMessageHistory(session, connection=url)
    history.add_messages(turn_of(0, langchain=True))

    def write() -> None:
        mine = SQLChatMessageHistory(session, connection=url)
        for number in range(1, 30):
            mine.add_messages(turn_of(number, langchain=True))

    def prune() -> None:
        with history.engine.begin() as connection:
            table = history.sql_model_class.__table__
            prune_connection(connection, table, session, NONE)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        prune()
    writer.join()
    prune()
    rows = [(message.type, str(message.content)) for message in history.messages]
    assert words_of(rows) == words_of_turns(30)
    assert [kind for kind, _ in rows].count("tool") == 2


def test_pruning_the_jsonb_of_langchain_postgres(postgres: Server) -> None:
    psycopg = pytest.importorskip("psycopg")
    stores = pytest.importorskip("langchain_postgres")
    session, table = str(uuid.uuid4()), f"chat_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres.url) as connection:
        stores.PostgresChatMessageHistory.create_tables(connection, table)
        history = stores.PostgresChatMessageHistory(table, session, sync_connection=connection)
        for number in range(3):
            history.add_messages(turn_of(number, langchain=True))
        found = prune_store(postgres.url, config=TRIM, apply=True)
        (pruned,) = (one for one in found if one.table == table)
        assert (pruned.rows, pruned.trimmed, pruned.removed) == (12, 2, 0)
        messages = history.get_messages()
    assert messages[2].content == TRIMMED
    assert messages[6].content == BULK
