"""`ConversationRunner`: the small loop between a model and its tools, with no framework."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable, iscoroutine
from typing import Any, Literal, NamedTuple
from uuid import UUID, uuid4

from history_curator.curator import Curator
from history_curator.entries import ConversationEntry, ToolCall
from history_curator.errors import ConfigurationError, ConversionError, a_type
from history_curator.formats import parse_json, provider_message_to_entry
from history_curator.managers import HistoryManager
from history_curator.record.session import HistorySession, get_evaluation_history
from history_curator.run_steps import Call, Steps, run_async, run_sync

_FIELDS = ("role", "content", "tool_calls", "name", "refusal", "reasoning_content")


class Outcome(NamedTuple):
    """The text of a tool result, and whether the tool failed."""

    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class RunResult:
    """The end of a run.

    Its `content` is the final answer's text, or None when the run stopped at its limit; `messages`
    is the whole conversation, `entries` what this run recorded.
    """

    content: str | None
    messages: list[Any]
    entries: tuple[ConversationEntry, ...]
    steps: int
    stopped: Literal["answer", "max_steps"]


@dataclass
class ConversationRunner:
    """Calls a model, runs the tools it asks for, and repeats until it answers.

    The session records everything, and the model is sent the history manager's view of it. A tool
    that fails, is unknown or gets malformed arguments produces an error result the model can react
    to; it never ends the run.

    Args:
        call_provider: takes messages and tool schemas, returns the assistant message: a dict, or
            a response object of the OpenAI or Anthropic client. May be async, for `arun`.
        tools: name to callable; called with the arguments as keywords. May be async, for `arun`.
        tool_specs: the schemas sent along, in the provider's format.
        history_manager: a `Curator`, or a manager to put in one; None sends everything.
        session: where to record; a new one by default.
        max_steps: the most model calls of one run.

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
        evaluation = uuid4()
        conversation = list(self.session.messages)
        added = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        if added:
            self.session.record(added, evaluation_id=evaluation)
        conversation.extend(added)
        for step in range(1, self.max_steps + 1):
            view = list(conversation)
            if self._curator is not None:
                curate, acurate = self._curator.curate, self._curator.acurate
                options = {"tools": self.tool_specs, "session": self.session}
                view = (yield Call(curate, acurate, (conversation,), options)).messages
            response = yield Call(self._ask, self.call_provider, (view, self.tool_specs))
            message = assistant_message(response)
            conversation.append(message)
            answer = self.session.append(message, evaluation_id=evaluation)
            calls = answer.tool_calls
            if not calls:
                recorded = get_evaluation_history(self.session, evaluation)
                return RunResult(answer.content, conversation, recorded, step, "answer")
            outcomes = yield Call(self._use_tools, self._ause_tools, (calls,))
            results = result_messages(message, calls, outcomes)
            conversation.extend(results)
            self._record_results(results, outcomes, evaluation)
        recorded = get_evaluation_history(self.session, evaluation)
        return RunResult(None, conversation, recorded, self.max_steps, "max_steps")

    def _record_results(
        self, results: Sequence[Any], outcomes: Sequence[Outcome], evaluation: UUID
    ) -> None:
        if len(results) != len(outcomes):  # blocks of one message say themselves what failed
            self.session.record(results, evaluation_id=evaluation)
            return
        pairs = zip(map(provider_message_to_entry, results), outcomes, strict=True)
        entries = [
            replace(entry, status="error" if outcome.failed else "success")
            for entry, outcome in pairs
        ]
        self.session.record(entries, evaluation_id=evaluation)

    def _ask(self, *arguments: Any) -> Any:
        return _require_sync(self.call_provider(*arguments), "call_provider")

    def _use_tools(self, calls: Sequence[ToolCall]) -> list[Outcome]:
        return list(map(self._use_tool, calls))

    def _use_tool(self, call: ToolCall) -> Outcome:
        try:
            returned = self._invoke(call)
        except Exception as error:  # noqa: BLE001 - the model is told, the run goes on
            return _describe_failure(error)
        return _read_result(_require_sync(returned, f"tools[{call.name!r}]"))

    async def _ause_tools(self, calls: Sequence[ToolCall]) -> list[Outcome]:
        return await asyncio.gather(*map(self._ause_tool, calls))

    async def _ause_tool(self, call: ToolCall) -> Outcome:
        try:
            returned = self._invoke(call)
            return _read_result(await returned if isawaitable(returned) else returned)
        except Exception as error:  # noqa: BLE001 - the model is told, the run goes on
            return _describe_failure(error)

    def _invoke(self, call: ToolCall) -> Any:
        tool = self.tools.get(call.name)
        if tool is None:
            known = ", ".join(self.tools) or "none"
            raise LookupError(f"unknown tool {call.name!r}; available: {known}")
        try:
            arguments = parse_json(call.arguments or "{}")
        except ValueError as error:
            raise ValueError(f"arguments are not JSON ({error})") from error
        if not isinstance(arguments, dict):
            raise TypeError("arguments must be a JSON object")
        return tool(**arguments)


def assistant_message(response: Any) -> dict[str, Any]:
    """Return the assistant message: of a dict, or of a response of OpenAI's or Anthropic's client."""
    data = _as_plain(response)
    if isinstance(data, str):
        return {"role": "assistant", "content": data}
    if isinstance(data, Mapping) and data.get("choices"):
        data = _as_plain(data["choices"][0])
        data = _as_plain(data.get("message")) if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or data.get("role") != "assistant":
        raise ConversionError(
            f"call_provider returned {a_type(response)} without an assistant message.",
            fix="return the assistant message as a dict, or the client's response.",
        )
    if "stop_reason" in data:  # a whole Anthropic response, not only its message
        return {"role": "assistant", "content": data.get("content")}
    if isinstance(response, dict) and data is response:
        return response
    always = ("role", "content")
    return {name: data[name] for name in _FIELDS if name in data and (data[name] or name in always)}


def result_messages(
    message: Mapping[str, Any], calls: Sequence[ToolCall], outcomes: Sequence[Outcome]
) -> list[dict[str, Any]]:
    """Return tool results as messages: one each, or one of blocks for a call in blocks."""
    content = message.get("content")
    has_blocks = isinstance(content, list) and any(
        isinstance(block, Mapping) and block.get("type") == "tool_use" for block in content
    )
    results: list[dict[str, Any]] = []
    for call, outcome in zip(calls, outcomes, strict=True):
        if has_blocks:
            block = {"type": "tool_result", "tool_use_id": call.id, "content": outcome.text}
            results.append({**block, "is_error": True} if outcome.failed else block)
        else:
            result = {"role": "tool", "tool_call_id": call.id, "name": call.name}
            results.append({**result, "content": outcome.text})
    return [{"role": "user", "content": results}] if has_blocks else results


def _as_plain(value: Any) -> Any:
    """Return a client's object as dicts and lists."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(exclude_none=True)
    if isinstance(value, list):
        return list(map(_as_plain, value))
    if isinstance(value, Mapping) or not hasattr(value, "__dict__"):
        return value
    return {name: _as_plain(item) for name, item in vars(value).items()}


def _read_result(returned: Any) -> Outcome:
    is_text = isinstance(returned, str)
    return Outcome(returned if is_text else json.dumps(returned, ensure_ascii=False, default=str))


def _describe_failure(error: Exception) -> Outcome:
    return Outcome(f"Error: {type(error).__name__}: {error}", failed=True)


def _require_sync(returned: Any, name: str) -> Any:
    if isawaitable(returned):
        if iscoroutine(returned):
            returned.close()
        raise ConfigurationError(f"{name} is async. Fix: use `await runner.arun(…)`.")
    return returned
