"""An agent gets back what its view left out, and what its sub-agents said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from typing_extensions import Unpack

from history_curator.entries import (
    RECALL_TOOL_NAME,
    ConversationEntry,
    neutralise,
    recall_hint,
    span_handle,
)
from history_curator.record.recall import RECALL_DESCRIPTION, Recall, RecallRequest
from history_curator.config import SharedOptions
from history_curator.integrations import entries_of
from langchain_history_curator._format import DIALECT
from langchain_history_curator._options import build_curator, messages_of

Record = Sequence[Any] | Callable[[], Sequence[Any]] | Any
Calls = tuple[Callable[..., str], Callable[..., Any] | None]
"""What a tool calls, in its sync and its async form."""

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
        name: what the model calls it, where a tool of yours is named ``recall_tool`` already; views
            say so where the curator has ``recall_tool=name``.

    Raises:
        ImportError: without a record, when langgraph is not installed.

    Examples:
        >>> from langchain_core.messages import HumanMessage
        >>> tool = recall_tool([HumanMessage("the code is 4711"), HumanMessage("and now?")])
        >>> "4711" in tool.invoke({"query": "code"})
        True
    """
    options = {"counter": counter, "max_tokens": max_tokens, "name": name}
    call, acall = _own_state(options) if record is None else _bound(record, options)
    return StructuredTool.from_function(
        call, acall, name=name, description=RECALL_DESCRIPTION, args_schema=RecallRequest
    )


def _bound(record: Record, options: dict[str, Any]) -> Calls:
    answer = Recall(lambda: _read(record), arecord=lambda: _aread(record), **options)
    return answer.__call__, answer.acall


def _own_state(options: dict[str, Any]) -> Calls:
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
    return recall, None


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
    return entries_of(DIALECT, _with_transcripts(messages_of(said)))


# Hand-offs between agents: a sealed view on the way out, one handle on the way back.

_TRANSCRIPT = "history_curator_transcript"
"""Under which an artifact holds what another agent said."""


def handoff_view(
    conversation: Any,
    task: str | None = None,
    *managers: Any,
    max_tokens: int | None = None,
    **options: Unpack[SharedOptions],
) -> list[BaseMessage]:
    """Return what a sub-agent starts from: a view of the conversation, ready to be sent.

    The call that hands over has no result yet and is left out, and so is the system message: the
    sub-agent has its own. The view ends on the task, or on the user's latest question.

    Args:
        conversation: messages, or a state with ``messages``.
        task: what the sub-agent is asked to do.
        managers: applied in order; none is the budget alone.
        max_tokens: the budget of the view.
        options: the other settings of `Curator`.

    Examples:
        >>> said = [HumanMessage("Book me a flight."), AIMessage("Where to?"), HumanMessage("Oslo")]
        >>> [message.text for message in handoff_view(said, "Find flights.", max_tokens=500)]
        ['Book me a flight.', 'Where to?', 'Oslo', 'Find flights.']
    """
    said = [m for m in messages_of(conversation) if not isinstance(m, SystemMessage)]
    answered = {m.tool_call_id for m in said if isinstance(m, ToolMessage)}
    for place in range(len(said) - 1, -1, -1):
        message = said[place]
        if isinstance(message, AIMessage) and message.tool_calls:
            if any(call["id"] not in answered for call in message.tool_calls):
                said = said[:place]
            break
    if task is not None:
        said.append(HumanMessage(task))
    curator = build_curator(managers, max_tokens, options, name="handoff", owner="handoff_view")
    return curator.curate(said, format=DIALECT).messages


def fold_back(
    transcript: Sequence[BaseMessage],
    tool_call_id: str,
    *,
    name: str | None = None,
    recall: str = RECALL_TOOL_NAME,
) -> ToolMessage:
    """Return the result of a hand-off: the sub-agent's answer, and a handle for all it did.

    The transcript travels as the message's artifact: it is stored with the conversation, never
    sent to a model, and `recall_tool` returns it by the handle, whole or by lines.

    Args:
        transcript: every message of the sub-agent's run.
        tool_call_id: the call that handed over.
        name: the tool that handed over.
        recall_tool: what the recall tool is called.

    Examples:
        >>> result = fold_back([HumanMessage("Find flights."), AIMessage("Two: 9:00, 17:00.")], "c")
        >>> result.text.splitlines()[0]
        'Two: 9:00, 17:00.'
    """
    said = [message for message in transcript if not isinstance(message, SystemMessage)]
    answer = next((m.text for m in reversed(said) if isinstance(m, AIMessage) and m.text), "Done.")
    answer = neutralise(answer)
    if not said:
        return ToolMessage(answer, tool_call_id=tool_call_id, name=name)
    handle = span_handle(entries_of(DIALECT, said))
    note = f"[how it was done, {len(said)} messages: {recall_hint(handle, recall)}]"
    return ToolMessage(
        f"{answer}\n{note}", tool_call_id=tool_call_id, name=name, artifact={_TRANSCRIPT: said}
    )


def _with_transcripts(messages: Sequence[Any]) -> list[Any]:
    """The messages, and after them what other agents said in the hand-offs among them."""
    out = list(messages)
    for message in messages:
        artifact = getattr(message, "artifact", None)
        if isinstance(artifact, dict) and isinstance(artifact.get(_TRANSCRIPT), list):
            out += _with_transcripts(artifact[_TRANSCRIPT])
    return out
