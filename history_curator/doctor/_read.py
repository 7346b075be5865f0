"""Find the logs under some paths and read them, whatever wrote them.

Beside Claude Code's own, logs are JSON lines of requests: ``{"session", "id", "time", "end",
"model", "system", "tools", "messages", "response", "usage"}``, of which only ``usage`` is required.
LangSmith runs and OpenTelemetry spans are turned into such lines first.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from history_curator.caching import seconds
from history_curator.doctor._claude_code import is_claude_code, read_claude_code
from history_curator.doctor._exports import from_langsmith, from_spans, is_langsmith, is_span
from history_curator.doctor._session import Call, Compaction, Session
from history_curator.errors import ConversionError
from history_curator.tokens import read_usage


def is_request(row: Any) -> bool:
    """Return whether a line is a request with its usage."""
    return isinstance(row, Mapping) and read_usage(row.get("usage")) is not None


def read_requests(rows: Iterable[Mapping[str, Any]], counted: set[str], name: str) -> list[Session]:
    """Return the sessions that the requests with ``usage`` belong to, in the order they are met.

    Ids of answers in ``counted`` were charged already; those found here are added to it. A session
    without a name of its own gets ``name``.
    """
    sessions: dict[str, _Growing] = {}
    for row in rows:
        usage = read_usage(row.get("usage"))
        if usage is None:
            continue
        key = str(row.get("session") or name)
        growing = sessions.setdefault(key, _Growing(Session(key, side=bool(row.get("side")))))
        answer = str(row.get("id") or f"{key} #{len(growing.session.calls)}")
        if answer in counted:
            growing.again(answer, usage)
            continue
        counted.add(answer)
        growing.take(row, answer, usage)
    return [each.session for each in sessions.values()]


class _Growing:
    """A session that is put together from requests, each of which holds all that was sent."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._sent: list[Any] = []
        self._answered = False

    def again(self, answer: str, usage: Any) -> None:
        """Take a later report about the same answer: the last one counts."""
        for number, call in enumerate(self.session.calls):
            if call.id == answer:
                self.session.amend(number, usage=usage)

    def take(self, row: Mapping[str, Any], answer: str, usage: Any) -> None:
        session, time = self.session, seconds(row.get("time"))
        sent = [each for each in row.get("messages") or () if isinstance(each, Mapping)]
        rewrote = None
        if sent:
            rewrote = sent[: len(self._sent)] != self._sent
            if rewrote and len(sent) < len(self._sent):
                session.compactions.append(Compaction(len(session.messages)))
            new = sent[_known(sent, session.messages) if rewrote else len(self._sent) :]
            if self._answered and not rewrote and new and new[0].get("role") == "assistant":
                session.messages[-1] = dict(new.pop(0))  # the answer, in the form it is sent in
            for message in new:
                session.say(dict(message), time)
            self._sent = sent
        if row.get("tools"):
            session.tools = list(row["tools"])
        session.calls.append(
            Call(
                id=answer,
                model=str(row.get("model") or ""),
                usage=usage,
                start=time,
                end=seconds(row.get("end")) or time,
                position=len(session.messages),
                frame=_frame(row),
                rewrote=rewrote,
            )
        )
        response = row.get("response")
        self._answered = False
        if isinstance(response, Mapping) and response.get("role") == "assistant":
            self._answered = True
            session.say(dict(response), seconds(row.get("end")) or time)


def _known(sent: list[Any], said: list[dict[str, Any]]) -> int:
    """Return how many of the messages of a request had been said before it.

    The last message said is looked for from the end, so that a request whose beginning was
    rewritten adds only what is new at its end.
    """
    if not said:
        return 0
    for at in range(len(sent) - 1, -1, -1):
        if sent[at] == said[-1]:
            return at + 1
    return 0


def _frame(row: Mapping[str, Any]) -> str | None:
    if "tools" not in row and "system" not in row:
        return None
    return json.dumps([row.get("tools"), row.get("system")], sort_keys=True, default=str)


_SPACE = re.compile(r"\s*")
_ENDINGS = (".jsonl", ".json", ".ndjson", ".jsonl.gz", ".json.gz", ".ndjson.gz")


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
    """Return the sessions of all files, oldest first, and what could not be read.

    A broken line, or a file that is no log, is named and passed over: one bad file of a hundred
    does not keep the others from being read. An answer is charged once, in the oldest file that
    has it. ``done`` is told after every file.
    """
    problems: list[str] = []
    loaded = []
    for file in files:
        rows = list(_rows(file, problems))
        if rows:
            loaded.append((_first_time(rows), str(file), rows))
        done(1)
    sessions: list[Session] = []
    counted: set[str] = set()
    for _, name, rows in sorted(loaded, key=lambda each: each[:2]):
        found = _sessions(rows, counted, Path(name))
        if not found:
            problems.append(f"{name}: no request with usage in it")
        sessions.extend(found)
    return sessions, problems


def _sessions(rows: list[Any], counted: set[str], file: Path) -> list[Session]:
    if any(map(is_claude_code, rows[:20])):
        return read_claude_code(filter(is_claude_code, rows), counted)
    name = file.name.partition(".")[0]
    if any(map(is_langsmith, rows[:20])):
        return read_requests(from_langsmith(filter(is_langsmith, rows)), counted, name)
    if any(map(is_span, rows[:20])) and not any(map(is_request, rows[:20])):
        return read_requests(from_spans(filter(is_span, rows)), counted, name)
    return read_requests(filter(is_request, rows), counted, name)


def _rows(file: Path, problems: list[str]) -> Iterator[Any]:
    try:
        raw = file.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        problems.append(f"{file}: {error}")
        return
    spread, rest = _spread(text)
    if spread:
        yield from spread[0] if len(spread) == 1 and isinstance(spread[0], list) else spread
        if rest:
            problems.append(f"{file}: its last {rest:,} characters are not JSON, passed over")
        return
    broken = 0
    for line in text.split("\n"):  # no other line end: JSON text may hold them
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except ValueError:
            broken += 1
    if broken:
        problems.append(f"{file}: {broken} line{'s' if broken > 1 else ''} not JSON, passed over")


def _spread(text: str) -> tuple[list[Any], int]:
    """Return a list, or objects, spread over several lines, and how much behind them is none.

    Nothing for a file with one object a line.
    """
    found: list[Any] = []
    at = _SPACE.match(text).end()  # type: ignore[union-attr]
    with suppress(ValueError):
        if text[at : at + 1] != "[" and json.loads(text[at:].partition("\n")[0]) is not None:
            return [], 0
    with suppress(ValueError):
        while at < len(text):
            value, end = json.JSONDecoder().raw_decode(text, at)
            found.append(value)
            at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    return found, len(text) - at


def _first_time(rows: list[Any]) -> str:
    for row in rows:
        if isinstance(row, Mapping):
            time = row.get("timestamp") or row.get("time") or row.get("start_time")
            if time:
                return str(time)
    return ""
