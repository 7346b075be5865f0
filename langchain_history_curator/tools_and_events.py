"""The recall tool, hand-offs, and the events of a curation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

from langchain_core.callbacks import dispatch_custom_event
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables.config import ensure_config, var_child_runnable_config
from langchain_core.tools import BaseTool, StructuredTool

from history_curator.curator import Curation
from history_curator.entries import RECALL_TOOL_NAME, ConversationEntry, recall_hint, span_handle
from history_curator.errors import ConfigurationError
from history_curator.events import HistoryCurated
from history_curator.formats import read_entries
from history_curator.managers import keeping_summaries
from history_curator.record.recall import RECALL_DESCRIPTION, Recall, RecallRequest
from langchain_history_curator.messages import FORMAT
from langchain_history_curator.models import build_curator, messages_of, schemas_of

_TRANSCRIPT = "history_curator_transcript"  # the key of another agent's messages in an artifact


def recall_tool(
    record: Sequence[Any] | Callable[[], Any] | Any | None = None,
    *,
    counter: Any = "o200k_base",
    max_tokens: int = 2_000,
    name: str = RECALL_TOOL_NAME,
) -> BaseTool:
    """Return a tool that answers from one conversation's record and from no other.

    `record` is a `CuratedChatMessageHistory` or any chat history, messages, or a callable that returns
    them. Without one the tool reads the messages of the agent it is called by, which needs langgraph.
    One answer costs at most `max_tokens`.
    """
    options: dict[str, Any] = {"counter": counter, "max_tokens": max_tokens, "name": name}
    shown: Any = {"name": name, "description": RECALL_DESCRIPTION, "args_schema": RecallRequest}
    if record is None:
        try:
            from langgraph.prebuilt import ToolRuntime
        except ImportError as error:
            fix = "pip install 'history-curator[agents]', or pass the record: recall_tool(history)"
            problem = "A recall tool that reads the agent's own state needs langgraph"
            raise ImportError(f"{problem}. Fix: {fix}.") from error

        def recall_own(runtime: Any, **asked: str | None) -> str:
            return Recall(_read_entries(runtime.state), **options)(**asked)

        # The agent finds the argument to inject by the annotation itself, not by its name.
        recall_own.__annotations__["runtime"] = ToolRuntime
        return StructuredTool.from_function(recall_own, **shown)

    def read() -> list[ConversationEntry]:
        given = record() if callable(record) else record
        return _read_entries(getattr(given, "record", given))

    async def aread() -> list[ConversationEntry]:
        given = record() if callable(record) else record
        aget = getattr(given, "aget_record", None) or getattr(given, "aget_messages", None)
        return read() if aget is None else _read_entries(await aget())

    recall = Recall(read, arecord=aread, **options)
    return StructuredTool.from_function(recall.__call__, recall.acall, **shown)


def _read_entries(given: Any) -> list[ConversationEntry]:
    """Return messages as entries, and after them those of the hand-offs among them."""
    messages = messages_of(given)
    entries = read_entries(messages, FORMAT)
    for message in messages:
        artifact = getattr(message, "artifact", None)
        if isinstance(artifact, dict) and isinstance(artifact.get(_TRANSCRIPT), list):
            entries += _read_entries(artifact[_TRANSCRIPT])
    return entries


def handoff_view(
    conversation: Any,
    task: str | None = None,
    *managers: Any,
    mode: Literal["fork", "fresh"] = "fresh",
    max_tokens: int | None = None,
    tools: Sequence[Any] | None = None,
    **options: Any,
) -> list[BaseMessage]:
    """Return a view of the conversation for a sub-agent to start from, ready to be sent.

    The call that hands over is left out. The view ends on the `task`, or on the latest question. A
    ``fresh`` start leaves the system message out, for a sub-agent that has its own. A ``fork`` begins
    with exactly what the parent sent, so that the provider's cache holds: pass the parent's `tools`
    and settings, which are those of `Curator`.
    """
    if mode not in ("fork", "fresh"):
        raise ConfigurationError(f"handoff_view: mode is {mode!r}. Fix: 'fork' or 'fresh'.")
    said = messages_of(conversation)
    if mode == "fresh":
        said = _without_system(said)
    answered = {m.tool_call_id for m in said if isinstance(m, ToolMessage)}
    calling = [n for n, m in enumerate(said) if isinstance(m, AIMessage) and m.tool_calls]
    if calling and any(call["id"] not in answered for call in said[calling[-1]].tool_calls):
        said = said[: calling[-1]]
    if task is not None:
        said = [*said, HumanMessage(task)]
    settings = {**options, "max_tokens": max_tokens, "name": "handoff"}
    curator = build_curator("handoff_view", managers, settings)
    return curator.curate(said, tools=schemas_of(tools), format=FORMAT).messages


def _without_system(messages: Sequence[Any]) -> list[Any]:
    return [message for message in messages if not isinstance(message, SystemMessage)]


def fold_back(
    transcript: Sequence[BaseMessage],
    tool_call_id: str,
    *,
    name: str | None = None,
    recall_tool: str = RECALL_TOOL_NAME,
) -> ToolMessage:
    """Return the result of a hand-off: the sub-agent's answer, and a handle for all it did.

    `tool_call_id` and `name` are of the call that handed over. The transcript travels as the message's
    artifact: it is never sent to a model, and `recall_tool` returns it by the handle.
    """
    said = _without_system(transcript)
    answer = next((m.text for m in reversed(said) if isinstance(m, AIMessage) and m.text), "Done.")
    if not said:
        return ToolMessage(answer, tool_call_id=tool_call_id, name=name)
    hint = recall_hint(span_handle(read_entries(said, FORMAT)), recall_tool)
    text = f"{answer}\n[how it was done, {len(said)} messages: {hint}]"
    return ToolMessage(text, tool_call_id=tool_call_id, name=name, artifact={_TRANSCRIPT: said})


EVENT_NAME = "history_curated"
"""The name of the custom event that each curation is inside a run."""


def announce(curation: Curation, name: str, writer: Any, callbacks: Any = None) -> None:
    """Send an event to a graph's custom stream, if there is one, and to the run with its callbacks."""
    if writer is None and callbacks is not None and not callbacks.handlers:
        return
    event = {"event": EVENT_NAME, **HistoryCurated.of(curation.report, prompt_name=name).to_dict()}
    with suppress(Exception):  # a broken writer never breaks the run
        if writer is not None:
            writer(event)
    with suppress(RuntimeError):  # outside of a run
        config: Any = None if callbacks is None else {"callbacks": callbacks}
        dispatch_custom_event(EVENT_NAME, event, config=config)


def graph_writer() -> Callable[[Any], None] | None:
    """Return the custom stream of the graph that is running; None outside of one."""
    with suppress(Exception):
        return sys.modules["langgraph.config"].get_stream_writer()  # type: ignore[no-any-return]
    return None


@contextmanager
def hide_from_stream(cache: MutableMapping[str, str] | None = None, **marks: Any) -> Iterator[None]:
    """Mark models called inside as a manager's own, not to be streamed; `cache` has its summaries."""
    outer = ensure_config()
    marks = {**(outer.get("metadata") or {}), "lc_source": "summarization", **marks}
    inner = {**outer, "tags": [*(outer.get("tags") or ()), "nostream"], "metadata": marks}
    token = var_child_runnable_config.set(inner)  # type: ignore[arg-type]
    try:
        with keeping_summaries(cache):
            yield
    finally:
        with suppress(ValueError):  # the body went on in another context
            var_child_runnable_config.reset(token)
