"""The recall tool: an agent gets back what its view left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import isawaitable
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemory
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context

from history_curator.entries import ConversationEntry
from history_curator.record.recall import (
    RECALL_DESCRIPTION,
    RECALL_TOOL_NAME,
    Recall,
    RecallRequest,
)
from history_curator.integrations import entries_of
from llamaindex_history_curator._format import DIALECT
from llamaindex_history_curator._memory import CuratedMemory
from llamaindex_history_curator._react import observed
from llamaindex_history_curator._store import ChatStore

Record = BaseMemory | ChatStore | Sequence[ChatMessage] | Callable[[], Any]


def recall_tool(
    record: Record | None = None,
    *,
    chat_store_key: str = DEFAULT_CHAT_STORE_KEY,
    counter: Any = "o200k_base",
    max_tokens: int = 2_000,
    scratchpad_key: str = "scratchpad",
    reasoning_key: str = "current_reasoning",
    name: str = RECALL_TOOL_NAME,
) -> FunctionTool:
    """Return a tool that answers from one conversation's record, and from nothing else.

    Args:
        record: a memory, a chat store, messages, or a callable that returns them. An async caller
            awaits a memory or a store, on the loop it was opened on. Without a record the tool
            reads the run it is called in: its memory and the steps not yet in memory.
        chat_store_key: which conversation of a chat store.
        counter: an encoding, a model name or a `TokenCounter`.
        max_tokens: the most one answer may cost.
        scratchpad_key: where a `FunctionAgent` keeps its steps.
        reasoning_key: where a `ReActAgent` keeps its steps.
        name: what the model calls it, where a tool of yours is named ``recall_tool`` already; views
            say so where the curator has ``recall_tool=name``.

    Examples:
        >>> tool = recall_tool([ChatMessage("the code is 4711"), ChatMessage("and now?")])
        >>> "4711" in tool(query="code").content
        True
    """
    options = {"counter": counter, "max_tokens": max_tokens, "name": name}
    shown: dict[str, Any] = {
        "name": name,
        "description": RECALL_DESCRIPTION,
        "fn_schema": RecallRequest,
    }
    if record is not None:
        answer = _bound(record, chat_store_key, options)
        return FunctionTool.from_defaults(answer.__call__, async_fn=answer.acall, **shown)

    async def recall(
        ctx: Context, handle: str | None = None, lines: str | None = None, query: str | None = None
    ) -> str:
        memory: BaseMemory = await ctx.store.get("memory")
        said = [*await _everything(memory), *await ctx.store.get(scratchpad_key, default=[])]
        said += observed(await ctx.store.get(reasoning_key, default=[]))
        return await Recall(_entries(said), **options).acall(handle, lines, query)

    # LlamaIndex finds the parameter that wants the context by its type, not by the type's name.
    recall.__annotations__["ctx"] = Context
    return FunctionTool.from_defaults(async_fn=recall, **shown)


def _bound(record: Record, key: str, options: dict[str, Any]) -> Recall:
    if isinstance(record, (BaseChatStore, AsyncDBChatStore)):
        record = CuratedMemory(chat_store=record, chat_store_key=key)
    read: Callable[[], Any] = record if callable(record) else lambda: record
    aread = read
    if isinstance(record, BaseMemory):
        read, aread = record.get_all, record.aget_all

    async def arecord() -> list[ConversationEntry]:
        said = aread()
        return _entries(await said if isawaitable(said) else said)

    return Recall(lambda: _entries(read()), arecord=arecord, **options)


def _entries(said: Iterable[ChatMessage]) -> list[ConversationEntry]:
    return entries_of(DIALECT, said)


async def _everything(memory: BaseMemory) -> list[ChatMessage]:
    """The record, and whatever stands in the memory's view in another form.

    An agent curates the view of its memory, so a handle may name a shortened form; that form
    names the handle of the original in turn.
    """
    record = await memory.aget_all()
    view = await memory.aget()
    known = {(message.role, message.content) for message in record}
    return [*record, *(item for item in view if (item.role, item.content) not in known)]
