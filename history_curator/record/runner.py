"""`ConversationRunner`: the small loop between a model and its tools, with no framework."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable, iscoroutine
from typing import Any, Literal
from uuid import UUID, uuid4

from history_curator.curator import Curator
from history_curator.entries import ConversationEntry, MessageRole, ToolCall
from history_curator.errors import ConfigurationError, ConversionError, a_type
from history_curator.formats import parse_json
from history_curator.managers import HistoryManager
from history_curator.record.session import HistorySession, get_evaluation_history
from history_curator.run_steps import Call, Steps, run_async, run_sync


@dataclass(frozen=True, slots=True)
class RunResult:
    """The final answer, None at the step limit; the whole conversation; what this run recorded."""

    content: str | None
    messages: list[Any]
    entries: tuple[ConversationEntry, ...]
    steps: int
    stopped: Literal["answer", "max_steps"]


@dataclass
class ConversationRunner:
    """Calls a model, runs the tools it asks for, and repeats until it answers.

    The session records everything, and the model is sent the history manager's view of it. A tool
    that fails, is unknown or gets malformed arguments gives the model an error result.

    Args:
        call_provider: takes messages and tool schemas, returns the assistant message as a dict.
        tools: by name; called with the arguments as keywords. For `arun` both may be async.
        tool_specs: the schemas sent along, in the provider's format.
        history_manager: a `Curator`, or a manager to put in one; None sends everything.
        evaluation_id: names the entries of the first run; each later run gets a new one.

    Examples:
        >>> def call_provider(messages, tools):
        ...     return {"role": "assistant", "content": f"You said: {messages[-1]['content']}"}
        >>> runner = ConversationRunner(call_provider)
        >>> runner.run("hello").content
        'You said: hello'
        >>> len(runner.session)
        2
    """

    call_provider: Callable[[list[Any], Sequence[Mapping[str, Any]] | None], Any]
    tools: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    tool_specs: Sequence[Mapping[str, Any]] | None = None
    history_manager: Curator | HistoryManager | None = None
    session: HistorySession = field(default_factory=HistorySession)
    max_steps: int = 20
    evaluation_id: UUID = field(default_factory=uuid4)

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise ConfigurationError(f"max_steps is {self.max_steps!r}. Fix: 1 or more.")
        manager = self.history_manager
        if not (manager is None or isinstance(manager, Curator)):
            manager = Curator(manager, bus=self.session.bus)
        self._curator = manager

    def run(self, messages: str | Sequence[Any]) -> RunResult:
        """Continue the conversation with a user's text or with messages, until the model answers."""
        return run_sync(self._run_steps(messages))

    async def arun(self, messages: str | Sequence[Any]) -> RunResult:
        """Continue the conversation, awaiting what is async; parallel calls run side by side."""
        return await run_async(self._run_steps(messages))

    def _run_steps(self, given: str | Sequence[Any]) -> Steps[RunResult]:
        if get_evaluation_history(self.session, self.evaluation_id):
            self.evaluation_id = uuid4()
        record = partial(self.session.record, evaluation_id=self.evaluation_id)
        record([{"role": "user", "content": given}] if isinstance(given, str) else given)
        stopped: Literal["answer", "max_steps"] = "max_steps"
        steps = 0
        while steps < self.max_steps and stopped != "answer":
            steps += 1
            view = self.session.messages
            if (curator := self._curator) is not None:
                options = {"tools": self.tool_specs, "session": self.session}
                view = (yield Call(curator.curate, curator.acurate, (view,), options)).messages
            response = yield _call_either_way(self.call_provider, view, self.tool_specs)
            (answer,) = record([_check_answer(response)])
            if answer.tool_calls:
                record((yield Call(self._use_tools, self._ause_tools, (answer.tool_calls,))))
            else:
                stopped = "answer"
        content = answer.content if stopped == "answer" else None
        recorded = get_evaluation_history(self.session, self.evaluation_id)
        return RunResult(content, self.session.messages, recorded, steps, stopped)

    def _use_tools(self, calls: Sequence[ToolCall]) -> list[ConversationEntry]:
        return [run_sync(self._use_tool(call)) for call in calls]

    async def _ause_tools(self, calls: Sequence[ToolCall]) -> list[ConversationEntry]:
        return await asyncio.gather(*(run_async(self._use_tool(call)) for call in calls))

    def _use_tool(self, call: ToolCall) -> Steps[ConversationEntry]:
        status: Literal["success", "error"] = "success"
        try:
            if call.name not in self.tools:
                known = ", ".join(self.tools) or "none"
                raise LookupError(f"unknown tool {call.name!r}; available: {known}")
            arguments = parse_json(call.arguments or "{}")
            text = yield _call_either_way(self.tools[call.name], **arguments)
            if not isinstance(text, str):
                text = json.dumps(text, ensure_ascii=False, default=str)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - the model is told, the run goes on
            text, status = f"Error: {type(error).__name__}: {error}", "error"
        return ConversationEntry(
            MessageRole.TOOL, text, tool_call_id=call.id, tool_name=call.name, status=status
        )


def _call_either_way(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Call:
    """Return a call that sync code makes as well, unless the function turns out to be async."""

    def call_sync(*args: Any, **kwargs: Any) -> Any:
        returned = function(*args, **kwargs)
        if iscoroutine(returned):
            returned.close()
        if isawaitable(returned):
            name = getattr(function, "__name__", "a function")
            raise ConfigurationError(f"{name} is async. Fix: use `await runner.arun(…)`.")
        return returned

    return Call(call_sync, function, args, kwargs)


def _check_answer(response: Any) -> Mapping[str, Any]:
    if not isinstance(response, Mapping) or response.get("role") != "assistant":
        problem = f"call_provider returned {a_type(response)}, which is no assistant message."
        fix = 'return {"role": "assistant", "content": …}, such as a client\'s '
        fix += "response.choices[0].message.model_dump(exclude_none=True)."
        raise ConversionError(problem, fix=fix)
    return response
