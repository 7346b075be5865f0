"""Read logs of Claude Code, LangSmith, OpenTelemetry, and plain JSON lines of requests.

A plain request is ``{"session", "id", "time", "end", "model", "system", "tools", "messages",
"response", "usage"}``, of which only ``usage`` is required. LangSmith runs and OpenTelemetry spans are
turned into plain requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from history_curator.doctor.exports import Row, is_span, langsmith_requests, span_requests
from history_curator.errors import ConversionError
from history_curator.formats import parse_json
from history_curator.lab.files import read_text
from history_curator.tokens import Usage, parse_time, read_usage

_ENDINGS = (".jsonl", ".json", ".ndjson", ".jsonl.gz", ".json.gz", ".ndjson.gz")
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """One request and its answer.

    Attributes:
        id: the provider's name of the answer; a request is counted once by it.
        model: the model that answered.
        usage: the reported token counts.
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
    """One conversation of one agent; a side chain is a session of its own.

    Attributes:
        id: its name in the log.
        messages: all messages, without the summaries of the host.
        times: when each message was written.
        calls: the requests, in order.
        summaries: the places where the host summarised.
        side: whether another session started it as a helper agent.
        tools: tool schemas, where the log has them.
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


def find_logs(paths: Iterable[str | Path]) -> list[Path]:
    """Return the files to read: those named, and the JSON and JSON lines files under folders.

    Raises:
        ConversionError: naming a path that is not there, or a folder with no log in it.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.name.endswith(_ENDINGS))
            if not inside:
                raise ConversionError(
                    f"{path} holds no logs.", fix=f"look for files that end in {_ENDINGS[0]}."
                )
            found.extend(inside)
        elif path.exists():
            found.append(path)
        else:
            raise ConversionError(f"{path} is not there.", fix="pass a log or a folder of logs.")
    return list(dict.fromkeys(found))


def read_logs(
    files: Iterable[Path], done: Callable[[int], None] = lambda _count: None
) -> tuple[list[Session], list[str]]:
    """Return the sessions of all files, oldest first, and a line for everything unreadable.

    A broken line or file never stops the others. An answer is charged once, in the oldest file that
    has it. ``done`` is called with 1 after every file.
    """
    problems: list[str] = []
    loaded = []
    for file in files:
        try:
            rows, problem = _parse_rows(read_text(str(file)))
        except (OSError, ConversionError) as error:
            rows, problem = [], str(error)
        if problem:
            problems.append(f"{file}: {problem}")
        if rows:
            loaded.append((_first_time(rows), str(file), rows))
        done(1)
    sessions: list[Session] = []
    counted: set[str] = set()
    for _, name, rows in sorted(loaded, key=lambda each: each[:2]):
        found = _read_rows(rows, counted, Path(name).name.partition(".")[0])
        if not found:
            problems.append(f"{name}: no request with usage in it")
        sessions.extend(found)
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
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] == "[" or _parse_line(text[start:].partition("\n")[0]) is None:
        values, end = _parse_texts(text, start)
        if values:
            whole = values[0] if len(values) == 1 and isinstance(values[0], list) else values
            rest = len(text) - end
            problem = f"its last {rest:,} characters are not JSON, passed over" if rest else ""
            return [row for row in whole if isinstance(row, Mapping)], problem
    lines = [line for line in text.split("\n") if line.strip()]  # JSON may hold other line ends
    parsed = list(map(_parse_line, lines))
    broken = parsed.count(None)
    problem = f"{broken} line{'s' if broken > 1 else ''} not JSON, passed over" if broken else ""
    return [row for row in parsed if isinstance(row, Mapping)], problem


def _parse_line(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return None


def _parse_texts(text: str, start: int) -> tuple[list[Any], int]:
    """Return JSON texts that follow each other, and the index behind the last one."""
    values: list[Any] = []
    try:
        while start < len(text):
            _, end = json.JSONDecoder().raw_decode(text, start)
            values.append(parse_json(text[start:end]))
            start = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError):
        return values, start
    return values, start


def _first_time(rows: list[Row]) -> str:
    times = (row.get(key) for row in rows for key in ("timestamp", "time", "start_time"))
    return str(next(filter(None, times), ""))


def _is_claude_code(row: Row) -> bool:
    return ("uuid" in row and "sessionId" in row) or (
        row.get("type") == "summary" and "leafUuid" in row
    )


def read_claude_code(rows: Iterable[Row], counted: set[str]) -> list[Session]:
    """Return the sessions of a Claude Code log; lines of a side chain are a session of their own.

    An answer spans several lines that share a message id and repeat the usage: it becomes one
    message and one call, with the usage of its last line. A resumed session repeats earlier
    answers: the usage of an id in ``counted`` does not count again. New ids are added to it.
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
            _add_user_line(session, row, message, time)
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


def _add_user_line(session: Session, row: Row, message: Row, time: float | None) -> None:
    content, position = message.get("content") or "", len(session.messages)
    if not row.get("isCompactSummary"):
        session.add_message({"role": "user", "content": content}, time)
        return
    if session.summaries and session.summaries[-1].position == position:
        session.summaries.pop()  # the boundary that stands before its summary
    session.summaries.append(HostSummary(position, str(content)))


def read_requests(rows: Iterable[Row], counted: set[str], name: str) -> list[Session]:
    """Return the sessions that plain requests belong to, in the order of their first requests.

    Answers whose id is in ``counted`` were charged already; new ids are added to it. A request
    without a session belongs to one called ``name``.
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
    new, answered = (
        sent[start:],
        bool(session.calls) and len(session.messages) > session.calls[-1].position,
    )
    if answered and not rewrote and new and new[0].get("role") == "assistant":
        session.messages[-1] = new.pop(0)  # the answer, in the form in which it is sent back
    for message in new:
        session.add_message(message, time)
    return rewrote
