"""Shadow mode: the store is given what is said, and nothing else happens to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from history_curator.config import RetentionConfig

KEEP = RetentionConfig(persist_tool_invocations="none", preserve_turns=1)


class Watched:
    """Notes every call that would write."""

    def __init__(self) -> None:
        self.writes: list[str] = []

    def on(self, target: Any, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        for name in names:
            original = getattr(target, name)

            def noting(*args: Any, _name: str = name, _call: Any = original, **more: Any) -> Any:
                self.writes.append(_name)
                return _call(*args, **more)

            monkeypatch.setattr(target, name, noting)


def langchain_turn(number: int) -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    call = {"name": "find", "args": {"q": number}, "id": f"c{number}"}
    return [
        HumanMessage(f"question {number}"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("row " * 200, tool_call_id=f"c{number}"),
        AIMessage(f"answer {number}"),
    ]


def sqlite_history(tmp_path: Any) -> Any:
    stores = pytest.importorskip("langchain_community.chat_message_histories")
    return stores.SQLChatMessageHistory("ann", connection=f"sqlite:///{tmp_path / 'chat.db'}")


def memory_history(tmp_path: Any) -> Any:
    core = pytest.importorskip("langchain_core.chat_history")
    return core.InMemoryChatMessageHistory()


@pytest.mark.parametrize("make", [sqlite_history, memory_history])
@pytest.mark.parametrize("rewrite", [False, True])
def test_langchain(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, make: Callable[[Any], Any], rewrite: bool
) -> None:
    from langchain_history_curator import CuratedChatMessageHistory, _history

    store = make(tmp_path)
    history = CuratedChatMessageHistory(
        store, max_tokens=300, retention=KEEP, rewrite=rewrite, mode="shadow"
    )
    watched = Watched()
    watched.on(_history, monkeypatch, "prune_connection")
    monkeypatch.setattr(type(store), "clear", lambda _: watched.writes.append("clear"))
    said = [message for number in range(4) for message in langchain_turn(number)]
    for message in said:
        history.add_messages([message])
        assert history.messages == history.record
    assert watched.writes == []
    assert store.messages == said  # without ids of ours
    assert history.messages == said
    assert history.curate().report.tokens <= 300 < history.curate().tokens


async def test_llamaindex(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    types = pytest.importorskip("llama_index.core.base.llms.types")
    sql = pytest.importorskip("llama_index.core.storage.chat_store.sql")
    simple = pytest.importorskip("llama_index.core.storage.chat_store")
    from llamaindex_history_curator import CuratedMemory, _store

    for number, store in enumerate(
        (
            sql.SQLAlchemyChatStore(
                table_name="chat", async_database_uri=f"sqlite+aiosqlite:///{tmp_path / 'l.db'}"
            ),
            simple.SimpleChatStore(),
        )
    ):
        memory = CuratedMemory.from_defaults(
            chat_store=store, token_limit=300, retention=KEEP, rewrite=True, mode="shadow"
        )
        watched = Watched()
        watched.on(_store, monkeypatch, "prune_connection")
        for name in ("set_messages", "delete_messages"):
            monkeypatch.setattr(
                type(store), name, lambda *_, name=name, to=watched, **__: to.writes.append(name)
            )
        said = []
        for turn in range(4):
            call = types.ToolCallBlock(
                tool_call_id=f"c{turn}", tool_name="find", tool_kwargs={"q": turn}
            )
            answer = {"tool_call_id": f"c{turn}"}
            said += [
                types.ChatMessage(f"question {turn}"),
                types.ChatMessage(role="assistant", blocks=[call]),
                types.ChatMessage(role="tool", content="row " * 200, additional_kwargs=answer),
                types.ChatMessage(role="assistant", content=f"answer {turn}"),
            ]
        for message in said:
            await memory.aput(message)
            assert await memory.aget() == await memory.aget_all()
        assert watched.writes == [], number
        assert await memory.aget_all() == said
        if number == 0:
            assert await store.get_messages(memory.chat_store_key) == said
        monkeypatch.undo()
