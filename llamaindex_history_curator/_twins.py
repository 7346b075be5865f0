"""Copies of messages, given out again while they are as they were and nobody else holds them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from itertools import chain
from operator import eq, is_
from threading import Lock
from typing import Any

from llama_index.core.base.llms.types import ChatMessage

__all__ = ["Twins"]

# Without counted references nobody can tell who holds what, and every copy is a new one.
_references: Callable[[Any], int] | None = (
    sys.getrefcount if sys.implementation.name == "cpython" else None
)


_PATIENCE = 4
"""Views in a row for which no copies were free; then copies are no longer kept."""


class Twins:
    """Makes a copy of every message of a view, or takes the one it made before.

    A copy is taken again when its message is unchanged, nobody changed the copy, and nobody but
    this object refers to it or to anything inside it. So it cannot be told from a new copy: no
    edit of a view reaches the record or another view, held by another thread or not. Two sets are
    kept, because a caller often holds one view while asking for the next.

    Args:
        make: returns a copy of a message that shares nothing that can be edited.
    """

    def __init__(self, make: Callable[[ChatMessage], ChatMessage]) -> None:
        self._make = make
        self._lock = Lock()
        self._sets: list[_Set] = []
        self._missed = 0 if _references is not None else _PATIENCE

    def __call__(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the copies, in a list of their own."""
        if self._missed >= _PATIENCE:
            return list(map(self._make, messages))
        with self._lock:
            free = next((one for one in self._sets if one.is_free()), None)
            self._missed = 0 if free is not None else self._missed + 1
            if free is None:
                free = _Set(self._make)
            else:
                self._sets.remove(free)
            self._sets = [*self._sets, free][-2:]
            if self._missed >= _PATIENCE:
                self._sets.clear()
            # Within the lock: whoever comes next sees that these are held.
            return free.given_out(messages)


class _Set:
    """The copies of one view, and what they were like when they were made.

    What can be edited in a message or a copy is held once, and compared with what it was without
    making anything: a view is long, and is asked for at every step.
    """

    def __init__(self, make: Callable[[ChatMessage], ChatMessage]) -> None:
        self._make = make
        self._given: list[ChatMessage] = []
        self._twins: list[ChatMessage] = []
        self._parts: list[list[Any]] = []
        self._held: list[list[int]] = []
        self._now: list[list[Any]] = []
        self._then: list[list[Any]] = []

    def is_free(self) -> bool:
        """Whether nobody else refers to anything in it."""
        if not self._parts:
            return True
        if not _is_held_by(self._parts[-1], self._held[-1]):  # most often this says it
            return False
        return _is_held_by(chain.from_iterable(self._parts), chain.from_iterable(self._held))

    def given_out(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return copies of messages: the ones that are there as far as they still hold."""
        pairs = list(map(is_, messages, self._given))
        self._keep(pairs.index(False) if False in pairs else len(pairs))
        if self._now != self._then:
            rows = zip(self._now, self._then, strict=True)
            self._keep(next(n for n, (now, then) in enumerate(rows) if now != then))
        for message in messages[len(self._given) :]:
            self._add(message)
        return self._twins[:]

    def _keep(self, count: int) -> None:
        for kept in (self._given, self._twins, self._parts, self._held, self._now, self._then):
            del kept[count:]

    def _add(self, message: ChatMessage) -> None:
        twin = self._make(message)
        inside = _inside(twin)
        self._given.append(message)
        self._twins.append(twin)
        self._parts.append(inside)
        self._now.append([_fields(part) for part in (*_inside(message), *inside)])
        self._then.append([copy(now) for now in self._now[-1]])
        del twin, inside
        self._held.append(list(_count(self._parts[-1])))


def _fields(part: Any) -> Any:
    return part if isinstance(part, (dict, list)) else part.__dict__


def _count(parts: Iterable[Any]) -> Iterable[int]:
    assert _references is not None
    return map(_references, parts)


def _is_held_by(parts: Iterable[Any], counts: Iterable[int]) -> bool:
    return all(map(eq, _count(parts), counts))


def _inside(value: Any) -> list[Any]:
    """Return everything in a message that can be edited, the message included."""
    if isinstance(value, dict):
        return [value, *chain.from_iterable(map(_inside, value.values()))]
    if isinstance(value, list):
        return [value, *chain.from_iterable(map(_inside, value))]
    fields = getattr(value, "__dict__", None)
    if fields is None or isinstance(value, type) or not hasattr(value, "model_fields_set"):
        return []
    return [value, *chain.from_iterable(map(_inside, fields.values()))]
