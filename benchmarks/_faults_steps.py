"""Where a write can be interrupted: before and after everything a driver sends or commits."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

__all__ = ["Steps"]

_WRITES = (
    ("sqlalchemy.engine.base", "Connection", "_commit_impl"),
    ("sqlalchemy.engine.default", "DefaultDialect", "do_execute"),
    ("sqlalchemy.engine.default", "DefaultDialect", "do_executemany"),
    ("psycopg", "Cursor", "execute"),
    ("psycopg", "Cursor", "executemany"),
    ("psycopg", "Connection", "commit"),
    ("redis.connection", "AbstractConnection", "send_packed_command"),
    ("redis.connection", "AbstractConnection", "read_response"),
    ("os", "", "fsync"),
    ("os", "", "replace"),
    ("os", "", "rename"),
)


class Steps:
    """Counts steps from now on, and does something at one of them.

    Args:
        at: the step, from 1.
        action: what to do then.
    """

    def __init__(self, at: int, action: Callable[[], None]) -> None:
        self.at = at
        self.count = 0
        self.on = False
        self._action = action

    def install(self) -> Steps:
        """Have every driver that is here report its steps, in this process only."""
        for module, owner, name in _WRITES:
            try:
                found: Any = import_module(module)
            except ImportError:
                continue
            place = getattr(found, owner) if owner else found
            setattr(place, name, self._reporting(getattr(place, name)))
        return self

    def _reporting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            self._step()
            try:
                return function(*args, **kwargs)
            finally:
                self._step()

        return run

    def _step(self) -> None:
        if not self.on:
            return
        self.count += 1
        if self.count == self.at:
            self._action()
