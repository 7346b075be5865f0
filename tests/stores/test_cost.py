"""Adding to a long conversation costs the same with retention: operations are counted, not time."""

from __future__ import annotations

from typing import Any

import pytest

from history_curator.record import _stored
from history_curator.config import RetentionConfig

ROWS = 2_000
KEEP = RetentionConfig(persist_tool_invocations="trimmed")


class Meter:
    """Counts what SQLAlchemy sends and fetches, and the messages that are read as entries."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, format: type) -> None:
        self.read = 0
        read = format.read

        def counting(*args: Any) -> Any:
            self.read += 1
            return read(*args)

        monkeypatch.setattr(format, "read", counting)
        row = _stored.StoredRow.__init__
        self.rows = 0

        def fetched(*args: Any) -> None:
            self.rows += 1
            row(*args)

        monkeypatch.setattr(_stored.StoredRow, "__init__", fetched)
        self.statements = 0

    def watch(self, engine: Any) -> None:
        sa = pytest.importorskip("sqlalchemy")

        def count(*_: Any) -> None:
            self.statements += 1

        sa.event.listen(engine, "before_cursor_execute", count)

    def take(self) -> tuple[int, int, int]:
        taken = (self.statements, self.rows, self.read)
        self.statements = self.rows = self.read = 0
        return taken


def test_langchain_rows(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = pytest.importorskip("langchain_community.chat_message_histories")
    from langchain_history_curator import CuratedChatMessageHistory
    from langchain_history_curator._format import LangChainFormat
    from tests.stores.test_shadow import langchain_turn

    url = f"sqlite:///{tmp_path / 'chat.db'}"
    store = stores.SQLChatMessageHistory("ann", connection=url)
    store.add_messages([one for turn in range(ROWS // 4) for one in langchain_turn(turn)])
    plain = CuratedChatMessageHistory(store, max_tokens=2_000)
    kept = CuratedChatMessageHistory(store, max_tokens=2_000, retention=KEEP)
    kept.messages  # noqa: B018 - a host reads before it adds
    kept.add_messages([])
    meter = Meter(monkeypatch, LangChainFormat)
    meter.watch(store.engine)
    kept.add_messages(langchain_turn(9_000))  # what was stored before retention was on
    meter.take()
    costs = []
    for history in (plain, kept):
        for turn in range(10_000, 10_010):
            for message in langchain_turn(turn):
                history.add_messages([message])
        costs.append(meter.take())
    (plain_statements, _, _), (statements, rows, read) = costs
    # A turn is four inserts; growing old, it is one page of rows read and two of them edited.
    assert plain_statements == 40
    assert statements <= 2 * plain_statements
    assert rows <= 10 * 32
    assert read <= 10 * (32 + 4) + 10
    # An object made for one request has nothing to catch up with either.
    CuratedChatMessageHistory(store, max_tokens=2_000, retention=KEEP).add_messages(
        langchain_turn(10_010)[:1]
    )
    assert meter.take()[1] <= 32
    results = [one.text for one in store.messages if one.type == "tool"]
    assert [text.startswith("row") for text in results[-3:]] == [False, False, True]


async def test_llamaindex_rows(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = pytest.importorskip("llama_index.core.storage.chat_store.sql")
    from llama_index.core.llms import ChatMessage

    from llamaindex_history_curator import CuratedMemory, LlamaIndexFormat

    uri = f"sqlite+aiosqlite:///{tmp_path / 'chat.db'}"
    store = sql.SQLAlchemyChatStore(table_name="chat", async_database_uri=uri)
    said = [ChatMessage(f"{n}", role=("user", "assistant")[n % 2]) for n in range(ROWS)]
    await store.add_messages("ann", said)
    options: dict[str, Any] = {"chat_store": store, "chat_store_key": "ann", "token_limit": 2_000}
    plain = CuratedMemory.from_defaults(**options)
    kept = CuratedMemory.from_defaults(**options, retention=KEEP)
    meter = Meter(monkeypatch, LlamaIndexFormat)
    meter.watch(store._async_engine.sync_engine)
    costs = []
    for memory in (plain, kept):
        for message in said[:20]:
            await memory.aput(message)
        costs.append(meter.take())
    assert costs[0][0] == 20
    assert costs[1][0] <= 2 * costs[0][0]
    assert costs[1][1] <= 10 * 32


@pytest.mark.parametrize("framework", ["langchain", "llamaindex"])
def test_in_memory(monkeypatch: pytest.MonkeyPatch, framework: str) -> None:
    """What is read as entries does not grow with the conversation."""
    if framework == "langchain":
        pytest.importorskip("langchain_core")
        from langchain_core.chat_history import InMemoryChatMessageHistory

        from langchain_history_curator import CuratedChatMessageHistory
        from langchain_history_curator._format import LangChainFormat
        from tests.stores.test_shadow import langchain_turn

        store = InMemoryChatMessageHistory()
        for turn in range(ROWS // 4):
            store.add_messages(langchain_turn(turn))
        history = CuratedChatMessageHistory(store, max_tokens=2_000, retention=KEEP, rewrite=True)
        meter = Meter(monkeypatch, LangChainFormat)
        for message in langchain_turn(9_999):
            history.add_messages([message])
    else:
        pytest.importorskip("llama_index.core")
        from llama_index.core.llms import ChatMessage

        from llamaindex_history_curator import CuratedMemory, LlamaIndexFormat

        memory = CuratedMemory.from_defaults(token_limit=2_000, retention=KEEP)
        memory.set([ChatMessage(f"{n}", role=("user", "assistant")[n % 2]) for n in range(ROWS)])
        meter = Meter(monkeypatch, LlamaIndexFormat)
        memory.put(ChatMessage("next"))
        memory.put(ChatMessage("answer", role="assistant"))
    assert meter.take()[2] <= 24
