"""What the databases hold of older turns' tool details, in both frameworks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from history_curator.config import RetentionConfig
from tests.stores.conversations import (
    Conversation,
    LangChainConversation,
    LlamaIndexConversation,
)
from tests.stores.servers import Server

pytestmark = [
    pytest.mark.timeout(240),
    # Drivers leave the sockets of a killed server to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

BULK = "row " * 400
Join = Callable[[], Conversation]


class Thread:
    """A conversation with tools and retention, over the store of another one.

    It is the only writer, so it may rewrite stores that cannot be edited in place.
    """

    def __init__(self, conversation: Conversation, retention: RetentionConfig) -> None:
        self.is_langchain = isinstance(conversation, LangChainConversation)
        if isinstance(conversation, LangChainConversation):
            from langchain_history_curator import CuratedChatMessageHistory

            self.adapter: Any = CuratedChatMessageHistory(
                conversation.history.store, max_tokens=20_000, retention=retention, rewrite=True
            )
        elif isinstance(conversation, LlamaIndexConversation):
            from llamaindex_history_curator import CuratedMemory

            self.adapter = CuratedMemory.from_defaults(
                chat_store=conversation.memory.chat_store,
                chat_store_key=conversation.memory.chat_store_key,
                token_limit=20_000,
                retention=retention,
                rewrite=True,
            )

    def turn(self, number: int) -> None:
        """Ask, call, return, answer."""
        if self.is_langchain:
            from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

            call = {"name": "find", "args": {"query": "x"}, "id": f"c{number}"}
            for message in (
                HumanMessage(f"question {number}"),
                AIMessage("", tool_calls=[call]),
                ToolMessage(BULK, tool_call_id=f"c{number}", name="find"),
                AIMessage(f"answer {number}"),
            ):
                self.adapter.add_messages([message])
            return
        from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock

        block = ToolCallBlock(
            tool_call_id=f"c{number}", tool_name="find", tool_kwargs={"query": "x"}
        )
        for said in (
            ChatMessage(f"question {number}"),
            ChatMessage(role="assistant", blocks=[block]),
            ChatMessage(
                role="tool",
                content=BULK,
                additional_kwargs={"tool_call_id": f"c{number}", "name": "find"},
            ),
            ChatMessage(role="assistant", content=f"answer {number}"),
        ):
            self.adapter.put(said)

    def stored(self) -> list[tuple[str, str]]:
        """Return (role, text) of everything a new reader finds."""
        if self.is_langchain:
            return [(message.type, str(message.content)) for message in self.adapter.record]
        return [
            (message.role.value, str(message.content or "")) for message in self.adapter.get_all()
        ]

    def shown(self) -> list[str]:
        """Return the texts of the view."""
        if self.is_langchain:
            return [str(message.content) for message in self.adapter.messages]
        return [str(message.content or "") for message in self.adapter.get()]


def fresh(join: Join) -> list[tuple[str, str]]:
    return Thread(join(), RetentionConfig()).stored()


@pytest.mark.parametrize("flag", [True, False, "trimmed"])
def test_config_flag_toggles_tool_persistence_of_older_rows(join: Join, flag: Any) -> None:
    thread = Thread(join(), RetentionConfig.from_dict({"persist_tool_invocations": flag}))
    for number in range(4):
        thread.turn(number)
    rows = fresh(join)
    results = [text for role, text in rows if role == "tool"]
    assert results[-2:] == [BULK, BULK]
    answers = [text for _, text in rows if text.startswith(("question", "answer"))]
    assert answers == [f"{what} {n}" for n in range(4) for what in ("question", "answer")]
    if flag is True:
        assert results == [BULK] * 4
    elif flag is False:
        assert len(results) == 2
        assert len(rows) == 12
    else:
        trimmed = [json.loads(text) for text in results[:2]]
        assert trimmed == [{"name": "find", "status": "success"}] * 2
        assert len(rows) == 16


def test_older_turns_are_shown_without_tools_and_context_shrinks(join: Join) -> None:
    thread = Thread(join(), RetentionConfig())
    sizes = []
    for number in range(5):
        thread.turn(number)
        sizes.append(sum(map(len, thread.shown())))
    assert thread.shown().count(BULK) == 2
    assert fresh(join)
    assert sizes[1] > 1.8 * sizes[0]
    assert all(size < 1.2 * sizes[1] for size in sizes[2:])


def test_outage_while_turns_grow_old(join: Join, server: Server) -> None:
    thread = Thread(join(), RetentionConfig(persist_tool_invocations="trimmed"))
    for number in range(2):
        thread.turn(number)
    server.kill()
    try:
        thread.turn(2)
        assert sum(text.startswith("question") for _, text in thread.stored()) == 3
    finally:
        server.restart()
    for _ in range(50):  # a pool may hold connections of the server that died
        thread.stored()
        if not thread.adapter.degraded:
            break
        time.sleep(0.1)
    else:
        pytest.fail("the store did not come back")
    thread.turn(3)
    thread.stored()
    rows = fresh(join)
    said = [text for _, text in rows if text.startswith(("question", "answer"))]
    assert said == [f"{what} {n}" for n in range(4) for what in ("question", "answer")]
    assert [text == BULK for role, text in rows if role == "tool"] == [False, False, True, True]
