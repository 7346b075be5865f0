"""JSON lines of requests with what was reported for each, from anywhere.

Each line is one request: ``{"session", "id", "time", "end", "model", "system", "tools",
"messages", "response", "usage"}``. Only ``usage`` is required. LangSmith runs and OpenTelemetry
spans are turned into such lines first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from history_curator.caching import seconds
from history_curator.doctor._session import Call, Compaction, Session
from history_curator.tokens import read_usage


def is_request(row: Any) -> bool:
    """Return whether a line is a request with its usage."""
    return isinstance(row, Mapping) and read_usage(row.get("usage")) is not None


def read_requests(rows: Iterable[Mapping[str, Any]], counted: set[str], name: str) -> list[Session]:
    """Return the sessions that the requests belong to, in the order they are met.

    Args:
        rows: requests, each with ``usage``; those without are passed over.
        counted: ids of answers already charged; those found here are added to it.
        name: what a session without a name of its own is called.
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
