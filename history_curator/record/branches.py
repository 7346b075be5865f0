"""Branches of a conversation that live in its store: fork it, list them, switch between them.

A branch is a conversation of its own in the same store. Lines in one more conversation of the
store, under ``"<key>:branches"``, say which branches there are and which is current; lines are only
added. So it works with any store, survives a restart, and forks at the same time lose nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from json import dumps
from typing import Any, Generic, TypeVar
from uuid import uuid4

from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.formats import parse_object
from history_curator.record.outbox import DEFECTS, WriteBehind
from history_curator.record.session import position_of
from history_curator.run_steps import Call, Steps, run_async, run_sync

H = TypeVar("H")

_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch of a conversation.

    The conversation `key` of the store holds it, and it shares the first `at` messages with the
    branch `parent` (None for the main one). `current` is the one to go on with.
    """

    name: str
    key: str
    parent: str | None = None
    at: int = 0
    current: bool = False


class Branches(Generic[H]):
    """The branches of one conversation, in the store that holds it.

    Guaranteed: a branch is listed once everything it shares is stored; a fork that fails leaves
    every branch as it was; messages added to a branch are in no other. Of two forks that take the
    same name at the same time, the later one is listed with a number. Every method raises
    `ConfigurationError` for a branch or place that does not exist and `HistoryCuratorError` when
    the store fails.

    `conversation` opens the conversation of a key, and `buffer` returns its outbox; `line` makes a
    message of the store's that holds a text, and `text` returns the text of a message.

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
        self._conversation, self._buffer = conversation, buffer
        self._line, self._text = line, text

    def list(self) -> tuple[Branch, ...]:
        """Return every branch, the oldest first."""
        return run_sync(self._list())

    async def alist(self) -> tuple[Branch, ...]:
        """Return every branch, the oldest first."""
        return await run_async(self._list())

    def open(self, name: str | None = None) -> H:
        """Return the conversation of a branch, the current one by default."""
        return run_sync(self._open(name))

    async def aopen(self, name: str | None = None) -> H:
        """Return the conversation of a branch, the current one by default."""
        return await run_async(self._open(name))

    def fork(self, name: str | None = None, **options: Any) -> H:
        """Start a branch that shares the messages up to a point, and return its conversation.

        It is called by a number unless it has a name. Of the `options`, ``at`` is how many messages
        to share (negative counts from the end; all by default), ``of`` the branch to fork (the
        current one by default), and ``switch=False`` leaves the current branch the current one.
        """
        return run_sync(self._fork(name, **options))

    async def afork(self, name: str | None = None, **options: Any) -> H:
        """Start a branch; see `fork`."""
        return await run_async(self._fork(name, **options))

    def switch(self, name: str) -> H:
        """Make a branch the current one, for everybody, and return its conversation."""
        return run_sync(self._open(name, switch=True))

    async def aswitch(self, name: str) -> H:
        """Make a branch the current one, for everybody, and return its conversation."""
        return await run_async(self._open(name, switch=True))

    # The steps of each method, for sync and async code.

    def _list(self) -> Steps[tuple[Branch, ...]]:
        lines = yield from self._read(f"{self.key}:branches")
        return list_branches(self.key, map(self._text, lines))

    def _open(self, name: str | None, *, switch: bool = False) -> Steps[H]:
        branch = _find(name, (yield from self._list()))
        if switch and not branch.current:
            yield from self._add_line(switch=name)
        return self._open_key(branch.key)

    def _fork(
        self, name: str | None, *, at: int | None = None, of: str | None = None, switch: bool = True
    ) -> Steps[H]:
        known = yield from self._list()
        parent = _find(of, known)
        if name is not None and not name.strip():
            raise ConfigurationError("name: is empty. Fix: give one, or leave it out.")
        if any(branch.name == name for branch in known):
            raise ConfigurationError(f"name: {name!r} is taken. Fix: choose another, or switch.")
        messages = yield from self._read(parent.key)
        shared = messages[: position_of(at, len(messages))]
        fork_id = uuid4().hex
        if shared:
            yield from self._write(f"{self.key}:{fork_id}", shared)
        fields = {"parent": parent.name, "at": len(shared), "current": switch}
        yield from self._add_line(fork=fork_id, name=name, **fields)
        return self._open_key(f"{self.key}:{fork_id}")

    def _add_line(self, **fields: Any) -> Steps[None]:
        line = self._line(dumps(fields, ensure_ascii=False))
        yield from self._write(f"{self.key}:branches", [line])

    def _open_key(self, key: str) -> H:
        try:
            return self._conversation(key)
        except (HistoryCuratorError, *DEFECTS):
            raise
        except Exception as error:
            raise _store_failed("opened", error) from error

    # A new outbox each time: what it could not deliver must not arrive after the error was raised.

    def _read(self, key: str) -> Steps[Any]:
        outbox = self._buffer(self._open_key(key))
        messages = yield Call(outbox.read, outbox.aread)
        if outbox.degraded:
            raise _store_failed("read", outbox.failure) from outbox.failure
        return messages

    def _write(self, key: str, messages: Any) -> Steps[None]:
        outbox = self._buffer(self._open_key(key))
        stored = yield Call(outbox.add, outbox.aadd, (messages,))
        # Once more: a writer in the way is gone, and what had arrived is recognised.
        if not stored and not (yield Call(outbox.flush, outbox.aflush)):
            raise _store_failed("written to", outbox.failure) from outbox.failure


def list_branches(key: str, lines: Iterable[Any]) -> tuple[Branch, ...]:
    """Return the branches that lines name, one after the other; other lines are passed over."""
    known = {"main": Branch("main", key)}
    current = "main"
    for line in lines:
        fields = (parse_object(line) if isinstance(line, str) else None) or {}
        fork_id, name, parent, at, switch = map(
            fields.get, ("fork", "name", "parent", "at", "switch")
        )
        if isinstance(switch, str) and switch in known:
            current = switch
        # A key is made from an id, never taken from a line: no line leads to another conversation.
        if not isinstance(fork_id, str) or not _ID.fullmatch(fork_id):
            continue
        if not isinstance(name, str | None) or not isinstance(parent, str) or parent not in known:
            continue
        number, base = (len(known) + 1, "branch") if name is None else (2, name)
        while name is None or name in known:
            name, number = f"{base} {number}", number + 1
        known[name] = Branch(name, f"{key}:{fork_id}", parent, at if isinstance(at, int) else 0)
        current = name if fields.get("current") is True else current
    return tuple(replace(branch, current=branch.name == current) for branch in known.values())


def _find(name: str | None, known: Iterable[Branch]) -> Branch:
    for branch in known:
        if branch.current if name is None else branch.name == name:
            return branch
    names = ", ".join(branch.name for branch in known)
    raise ConfigurationError(f"there is no branch {name!r}. Fix: use one of {names}.")


def _store_failed(operation: str, error: Exception | None) -> HistoryCuratorError:
    return HistoryCuratorError(
        f"branches: the store could not be {operation} ({type(error).__name__}). "
        "Fix: look with list() when it is back, and try again."
    )
