"""Whatever order things happen in, a database holds what the simple model says it must."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.stores.machine import Item, StoredConversation, Talk

pytestmark = pytest.mark.timeout(600)

DEFAULT = settings.default or settings()
RUN = settings(
    max_examples=max(10, DEFAULT.max_examples // 10),
    stateful_step_count=8,
    deadline=None,
    # What fails is small already; shrinking it through a database takes minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=DEFAULT.suppress_health_check,
)


class LangChainTalk(Talk):
    name = "langchain"

    def open(self) -> Any:
        from langchain_community.chat_message_histories import SQLChatMessageHistory
        from sqlalchemy import create_engine

        from langchain_history_curator import ChatHistoryBranches

        self.engine = create_engine(f"sqlite:///{self.path}")
        return ChatHistoryBranches(
            "ann",
            lambda key: SQLChatMessageHistory(key, connection=self.engine),
            max_tokens=2_000,
            retention=self.config,
        )

    def close(self) -> None:
        self.engine.dispose()

    def message(self, item: Item) -> Any:
        from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

        from langchain_history_curator import pin

        if item.kind == "user":
            made: Any = HumanMessage(item.text)
        elif item.kind == "result":
            made = ToolMessage(item.text, tool_call_id=item.calls[0], name="find")
        else:
            calls = [{"name": "find", "args": {"of": one}, "id": one} for one in item.calls]
            made = AIMessage(item.text, tool_calls=calls)
        return pin([made])[0] if item.pinned else made

    def add(self, message: Any) -> None:
        self.conversation.add_messages([message])

    def record(self, conversation: Any) -> list[Any]:
        found: list[Any] = conversation.record
        return found

    def item(self, message: Any) -> Item:
        pinned = bool(message.additional_kwargs.get("pinned"))
        if message.type == "human":
            return Item("user", message.text, pinned=pinned)
        if message.type == "tool":
            return Item("result", message.text, (message.tool_call_id,), pinned)
        calls = tuple(call["id"] for call in message.tool_calls)
        whole = all(call["args"] for call in message.tool_calls)
        return Item("call" if calls else "answer", message.text, calls, pinned, whole)

    def view(self) -> list[Any]:
        found: list[Any] = self.conversation.messages
        return found


class LlamaIndexTalk(Talk):
    name = "llamaindex"

    def open(self) -> Any:
        from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

        from llamaindex_history_curator import MemoryBranches

        uri = f"sqlite+aiosqlite:///{self.path}"
        self.store = SQLAlchemyChatStore(table_name="chat", async_database_uri=uri)
        return MemoryBranches("ann", self.store, token_limit=2_000, retention=self.config)

    def close(self) -> None:
        from llamaindex_history_curator.chat_store import loop_of

        engine = self.store._async_engine
        if engine is not None:
            loop_of(self.store).run(engine.dispose)

    def message(self, item: Item) -> Any:
        from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock

        extra: dict[str, Any] = {"pinned": True} if item.pinned else {}
        if item.kind == "user":
            return ChatMessage(item.text, additional_kwargs=extra)
        if item.kind == "result":
            extra = {**extra, "tool_call_id": item.calls[0], "name": "find"}
            return ChatMessage(item.text, role="tool", additional_kwargs=extra)
        blocks: list[Any] = [TextBlock(text=item.text)] if item.text else []
        blocks += [
            ToolCallBlock(tool_call_id=one, tool_name="find", tool_kwargs={"of": one})
            for one in item.calls
        ]
        return ChatMessage(role="assistant", blocks=blocks, additional_kwargs=extra)

    def add(self, message: Any) -> None:
        self.conversation.put(message)

    def record(self, conversation: Any) -> list[Any]:
        found: list[Any] = conversation.get_all()
        return found

    def item(self, message: Any) -> Item:
        pinned = bool(message.additional_kwargs.get("pinned"))
        text = message.content or ""
        if message.role.value == "user":
            return Item("user", text, pinned=pinned)
        if message.role.value == "tool":
            return Item("result", text, (message.additional_kwargs["tool_call_id"],), pinned)
        made = [block for block in message.blocks if block.block_type == "tool_call"]
        calls = tuple(call.tool_call_id for call in made)
        whole = all(call.tool_kwargs not in ({}, "{}") for call in made)
        return Item("call" if calls else "answer", text, calls, pinned, whole)

    def view(self) -> list[Any]:
        found: list[Any] = self.conversation.get()
        return found


TALKS = {"langchain": LangChainTalk, "llamaindex": LlamaIndexTalk}
NEEDS = {
    "langchain": "langchain_community.chat_message_histories",
    "llamaindex": "llama_index.core.storage.chat_store.sql",
}


@pytest.mark.parametrize(
    ("framework", "mode", "turns"),
    [
        ("langchain", "trimmed", 1),
        ("langchain", "none", 2),
        ("llamaindex", "trimmed", 2),
        ("llamaindex", "none", 1),
    ],
)
def test_any_order_of_events(framework: str, mode: str, turns: int) -> None:
    pytest.importorskip(NEEDS[framework])
    members: dict[str, Any] = {"talk_of": TALKS[framework], "mode": mode, "turns": turns}
    run_state_machine_as_test(type("Machine", (StoredConversation,), members), settings=RUN)
