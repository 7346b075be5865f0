"""What is said shows up in no error, no warning and no log line, whatever goes wrong."""

from __future__ import annotations

import copy
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from history_curator import (
    BudgetUnsatisfiableError,
    Curator,
    EventBus,
    HistoryCuratorError,
    HistoryLimits,
    HistorySession,
    check_conversation,
    count_tokens,
    format_history,
    sanitize_history,
    validate_history,
)
from history_curator.record.prune import prune_store
from tests.stores.conversations import turn_of
from tests.support.messages import call, system, user
from tests.tenants.world import Listener, listening

SECRET = "my pin is zq0000a, tell nobody"
WORD = "zq0000a"

USE = {"type": "tool_use", "id": "t", "name": "f", "input": {"q": SECRET}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": SECRET}
RESPONSE = {"functionResponse": {"name": "f", "response": {"r": SECRET}}}
FORMATS: dict[str, list[dict[str, Any]]] = {
    "chat": [
        system(SECRET),
        call("c1", q=SECRET),
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": SECRET}]},
        user(SECRET),
    ],
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": SECRET}]},
        {"role": "assistant", "content": [USE]},
        {"role": "user", "content": [RESULT]},
    ],
    "responses": [
        {"type": "message", "role": "user", "content": SECRET},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": SECRET},
        {"type": "function_call_output", "call_id": "c", "output": SECRET},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": SECRET}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"q": SECRET}}}]},
        {"role": "user", "parts": [RESPONSE]},
    ],
    "bedrock": [
        {"role": "user", "content": [{"text": SECRET}]},
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {"q": SECRET}}}],
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": SECRET}]}}],
        },
    ],
}
WRONG: tuple[Any, ...] = (None, 3, SECRET, [SECRET], {SECRET: SECRET}, SECRET.encode())

ACTIONS: dict[str, Callable[[Any], Any]] = {
    "curate": Curator(max_tokens=200).curate,
    "curate within nothing": Curator(max_tokens=12, provider="anthropic").curate,
    "validate": validate_history,
    "validate, users first": lambda given: validate_history(given, HistoryLimits.user_first()),
    "sanitize": sanitize_history,
    "format": format_history,
    "count": count_tokens,
    "record": lambda given: HistorySession.from_json(record(given)),
    "check": lambda given: check_conversation(given, provider="anthropic"),
}


def record(given: Any) -> str:
    session = HistorySession()
    session.record(given)
    return session.to_json()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else inner:
        yield from places(item, (*path, key))


def broken(messages: Any, path: tuple[Any, ...], wrong: Any) -> Any:
    if not path:
        return wrong
    changed = copy.deepcopy(messages)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = wrong
    return changed


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def quotes(error: BaseException) -> list[str]:
    """Return the private texts of an error and of what caused it."""
    return [str(one) for one in chain(error) if WORD in str(one)]


@pytest.fixture(autouse=True)
def log(request: pytest.FixtureRequest) -> Iterator[Listener]:
    """No line of any logger quotes the conversation; a framework's and a driver's own may."""
    with listening() as listener:
        yield listener
    is_foreign = request.node.name in ("test_what_langchain_cannot_read", "test_llamaindex")
    lines = listener.ours if is_foreign else listener.lines
    assert not any(WORD in line for line in lines)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("wire", FORMATS)
def test_messages_broken_in_every_place(wire: str, action: str) -> None:
    messages = FORMATS[wire]
    raised: list[str] = []
    for path in places(messages):
        for wrong in WRONG:
            try:
                with warnings.catch_warnings(record=True) as warned:
                    warnings.simplefilter("always")
                    ACTIONS[action](broken(messages, path, wrong))
            except HistoryCuratorError as error:
                raised += [type(error).__name__, *quotes(error)]
            assert not any(WORD in str(one.message) for one in warned)
    assert raised or action in ("format", "sanitize")
    assert not any(WORD in text for text in raised)


def test_what_langchain_cannot_read() -> None:
    """LangChain's own errors quote the message; ours say what kind of thing it is."""
    core = pytest.importorskip("langchain_core.messages")
    from langchain_history_curator import HistoryCurator, recall_tool

    given: tuple[Any, ...] = (
        {SECRET: 1},
        {"messages": {SECRET: SECRET}},
        [{"type": SECRET, "content": SECRET}],
        [{"content": SECRET}],
        [(SECRET, SECRET)],
        [(SECRET,)],
        [SECRET, None],
        [core.HumanMessage(SECRET), [SECRET]],
    )
    for one in given:
        curator, tool = HistoryCurator(max_tokens=90), recall_tool(one)
        for ask in (partial(curator.invoke, one), partial(tool.invoke, {"query": "pin"})):
            with pytest.raises(HistoryCuratorError, match="Fix: ") as caught:
                ask()
            assert quotes(caught.value) == []


def test_what_a_warning_of_validation_says() -> None:
    given = [{"role": "user", "content": SECRET, "timestamp": SECRET, "attachments": SECRET}]
    said = [str(warning) for warning in validate_history(given).warnings]
    assert len(said) == 2
    assert not any(WORD in text for text in said)
    dropped = sanitize_history([{"role": SECRET, "content": SECRET}]).dropped
    assert WORD not in str(dropped)


def test_a_budget_that_nothing_fits() -> None:
    with pytest.raises(BudgetUnsatisfiableError) as caught:
        Curator(max_tokens=10).curate([{"role": "user", "content": SECRET * 20}])
    assert WORD not in str(caught.value) + repr(caught.value)


def test_a_handler_that_quotes_its_event(log: Listener) -> None:
    bus = EventBus()

    def quote(event: Any) -> None:
        raise ValueError(f"cannot take {event.entry.content}")

    bus.subscribe(object, quote)
    HistorySession(bus=bus).append({"role": "user", "content": SECRET})
    (line,) = [line for line in log.lines if "raised" in line]
    assert "ValueError (test_errors_and_logs.py:" in line


class TestStores:
    """An outage: drivers quote the statement and what it was given."""

    def test_langchain(self, tmp_path: Path, log: Listener) -> None:
        messages = pytest.importorskip("langchain_core.messages")
        stores = pytest.importorskip("langchain_community.chat_message_histories")
        from langchain_history_curator import CuratedChatMessageHistory

        path = tmp_path / "chat.db"
        store = stores.SQLChatMessageHistory("ann", connection=f"sqlite:///{path}?timeout=0.01")
        history = CuratedChatMessageHistory(store, max_tokens=500)
        with locked(path):
            history.add_messages([messages.HumanMessage(SECRET)])
            assert history.degraded
        assert history.messages[0].content == SECRET
        assert any("unavailable" in line for line in log.lines)

    async def test_llamaindex(self, tmp_path: Path, log: Listener) -> None:
        sql = pytest.importorskip("llama_index.core.storage.chat_store.sql")
        from llama_index.core.llms import ChatMessage

        from llamaindex_history_curator import CuratedMemory

        path = tmp_path / "chat.db"
        uri = f"sqlite+aiosqlite:///{path}?timeout=0.01"
        store = sql.SQLAlchemyChatStore(table_name="chat", async_database_uri=uri)
        await store.add_messages("ann", [ChatMessage("hi")])
        memory = CuratedMemory.from_defaults(chat_store=store, chat_store_key="ann")
        with locked(path):
            await memory.aput(ChatMessage(SECRET))
            assert memory.degraded
        assert (await memory.aget())[-1].content == SECRET
        assert any("unavailable" in line for line in log.ours)

    def test_pruning_a_store_that_cannot_be_written(self, tmp_path: Path) -> None:
        pytest.importorskip("langchain_core")
        stores = pytest.importorskip("langchain_community.chat_message_histories")
        path = tmp_path / "chat.db"
        store = stores.SQLChatMessageHistory("ann", connection=f"sqlite:///{path}")
        for turn in range(4):
            said = turn_of(turn, langchain=True)
            said[2].content, said[1].tool_calls[0]["args"] = SECRET * 20, {"q": SECRET}
            store.add_messages(said)
        with sqlite3.connect(path) as other:
            other.execute(
                "create trigger full before update on message_store begin "
                "select raise(abort, 'database or disk is full'); end"
            )
        with pytest.raises(HistoryCuratorError, match="conversation 'ann'") as caught:
            prune_store(f"sqlite:///{path}", apply=True)
        assert quotes(caught.value) == []
        assert [one.text for one in store.messages if one.type == "tool"] == [SECRET * 20] * 4


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a SQLite file."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    yield
    connection.execute("ROLLBACK")
    connection.close()
