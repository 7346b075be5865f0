"""Branches of a conversation that live in its store: fork it, list them, switch between them.

A branch is a conversation of its own in the same store, under a key of its own. Which branches
there are and which one is current is kept beside them, in one more conversation of the store to
which lines are only added. So it works with any store, survives a restart, and two processes that
fork at once lose nothing.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Generic, TypeVar
from uuid import uuid4

from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.record._session import position_of
from history_curator.record.resilience import DEFECTS, WriteBehind
from history_curator.run_steps import Call as Ask
from history_curator.run_steps import Steps as Body
from history_curator.run_steps import run_async as adrive
from history_curator.run_steps import run_sync as drive

H = TypeVar("H")

MAIN = "main"
"""The name of the conversation everything branches off from."""

_ID = re.compile(r"[0-9a-f]{32}")
_LOOKS, _PAUSE = 20, 0.1
"""How often, and after how many seconds, the first of several claims to a name looks again."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch of a conversation.

    Attributes:
        name: what it is called.
        key: the conversation of the store that holds it.
        parent: the branch it was forked from; None for the main one.
        at: how many messages it shares with its parent.
        created_at: when it was forked; None for the main one.
        current: whether it is the one to go on with.
    """

    name: str
    key: str
    parent: str | None = None
    at: int = 0
    created_at: datetime | None = None
    current: bool = False


class Branches(Generic[H]):
    """The branches of one conversation, in the store that holds it.

    Guaranteed: a branch is listed once everything it shares is stored; a fork that fails, or a
    process that dies in one, leaves every branch as it was. What is added to a branch is in no
    other. Every method has an async twin.

    Args:
        key: the conversation: session id, thread id, store key.
        conversation: opens the conversation of a key.
        buffer: the outbox of an opened conversation.
        line: makes a message of the store's that holds a text.
        text: returns the text of a message.

    Examples:
        >>> stored = {}
        >>> def conversation(key):
        ...     rows = stored.setdefault(key, [])
        ...     return WriteBehind(lambda: list(rows), rows.extend)
        >>> branches = Branches("ann", conversation, buffer=lambda one: one, line=str, text=str)
        >>> _ = branches.open().add(["hello", "a question"])
        >>> _ = branches.fork("other", at=1).add(["another question"])
        >>> branches.open().read(), branches.switch("main").read()
        (['hello', 'another question'], ['hello', 'a question'])
        >>> [(branch.name, branch.at) for branch in branches.list()]
        [('main', 0), ('other', 1)]
    """

    def __init__(
        self,
        key: str,
        conversation: Callable[[str], H],
        *,
        buffer: Callable[[H], WriteBehind[Any]],
        line: Callable[[str], Any],
        text: Callable[[Any], Any],
    ) -> None:
        self.key = key
        self._conversation = conversation
        self._buffer = buffer
        self._line = line
        self._text = text

    def list(self) -> tuple[Branch, ...]:
        """Return every branch, the oldest first.

        Raises:
            HistoryCuratorError: when the store cannot be read.
        """
        return drive(self._list())

    async def alist(self) -> tuple[Branch, ...]:
        """Return every branch, the oldest first; see `list`."""
        return await adrive(self._list())

    def open(self, name: str | None = None) -> H:
        """Return the conversation of a branch, the current one by default.

        Raises:
            ConfigurationError: when there is no such branch.
            HistoryCuratorError: when the store cannot be read.
        """
        return drive(self._open(name))

    async def aopen(self, name: str | None = None) -> H:
        """Return the conversation of a branch; see `open`."""
        return await adrive(self._open(name))

    def fork(
        self,
        name: str | None = None,
        *,
        at: int | None = None,
        of: str | None = None,
        switch: bool = True,
    ) -> H:
        """Start a branch that shares the messages up to a point, and return its conversation.

        Args:
            name: what to call it; a number by default.
            at: how many messages to share (negative counts from the end); all by default.
            of: the branch to fork; the current one by default.
            switch: also make it the current one.

        Raises:
            ConfigurationError: when there is no such place or branch, or the name is taken.
            HistoryCuratorError: when the store cannot be read or written.
        """
        return drive(self._fork(name, at, of, switch))

    async def afork(
        self,
        name: str | None = None,
        *,
        at: int | None = None,
        of: str | None = None,
        switch: bool = True,
    ) -> H:
        """Start a branch; see `fork`."""
        return await adrive(self._fork(name, at, of, switch))

    def switch(self, name: str) -> H:
        """Make a branch the current one, for everybody, and return its conversation.

        Raises:
            ConfigurationError: when there is no such branch.
            HistoryCuratorError: when the store cannot be read or written.
        """
        return drive(self._switch(name))

    async def aswitch(self, name: str) -> H:
        """Make a branch the current one; see `switch`."""
        return await adrive(self._switch(name))

    # What each method does, written once.

    def _list(self) -> Body[tuple[Branch, ...]]:
        lines = yield from self._read(self._outbox(f"{self.key}:branches"))
        return _branches(self.key, map(self._text, lines))

    def _open(self, name: str | None) -> Body[H]:
        known = yield from self._list()
        return self._opened(_find(known, name).key)

    def _fork(self, name: str | None, at: int | None, of: str | None, switch: bool) -> Body[H]:
        known = yield from self._list()
        parent = _find(known, of)
        if name is not None:
            _check_name(name, known)
        said = yield from self._read(self._outbox(parent.key))
        shared = said[: position_of(at, len(said))]
        made = uuid4().hex
        if shared:
            yield from self._write(self._outbox(f"{self.key}:{made}"), shared)
        yield from self._note(
            fork=made,
            name=name,
            parent=parent.name,
            at=len(shared),
            created_at=datetime.now(timezone.utc).isoformat(),
            current=switch,
        )
        if name is not None and not (yield from self._won(name, made)):
            raise ConfigurationError(
                f"name: somebody else just took {name!r}. Fix: choose another."
            )
        return self._opened(f"{self.key}:{made}")

    def _won(self, name: str, made: str) -> Body[bool]:
        """Whether a name that was just claimed is ours.

        A store may put a line in front of others that were read before it was there. So whoever
        sees no other claim has the name, the first of several waits for the others to withdraw,
        and withdraws where one does not: that one saw nobody else.
        """
        for _ in range(_LOOKS):
            lines = yield from self._read(self._outbox(f"{self.key}:branches"))
            claims = _claims(name, map(self._text, lines))
            if claims == [made]:
                return True
            if claims[:1] != [made]:
                break
            yield Ask(time.sleep, asyncio.sleep, (_PAUSE,))
        yield from self._note(withdrawn=made)
        return False

    def _switch(self, name: str) -> Body[H]:
        known = yield from self._list()
        branch = _find(known, name)
        if not branch.current:
            yield from self._note(switch=name)
        return self._opened(branch.key)

    def _note(self, **fields: Any) -> Body[None]:
        line = self._line(json.dumps(fields, ensure_ascii=False))
        yield from self._write(self._outbox(f"{self.key}:branches"), [line])

    def _outbox(self, key: str) -> WriteBehind[Any]:
        # A new one each time: what it could not deliver must not arrive after the caller was told.
        return self._buffer(self._opened(key))

    def _opened(self, key: str) -> H:
        try:
            return self._conversation(key)
        except Exception as error:
            if isinstance(error, (HistoryCuratorError, *DEFECTS)):
                raise
            raise HistoryCuratorError(
                f"branches: the store cannot be opened ({type(error).__name__}). "
                "Fix: try again when it is back."
            ) from error

    def _read(self, outbox: WriteBehind[Any]) -> Body[Any]:
        said = yield Ask(outbox.read, outbox.aread)
        if outbox.degraded:
            raise HistoryCuratorError(
                "branches: the store cannot be read. Fix: try again when it is back."
            ) from outbox.failure
        return said

    def _write(self, outbox: WriteBehind[Any], messages: Any) -> Body[None]:
        stored = yield Ask(outbox.add, outbox.aadd, (messages,))
        # Once more: a writer in the way is gone, and what had arrived is recognised.
        if not stored and not (yield Ask(outbox.flush, outbox.aflush)):
            raise HistoryCuratorError(
                "branches: the store failed. Fix: look with list() when it is back, and try again."
            ) from outbox.failure


def _branches(key: str, lines: Iterable[Any]) -> tuple[Branch, ...]:
    """Return what lines say, one after the other; what makes no sense is passed over."""
    known = {MAIN: Branch(MAIN, key)}
    current = MAIN
    for fields in _standing(lines):
        name = fields.get("switch")
        if isinstance(name, str) and name in known:
            current = name
        branch = _forked(key, fields, known)
        if branch is not None:
            known[branch.name] = branch
            if fields.get("current") is True:
                current = branch.name
    return tuple(replace(branch, current=branch.name == current) for branch in known.values())


def _standing(lines: Iterable[Any]) -> list[Mapping[str, Any]]:
    """What the lines say, without forks that were withdrawn."""
    told = list(map(_fields, lines))
    withdrawn = [fields["withdrawn"] for fields in told if "withdrawn" in fields]
    return [fields for fields in told if "fork" not in fields or fields["fork"] not in withdrawn]


def _claims(name: str, lines: Iterable[Any]) -> list[Any]:
    """The forks that claim a name, in the order of the store."""
    claims = (fields for fields in _standing(lines) if fields.get("name") == name)
    return [fields["fork"] for fields in claims if "fork" in fields]


def _forked(key: str, fields: Mapping[str, Any], known: Mapping[str, Branch]) -> Branch | None:
    made, name, parent = (fields.get(field) for field in ("fork", "name", "parent"))
    # A key is made from an id, never taken from a line: no line leads to another conversation.
    if not isinstance(made, str) or not _ID.fullmatch(made):
        return None
    if name is None:
        name = next(
            free for number in range(len(known) + 1, 2 * len(known) + 2)
            if (free := f"branch {number}") not in known
        )  # fmt: skip
    if not isinstance(name, str) or name in known or parent not in known:
        return None
    at, created = fields.get("at"), fields.get("created_at")
    return Branch(
        name,
        f"{key}:{made}",
        parent,
        at if isinstance(at, int) else 0,
        datetime.fromisoformat(created) if isinstance(created, str) else None,
    )


def _fields(line: Any) -> Mapping[str, Any]:
    try:
        fields = json.loads(line)
    except (TypeError, ValueError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _find(known: Iterable[Branch], name: str | None) -> Branch:
    for branch in known:
        if branch.current if name is None else branch.name == name:
            return branch
    names = ", ".join(branch.name for branch in known)
    raise ConfigurationError(f"there is no branch {name!r}. Fix: use one of {names}.")


def _check_name(name: str, known: Iterable[Branch]) -> None:
    if not name.strip():
        raise ConfigurationError("name: is empty. Fix: give one, or leave it out.")
    if any(branch.name == name for branch in known):
        raise ConfigurationError(f"name: {name!r} is taken. Fix: choose another, or switch to it.")
