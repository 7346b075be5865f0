"""Branches of a conversation that live in its store: fork it, list them, switch between them.

A branch is a conversation of its own in the same store. Lines in one more of its conversations,
``"<key>:branches"``, say which branches there are and which is current; lines are only added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from json import dumps
from typing import Any, Generic, TypeVar
from uuid import uuid4

from history_curator.errors import ConfigurationError, HistoryCuratorError
from history_curator.formats import parse_object
from history_curator.record.outbox import WriteBehind
from history_curator.record.session import position_of
from history_curator.run_steps import Steps, run_async, run_sync

H = TypeVar("H")

_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch of a conversation.

    The conversation `key` of the store holds it; it shares the first `at` messages with the branch
    `parent` (None for the main one).
    """

    name: str
    key: str
    parent: str | None = None
    at: int = 0
    current: bool = False


class Branches(Generic[H]):
    """The branches of one conversation, in the store that holds it.

    Guaranteed: a branch is listed once everything it shares is stored; a fork that fails leaves
    every branch as it was; messages added to a branch are in no other. A store that cannot be read
    or written is a `HistoryCuratorError`.

    `conversation` opens the conversation of a key, and `buffer` returns its outbox; `line` makes a
    message of the store's that holds a text, and `text` returns the text of a message.
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
        self.key, self._conversation, self._buffer = key, conversation, buffer
        self._line, self._text = line, text

    def list(self) -> tuple[Branch, ...]:
        """Return every branch, the oldest first."""
        return run_sync(self._list())

    async def alist(self) -> tuple[Branch, ...]:
        """Return every branch; see `list`."""
        return await run_async(self._list())

    def open(self, name: str | None = None) -> H:
        """Return the conversation of a branch, the current one by default."""
        return run_sync(self._open(name))

    async def aopen(self, name: str | None = None) -> H:
        """Return the conversation of a branch; see `open`."""
        return await run_async(self._open(name))

    def fork(self, name: str, at: int | None = None) -> H:
        """Start a branch of the current one, switch to it and return its conversation.

        It shares the first `at` messages; a negative number counts from the end, None shares all.
        """
        return run_sync(self._fork(name, at))

    async def afork(self, name: str, at: int | None = None) -> H:
        """Start a branch; see `fork`."""
        return await run_async(self._fork(name, at))

    def switch(self, name: str) -> H:
        """Make a branch the current one, for everybody, and return its conversation."""
        return run_sync(self._open(name, switch=True))

    async def aswitch(self, name: str) -> H:
        """Make a branch the current one; see `switch`."""
        return await run_async(self._open(name, switch=True))

    def _list(self) -> Steps[tuple[Branch, ...]]:
        known, current = {"main": Branch("main", self.key)}, "main"
        for line in map(self._text, (yield from self._read(f"{self.key}:branches"))):
            match parse_object(line) if isinstance(line, str) else None:
                case {"switch": str(name)} if name in known:
                    current = name
                case {"fork": str(made), "name": str(name), "parent": str(parent), "at": int(at)}:
                    # A key is made from an id, never taken from a line: none leads elsewhere.
                    if _ID.fullmatch(made) and parent in known and name not in known:
                        known[name] = Branch(name, f"{self.key}:{made}", parent, at)
                        current = name
        return tuple(replace(branch, current=branch.name == current) for branch in known.values())

    def _open(self, name: str | None, *, switch: bool = False) -> Steps[H]:
        branch = _find(name, (yield from self._list()))
        if switch and not branch.current:
            yield from self._write_line(switch=name)
        return self._conversation(branch.key)

    def _fork(self, name: str, at: int | None) -> Steps[H]:
        if not name.strip():
            raise ConfigurationError("name: is empty. Fix: give the branch one.")
        known = yield from self._list()
        parent, key = _find(None, known), f"{self.key}:{(fork_id := uuid4().hex)}"
        messages = yield from self._read(parent.key)
        shared = messages[: position_of(at, len(messages))]
        if all(branch.name != name for branch in known):
            yield from self._write(key, shared)
            fields = {"name": name, "parent": parent.name, "at": len(shared)}
            yield from self._write_line(fork=fork_id, **fields)
            known = yield from self._list()
        if _find(name, known).key != key:  # also where another fork took the name meanwhile
            raise ConfigurationError(f"name: {name!r} is taken. Fix: choose another, or switch.")
        return self._conversation(key)

    # A new outbox each time: what it could not deliver must not arrive after the error was raised.

    def _read(self, key: str) -> Steps[Any]:
        outbox = self._buffer(self._conversation(key))
        messages = yield from outbox.read()
        _check(outbox, "read")
        return messages

    def _write_line(self, **fields: Any) -> Steps[None]:
        line = self._line(dumps(fields, ensure_ascii=False))
        yield from self._write(f"{self.key}:branches", [line])

    def _write(self, key: str, messages: Sequence[Any]) -> Steps[None]:
        outbox = self._buffer(self._conversation(key))
        if not (yield from outbox.add(messages)):
            yield from outbox.flush()  # again: what had arrived is recognised by its id
        _check(outbox, "written to")


def _find(name: str | None, known: Iterable[Branch]) -> Branch:
    for branch in known:
        if branch.current if name is None else branch.name == name:
            return branch
    names = ", ".join(branch.name for branch in known)
    raise ConfigurationError(f"there is no branch {name!r}. Fix: use one of {names}.")


def _check(outbox: WriteBehind[Any], operation: str) -> None:
    if (error := outbox.failure) is not None:
        problem = f"the store could not be {operation} ({type(error).__name__})"
        fix = "Fix: look with list() when it is back, and try again."
        raise HistoryCuratorError(f"branches: {problem}. {fix}") from error
