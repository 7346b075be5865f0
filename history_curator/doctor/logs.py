"""Read logs of Claude Code, LangSmith, OpenTelemetry, and plain JSON lines of requests.

LangSmith runs and OpenTelemetry spans are turned into plain requests; see docs/howto/doctor.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from history_curator.errors import ConversionError
from history_curator.formats import parse_json
from history_curator.lab.conversations import read_text
from history_curator.tokens import Usage, parse_time, read_usage

_SPACE = re.compile(r"\s*")
_LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "aimessagechunk": "assistant"}
_MODEL_OPERATIONS = ("chat", "generate_content", "text_completion")
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """One request and its answer, by whose ``id`` it is counted once.

    Attributes:
        start, end: when it was sent and answered, in seconds since 1970, where known.
        position: how many messages of the session stood before the answer.
        frame: the tools and the system prompt as text, where the log has them.
        rewrote: whether the request no longer begins with the one before; None where the log does
            not show whole requests.
    """

    id: str
    model: str
    usage: Usage
    start: float | None = None
    end: float | None = None
    position: int = 0
    frame: str | None = None
    rewrote: bool | None = None

    @property
    def held(self) -> int:
        """The tokens in the provider's cache after the request."""
        return self.usage.cache_read + self.usage.cache_write


@dataclass(frozen=True, slots=True)
class HostSummary:
    """The place, in messages, where the host replaced the history by a summary, and its text."""

    position: int
    text: str = ""


@dataclass(slots=True)
class Session:
    """One conversation of one agent, or of a helper agent (``side``) that another one started.

    ``messages`` has everything but the summaries of the host, with the ``times`` they were written.
    """

    id: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    times: list[float | None] = field(default_factory=list)
    calls: list[LoggedCall] = field(default_factory=list)
    summaries: list[HostSummary] = field(default_factory=list)
    side: bool = False
    tools: list[Any] | None = None

    def add_message(self, message: dict[str, Any], time: float | None) -> None:
        """Append a message."""
        self.messages.append(message)
        self.times.append(time)


def read_logs(
    files: Iterable[str | Path], done: Callable[[int], None] = lambda _count: None
) -> tuple[list[Session], list[str]]:
    """Return the sessions of all files, oldest first, and a line for everything unreadable.

    A broken line or file never stops the others. An answer is charged once, in the oldest file that
    has it. ``done`` is called with 1 after every file.
    """
    problems: list[str] = []
    loaded: list[tuple[str, str, list[Row]]] = []
    for file in map(str, files):
        try:
            rows, problem = _parse_rows(read_text(file))
        except (OSError, ConversionError) as error:
            rows, problem = [], str(error)
        problems += [f"{file}: {problem}"] if problem else []
        loaded += [(_first_time(rows), file, rows)] if rows else []
        done(1)
    sessions: list[Session] = []
    counted: set[str] = set()
    for _, file, rows in sorted(loaded, key=lambda each: each[:2]):
        found = _read_rows(rows, counted, Path(file).name.partition(".")[0])
        problems += [] if found else [f"{file}: no request with usage in it"]
        sessions += found
    return sessions, problems


def _read_rows(rows: list[Row], counted: set[str], name: str) -> list[Session]:
    head = rows[:20]
    if any(map(_is_claude_code, head)):
        return read_claude_code(filter(_is_claude_code, rows), counted)
    if any("run_type" in row and "inputs" in row for row in head):
        return read_requests(langsmith_requests(rows), counted, name)
    if any(map(is_span, head)) and not any(read_usage(row.get("usage")) for row in head):
        return read_requests(span_requests(filter(is_span, rows)), counted, name)
    return read_requests(rows, counted, name)


def _parse_rows(text: str) -> tuple[list[Row], str]:
    """Return the objects in JSON lines, in a JSON list, or in JSON texts in a row; and a problem."""
    lines = [line for line in text.split("\n") if line.strip()]  # JSON may hold other line ends
    values, problem = list(map(_parse_line, lines)), ""
    if values[:1] == [None] or isinstance(values[0] if values else None, list):
        values, rest = _parse_texts(text.lstrip())
        problem = f"its last {rest:,} characters are not JSON, passed over" if rest else ""
        if len(values) == 1 and isinstance(values[0], list):
            values = values[0]
    elif broken := values.count(None):
        problem = f"{broken} line{'s' if broken > 1 else ''} not JSON, passed over"
    return [row for row in values if isinstance(row, Mapping)], problem


def _parse_line(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return None


def _parse_texts(text: str) -> tuple[list[Any], int]:
    """Return JSON texts that follow each other, and how many characters behind them are not JSON."""
    values, start = [], 0
    try:
        while start < len(text):
            _, end = json.JSONDecoder().raw_decode(text, start)
            values.append(parse_json(text[start:end]))
            start = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError):
        return values, len(text) - start
    return values, 0


def _first_time(rows: list[Row]) -> str:
    times = (row.get(key) for row in rows for key in ("timestamp", "time", "start_time"))
    return str(next(filter(None, times), ""))


def _is_claude_code(row: Row) -> bool:
    return ("uuid" in row and "sessionId" in row) or (
        row.get("type") == "summary" and "leafUuid" in row
    )


def read_claude_code(rows: Iterable[Row], counted: set[str]) -> list[Session]:
    """Return the sessions of a Claude Code log; lines of a side chain are a session of their own.

    An answer spans several lines with one message id: it becomes one call, with the usage of its
    last line. A resumed session repeats answers: an id in ``counted`` does not count again.
    """
    sessions: dict[str, Session] = {}
    chains: dict[str, str] = {}
    sent_at: dict[str, float | None] = {}
    answers: dict[str, tuple[Session, dict[str, Any], int | None]] = {}
    for row in rows:
        name, message = _session_name(row, chains), row.get("message")
        session = sessions.setdefault(name, Session(name, side=bool(row.get("isSidechain"))))
        time = parse_time(row.get("timestamp"))
        if row.get("subtype") == "compact_boundary":
            session.summaries.append(HostSummary(len(session.messages)))
        elif not isinstance(message, Mapping) or message.get("model") == "<synthetic>":
            continue
        elif row.get("type") == "user":
            sent_at[name] = time
            content, position = message.get("content") or "", len(session.messages)
            if not row.get("isCompactSummary"):
                session.add_message({"role": "user", "content": content}, time)
                continue
            if session.summaries and session.summaries[-1].position == position:
                session.summaries.pop()  # the boundary that stands before its summary
            session.summaries.append(HostSummary(position, str(content)))
        elif row.get("type") == "assistant":
            answer = str(message.get("id") or row.get("requestId") or row.get("uuid"))
            content, usage = message.get("content"), read_usage(message.get("usage")) or Usage(0)
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            if answer in answers:
                owner, known, number = answers[answer]
                known["content"].extend(blocks or ())
                if number is not None:
                    owner.calls[number] = replace(owner.calls[number], end=time, usage=usage)
                continue
            said, number = {"role": "assistant", "content": list(blocks or ())}, None
            if answer not in counted:
                number = len(session.calls)
                model, start = str(message.get("model") or ""), sent_at.get(name) or time
                session.calls.append(
                    LoggedCall(answer, model, usage, start, time, len(session.messages))
                )
            answers[answer] = (session, said, number)
            session.add_message(said, time)
    counted.update(answers)
    return [session for session in sessions.values() if session.calls]


def _session_name(row: Row, chains: dict[str, str]) -> str:
    """Return the name of the session a line belongs to; a side chain is named after its first."""
    name = str(row.get("sessionId") or "session")
    if not row.get("isSidechain"):
        return name
    uuid = str(row.get("uuid"))
    chains[uuid] = str(row.get("agentId") or chains.get(str(row.get("parentUuid"))) or uuid)
    return f"{name} side {chains[uuid]}"


def read_requests(rows: Iterable[Row], counted: set[str], name: str) -> list[Session]:
    """Return the sessions of plain requests; one without a session belongs to ``name``.

    Answers whose id is in ``counted`` were charged already; new ids are added to it.
    """
    sessions: dict[str, Session] = {}
    last_sent: dict[str, list[Any]] = {}
    for row in rows:
        usage = read_usage(row.get("usage"))
        if usage is None:
            continue
        key = str(row.get("session") or name)
        session = sessions.setdefault(key, Session(key, side=bool(row.get("side"))))
        answer = str(row.get("id") or f"{key} #{len(session.calls)}")
        if answer in counted:  # of several reports about one answer the last one counts
            session.calls = [
                replace(call, usage=usage) if call.id == answer else call for call in session.calls
            ]
            continue
        counted.add(answer)
        time = parse_time(row.get("time"))
        end = parse_time(row.get("end")) or time
        sent = [dict(each) for each in row.get("messages") or () if isinstance(each, Mapping)]
        rewrote = _add_sent(session, sent, last_sent.get(key), time) if sent else None
        last_sent[key] = sent or last_sent.get(key) or []
        if row.get("tools"):
            session.tools = list(row["tools"])
        frame = None
        if "tools" in row or "system" in row:
            frame = json.dumps([row.get("tools"), row.get("system")], sort_keys=True, default=str)
        model, position = str(row.get("model") or ""), len(session.messages)
        session.calls.append(LoggedCall(answer, model, usage, time, end, position, frame, rewrote))
        response = row.get("response")
        if isinstance(response, Mapping) and response.get("role") == "assistant":
            session.add_message(dict(response), end)
    return list(sessions.values())


def _add_sent(
    session: Session, sent: list[Any], before: list[Any] | None, time: float | None
) -> bool:
    """Add the new messages of a whole request; return whether its beginning was rewritten."""
    before = before or []
    rewrote = sent[: len(before)] != before
    if rewrote and len(sent) < len(before):
        session.summaries.append(HostSummary(len(session.messages)))
    start = len(before)
    if rewrote:  # the new messages follow the last one that is known
        known = (i for i in range(len(sent), 0, -1) if sent[i - 1 : i] == session.messages[-1:])
        start = next(known, 0)
    new = sent[start:]
    answered = bool(session.calls) and len(session.messages) > session.calls[-1].position
    if answered and not rewrote and new and new[0].get("role") == "assistant":
        session.messages[-1] = new.pop(0)  # the answer, in the form in which it is sent back
    for message in new:
        session.add_message(message, time)
    return rewrote


def langsmith_requests(rows: Iterable[Row]) -> Iterator[Row]:
    """Turn LangSmith runs of type ``llm`` into requests; a thread, or else a trace, is a session."""
    for row in sorted(rows, key=lambda each: str(each.get("start_time") or "")):
        if row.get("run_type") != "llm":
            continue
        inputs, outputs, extra = (_object(row.get(key)) for key in ("inputs", "outputs", "extra"))
        metadata = _object(extra.get("metadata"))
        invocation = _object(extra.get("invocation_params"))
        answer = _langsmith_answer(outputs)
        yield {
            "session": metadata.get("thread_id") or row.get("trace_id"),
            "id": row.get("id"),
            "time": row.get("start_time"),
            "end": row.get("end_time"),
            "model": metadata.get("ls_model_name") or invocation.get("model"),
            "tools": invocation.get("tools") or inputs.get("tools"),
            "messages": list(map(_langchain_message, _first_batch(inputs.get("messages")))),
            "response": _langchain_message(answer) if answer else None,
            "usage": outputs.get("usage_metadata")
            or _object(answer.get("kwargs") or answer).get("usage_metadata")
            or metadata.get("usage_metadata")
            or {key: row.get(key) for key in ("prompt_tokens", "completion_tokens")},
        }


def _first_batch(messages: Any) -> list[Any]:
    """Return the messages of a run: a list of them, or a batch that holds one list."""
    found = messages if isinstance(messages, list) else []
    return list(found[0]) if found and isinstance(found[0], list) else found


def _langsmith_answer(outputs: Row) -> dict[str, Any]:
    """Return the answer of a chat model of LangChain, or of a wrapped client."""
    if "role" in outputs:  # Anthropic's client: the outputs are the message
        names = ("role", "content", "tool_calls")
        return {name: outputs[name] for name in names if outputs.get(name)}
    found: Any = outputs.get("generations") or outputs.get("choices")
    while isinstance(found, list) and found:
        found = found[0]
    return _object(_object(found).get("message"))


def _langchain_message(message: Any) -> dict[str, Any]:
    """Turn a serialised LangChain message into a dict with a role; others stay as they are."""
    given = _object(message)
    if "role" in given:
        return given
    fields = _object(given.get("kwargs") or given.get("data") or given)
    kind = str(fields.get("type") or given.get("type") or "human").lower()
    said = {"role": _LANGCHAIN_ROLES.get(kind, kind), "content": fields.get("content") or ""}
    if fields.get("tool_call_id"):
        said["tool_call_id"] = fields["tool_call_id"]
    if calls := fields.get("tool_calls"):
        said["tool_calls"] = [_chat_call(c.get("id"), c.get("name"), c.get("args")) for c in calls]
        if isinstance(said["content"], list):  # its blocks repeat the calls
            said["content"] = "".join(str(block.get("text", "")) for block in said["content"])
    return said


def _chat_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def is_span(row: Row) -> bool:
    """Return whether an object is an OTLP export, or one span with attributes."""
    has_attributes = isinstance(row.get("attributes"), (Mapping, list)) and "usage" not in row
    return "resourceSpans" in row or has_attributes


def span_requests(rows: Iterable[Row]) -> Iterator[Row]:
    """Turn OpenTelemetry spans of model requests into requests; a span of an agent only sums them."""
    spans: list[Row] = []
    for row in rows:
        for each in row.get("resourceSpans") or ():
            spans += [s for scope in each.get("scopeSpans") or () for s in scope.get("spans") or ()]
        spans += [] if "resourceSpans" in row else [row]
    requests = filter(None, map(_span_request, spans))
    yield from sorted(requests, key=lambda each: parse_time(each["time"]) or 0.0)


def _span_request(span: Row) -> Row | None:
    values = _attributes(span.get("attributes"))
    counts = ("input_tokens", "output_tokens", "cache_read.input_tokens",
              "cache_creation.input_tokens")  # fmt: skip
    sent_tokens, output, read, write = (values.get(f"gen_ai.usage.{each}") for each in counts)
    operation = values.get("gen_ai.operation.name", "chat")
    if sent_tokens is None or operation not in _MODEL_OPERATIONS:
        return None
    context = _object(span.get("context"))
    trace = span.get("traceId") or context.get("trace_id")
    span_id = span.get("spanId") or context.get("span_id")
    sent, said = (
        [one for each in _list(values.get(f"gen_ai.{side}.messages")) for one in _split_parts(each)]
        for side in ("input", "output")
    )
    return {
        "session": values.get("gen_ai.conversation.id") or trace,
        "id": values.get("gen_ai.response.id") or span_id,
        "time": _time_of(span, "start"),
        "end": _time_of(span, "end"),
        "model": values.get("gen_ai.response.model") or values.get("gen_ai.request.model"),
        "system": values.get("gen_ai.system_instructions"),
        "tools": _list(values.get("gen_ai.tool.definitions")),
        "messages": sent,
        "response": next(iter(said), None),
        "usage": {  # by convention the cached part is in the input
            "input_tokens": int(sent_tokens),
            "output_tokens": int(output or 0),
            "input_token_details": {
                "cache_read": int(read or 0),
                "cache_creation": int(write or 0),
            },
        },
    }


def _attributes(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    pairs = (each for each in given or () if isinstance(each, Mapping))
    return {str(each.get("key")): _unwrap(each.get("value")) for each in pairs}


def _unwrap(given: Any) -> Any:
    """Return the value that OTLP wraps in the name of its type."""
    kind, value = next(iter(_object(given).items()), ("", None))
    if kind == "arrayValue":
        return [_unwrap(each) for each in _object(value).get("values") or ()]
    return _attributes(_object(value).get("values")) if kind == "kvlistValue" else value


def _split_parts(message: Any) -> Iterator[dict[str, Any]]:
    """Yield the chat messages of one message of the conventions, which has a role and parts."""
    if not isinstance(message, Mapping):
        return
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in message.get("parts") or ():
        kind = part.get("type")
        if kind == "text":
            texts.append(str(part.get("content") or ""))
        elif kind == "tool_call":
            calls.append(_chat_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif kind == "tool_call_response":
            result = part.get("response", part.get("result"))
            text = result if isinstance(result, str) else json.dumps(result, default=str)
            yield {"role": "tool", "tool_call_id": part.get("id"), "content": text}
    if texts or calls or not message.get("parts"):
        said: dict[str, Any] = {"role": message.get("role"), "content": "\n".join(texts)}
        yield {**said, "tool_calls": calls} if calls else said


def _object(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    decoded = _parse_line(value) if isinstance(value, str) else value
    return decoded if isinstance(decoded, list) else []


def _time_of(span: Row, end: str) -> Any:
    nanoseconds = span.get(f"{end}TimeUnixNano")
    return span.get(f"{end}_time") if nanoseconds is None else int(nanoseconds)
