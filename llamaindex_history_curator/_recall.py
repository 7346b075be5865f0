"""The recall tool: an agent gets back what its view left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context

from history_curator.model import ConversationEntry
from history_curator.record.recall import (
    RECALL_DESCRIPTION,
    RECALL_TOOL_NAME,
    Recall,
    RecallRequest,
)
from history_curator.sockets import entries_of
from llamaindex_history_curator._dialect import LlamaIndexDialect
from llamaindex_history_curator._react import observed

__all__ = ["recall_tool"]

Record = BaseMemory | Sequence[ChatMessage] | Callable[[], Sequence[ChatMessage]]

_DIALECT = LlamaIndexDialect()


def recall_tool(
    record: Record | None = None,
    *,
    counter: Any = "o200k_base",
    max_tokens: int = 2_000,
    scratchpad_key: str = "scratchpad",
    reasoning_key: str = "current_reasoning",
    name: str = RECALL_TOOL_NAME,
) -> FunctionTool:
    """Return a tool that answers from one conversation's record, and from nothing else.

    Args:
        record: a memory, messages, or a callable that returns them. Without one the tool reads
            the run it is called in: its memory and the steps not yet in memory.
        counter: an encoding, a model name or a `TokenCounter`.
        max_tokens: the most one answer may cost.
        scratchpad_key: where a `FunctionAgent` keeps its steps.
        reasoning_key: where a `ReActAgent` keeps its steps.
        name: what the model calls it, where a tool of yours is named ``recall`` already; views
            say so where the curator has ``recall=name``.

    Example:
        >>> tool = recall_tool([ChatMessage("the code is 4711"), ChatMessage("and now?")])
        >>> "4711" in tool(query="code").content
        True
    """
    if record is not None:
        return _bound_tool(record, counter, max_tokens, name)

    async def recall(
        ctx: Context, handle: str | None = None, lines: str | None = None, query: str | None = None
    ) -> str:
        memory: BaseMemory = await ctx.store.get("memory")
        said = [*await _everything(memory), *await ctx.store.get(scratchpad_key, default=[])]
        said += observed(await ctx.store.get(reasoning_key, default=[]))
        answer = Recall(
            entries_of(_DIALECT, said), counter=counter, max_tokens=max_tokens, name=name
        )
        return answer(handle=handle, lines=lines, query=query)

    # LlamaIndex finds the parameter that wants the context by its type, not by the type's name.
    recall.__annotations__["ctx"] = Context
    return FunctionTool.from_defaults(
        async_fn=recall,
        name=name,
        description=RECALL_DESCRIPTION,
        fn_schema=RecallRequest,
    )


def _bound_tool(record: Record, counter: Any, max_tokens: int, name: str) -> FunctionTool:
    def read() -> list[ConversationEntry]:
        if isinstance(record, BaseMemory):
            return entries_of(_DIALECT, record.get_all())
        return entries_of(_DIALECT, record() if callable(record) else record)

    answer = Recall(read, counter=counter, max_tokens=max_tokens, name=name)

    def recall(
        handle: str | None = None, lines: str | None = None, query: str | None = None
    ) -> str:
        return answer(handle=handle, lines=lines, query=query)

    return FunctionTool.from_defaults(
        fn=recall,
        name=name,
        description=RECALL_DESCRIPTION,
        fn_schema=RecallRequest,
    )


async def _everything(memory: BaseMemory) -> list[ChatMessage]:
    """The record, and whatever stands in the memory's view in another form.

    An agent curates the view of its memory, so a handle may name a shortened form; that form
    names the handle of the original in turn.
    """
    record = await memory.aget_all()
    view = await memory.aget()
    known = {(message.role, message.content) for message in record}
    return [*record, *(item for item in view if (item.role, item.content) not in known)]
