"""The recall tool: an agent gets back what its view left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from history_curator.model import ConversationEntry
from history_curator.record.recall import (
    RECALL_DESCRIPTION,
    RECALL_TOOL_NAME,
    Recall,
    RecallRequest,
)
from history_curator.sockets import entries_of
from langchain_history_curator._dialect import DIALECT
from langchain_history_curator._handoff import with_transcripts
from langchain_history_curator._options import messages_of

Record = Sequence[Any] | Callable[[], Sequence[Any]] | Any

_NO_LANGGRAPH = (
    "A recall tool that reads the agent's own state needs langgraph. "
    "Fix: pip install 'history-curator[agents]', or pass the record: recall_tool(history)."
)


def recall_tool(
    record: Record | None = None,
    *,
    counter: Any = "o200k_base",
    max_tokens: int = 2_000,
    name: str = RECALL_TOOL_NAME,
) -> BaseTool:
    """Return a tool that answers from one conversation's record, and from nothing else.

    Args:
        record: a `CuratedChatMessageHistory` or any chat history, messages, or a callable that
            returns them. An async caller awaits a history that can be. Without a record the tool
            reads the messages of the agent it is called by.
        counter: an encoding, a model name or a `TokenCounter`.
        max_tokens: the most one answer may cost.
        name: what the model calls it, where a tool of yours is named ``recall`` already; views
            say so where the curator has ``recall=name``.

    Raises:
        ImportError: without a record, when langgraph is not installed.

    Examples:
        >>> from langchain_core.messages import HumanMessage
        >>> tool = recall_tool([HumanMessage("the code is 4711"), HumanMessage("and now?")])
        >>> "4711" in tool.invoke({"query": "code"})
        True
    """
    options = {"counter": counter, "max_tokens": max_tokens, "name": name}
    shown: dict[str, Any] = {
        "name": name,
        "description": RECALL_DESCRIPTION,
        "args_schema": RecallRequest,
    }
    if record is None:
        return StructuredTool.from_function(_own_state(options), **shown)
    answer = Recall(lambda: _read(record), arecord=lambda: _aread(record), **options)
    return StructuredTool.from_function(answer.__call__, answer.acall, **shown)


def _own_state(options: dict[str, Any]) -> Callable[..., str]:
    try:
        from langgraph.prebuilt import ToolRuntime
    except ImportError as error:
        raise ImportError(_NO_LANGGRAPH) from error

    def recall(
        runtime: Any, handle: str | None = None, lines: str | None = None, query: str | None = None
    ) -> str:
        answer = Recall(_entries(runtime.state), **options)
        return answer(handle=handle, lines=lines, query=query)

    # The agent finds what to inject by the annotation itself, not by its name.
    recall.__annotations__["runtime"] = ToolRuntime
    return recall


def _read(record: Record) -> list[ConversationEntry]:
    said = record() if callable(record) else record
    said = getattr(said, "record", said)
    return _entries(getattr(said, "messages", said))


async def _aread(record: Record) -> list[ConversationEntry]:
    said = record() if callable(record) else record
    if isawaitable(said):
        said = await said
    read = getattr(said, "aget_record", None) or getattr(said, "aget_messages", None)
    return _read(said) if read is None else _entries(await read())


def _entries(said: Any) -> list[ConversationEntry]:
    return entries_of(DIALECT, with_transcripts(messages_of(said)))
