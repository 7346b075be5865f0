"""Logs as Claude Code writes them: one JSON object a line, one answer on several lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from history_curator.caching import seconds
from history_curator.doctor._session import Call, Compaction, Session
from history_curator.tokens import Usage, read_usage


def is_claude_code(row: Any) -> bool:
    """Return whether a line looks like one of Claude Code's."""
    return isinstance(row, Mapping) and (
        ("uuid" in row and "sessionId" in row)
        or (row.get("type") == "summary" and "leafUuid" in row)
    )


def read_claude_code(rows: Iterable[Mapping[str, Any]], counted: set[str]) -> list[Session]:
    """Return the sessions of one log file, from its lines in order.

    An answer spans several lines that share a message id and repeat the usage: it becomes one
    message and one call, with the usage of its last line. Lines of side chains become sessions of
    their own. A message id in ``counted`` was charged in another file (a resumed session repeats
    what was said before it): its text counts as said, its usage does not count again. Those found
    here are added to it.
    """
    reader = _Reader(counted)
    for row in rows:
        reader.take(row)
    counted.update(reader.answers)
    return [session for session in reader.sessions.values() if session.calls]


class _Reader:
    def __init__(self, counted: set[str]) -> None:
        self.sessions: dict[str, Session] = {}
        self.answers: dict[str, tuple[Session, dict[str, Any], int | None]] = {}
        self._counted = counted
        self._sent: dict[str, float | None] = {}
        self._chains: dict[str, str] = {}

    def take(self, row: Mapping[str, Any]) -> None:
        kind = row.get("type")
        if kind == "assistant":
            self._answer(row)
        elif kind == "user":
            self._say(row)
        elif kind == "system" and row.get("subtype") == "compact_boundary":
            session = self._session(row)
            session.compactions.append(Compaction(len(session.messages)))

    def _session(self, row: Mapping[str, Any]) -> Session:
        """Return the session a line belongs to; a side chain is named after its first line."""
        name = str(row.get("sessionId") or "session")
        side = bool(row.get("isSidechain"))
        if side:
            uuid, parent = str(row.get("uuid")), str(row.get("parentUuid"))
            chain = row.get("agentId") or self._chains.get(parent) or uuid
            self._chains[uuid] = chain
            name = f"{name} side {chain}"
        if name not in self.sessions:
            self.sessions[name] = Session(name, side=side)
        return self.sessions[name]

    def _say(self, row: Mapping[str, Any]) -> None:
        session, message = self._session(row), row.get("message")
        if not isinstance(message, Mapping):
            return
        said = {"role": "user", "content": message.get("content") or ""}
        time = seconds(row.get("timestamp"))
        self._sent[session.id] = time
        if row.get("isCompactSummary"):
            boundary = Compaction(len(session.messages), said)
            if session.compactions and session.compactions[-1].position == boundary.position:
                session.compactions.pop()
            session.compactions.append(boundary)
        else:
            session.say(said, time)

    def _answer(self, row: Mapping[str, Any]) -> None:
        session, message = self._session(row), row.get("message")
        if not isinstance(message, Mapping) or message.get("model") == "<synthetic>":
            return
        time = seconds(row.get("timestamp"))
        answer = str(message.get("id") or row.get("requestId") or row.get("uuid"))
        blocks = _blocks(message.get("content"))
        known = self.answers.get(answer)
        if known is not None:
            owner, said, number = known
            said["content"].extend(blocks)
            if number is not None:
                owner.amend(number, end=time, usage=_usage(message))
            return
        said = {"role": "assistant", "content": blocks}
        number = None
        if answer not in self._counted:
            number = len(session.calls)
            session.calls.append(
                Call(
                    id=answer,
                    model=str(message.get("model") or ""),
                    usage=_usage(message),
                    start=self._sent.get(session.id) or time,
                    end=time,
                    position=len(session.messages),
                )
            )
        self.answers[answer] = (session, said, number)
        session.say(said, time)


def _blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if isinstance(content, list) else []


def _usage(message: Mapping[str, Any]) -> Usage:
    return read_usage(message.get("usage")) or Usage(0)
