"""A store's operations, sync or async, one body of logic at a time, and whether it is down."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from history_curator._drive import Ask, Body, adrive, drive
from history_curator.errors import HistoryCuratorError

R = TypeVar("R")

_PATIENCE = 1.0
"""Seconds in which a loop that runs free answers."""


class Blocked(HistoryCuratorError):
    """The store is in use by a task of an event loop that waits for something itself."""


def _answers(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the event loop of another thread runs, and is not blocked."""
    if not loop.is_running():
        return False
    awake = threading.Event()
    loop.call_soon_threadsafe(awake.set)
    return awake.wait(_PATIENCE)


class Operations:
    """A store's operations by name; bodies of logic run over them one at a time.

    Args:
        name: the store's name in errors.
        plain: the operations as functions; None where there is none.
        awaited: the same as coroutine functions; where None the plain one runs in a thread.
    """

    def __init__(
        self,
        name: str,
        plain: Mapping[str, Callable[..., Any] | None],
        awaited: Mapping[str, Callable[..., Awaitable[Any]] | None],
    ) -> None:
        self._name = name
        self._plain = plain
        self._awaited = awaited
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def offers(self, operation: str) -> bool:
        """Whether the store has this operation."""
        return bool(self._plain[operation] or self._awaited[operation])

    def ask(self, operation: str, *arguments: Any) -> Ask:
        """Return what a body yields to have an operation done."""
        return Ask(self._run, self._arun, (operation, *arguments))

    def run(self, body: Body[R]) -> R:
        """Run a body to its end.

        Raises:
            HistoryCuratorError: when an async operation of this very thread is under way: it
                could not go on while this one waited for it.
            Blocked: when an async operation is under way in a loop that is blocked, perhaps by
                what waits for this one.
        """
        if self._lock.locked() and self._holder == threading.get_ident():
            raise HistoryCuratorError(
                f"{self._name} is in use by a task of the running event loop, or by its own "
                "store. Fix: await the async method here."
            )
        self._acquire()
        self._holder = threading.get_ident()
        try:
            return drive(body)
        finally:
            self._lock.release()

    def _acquire(self) -> None:
        while not self._lock.acquire(timeout=0.1):
            loop = self._loop
            if loop is not None and not _answers(loop):
                raise Blocked(
                    f"{self._name} is in use by a task of an event loop that is blocked. "
                    "Fix: await the async method, or do not block the loop."
                )

    async def arun(self, body: Body[R]) -> R:
        """Run a body to its end, awaiting the operations."""
        # One lock for threads and tasks of any loop; a task must not block its loop for it.
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        self._holder = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        try:
            return await adrive(body)
        finally:
            self._loop = None
            self._lock.release()

    def _run(self, operation: str, *arguments: Any) -> Any:
        return self._find(operation)(*arguments)

    async def _arun(self, operation: str, *arguments: Any) -> Any:
        awaited = self._awaited[operation]
        if awaited is not None:
            return await awaited(*arguments)
        # A thread cannot be cancelled, so its write has to end before the lock is let go.
        running = asyncio.ensure_future(asyncio.to_thread(self._find(operation), *arguments))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise

    def _find(self, operation: str) -> Callable[..., Any]:
        function = self._plain[operation]
        if function is None:
            raise NotImplementedError(
                f"{self._name} was given no way to {operation}. "
                f"Fix: pass {operation}= to WriteBehind."
            )
        return function


logger = logging.getLogger("history_curator.store")


class Outage:
    """One warning when a store goes down, one message when it is back, the error in between.

    Errors among `defects` are raised: waiting does not cure them.
    """

    def __init__(self, name: str, retry_after: float, defects: tuple[type[Exception], ...]) -> None:
        self._name = name
        self._retry_after = retry_after
        self._defects = defects
        self._failed_at = 0.0
        self.failure: Exception | None = None

    @property
    def resting(self) -> bool:
        """Whether the store failed so lately that it is left alone."""
        if self.failure is None or self._retry_after <= 0:
            return False
        return time.monotonic() - self._failed_at < self._retry_after

    def begins(self, error: Exception) -> None:
        """Take note of a failure."""
        if isinstance(error, self._defects):
            raise error
        if self.failure is None:
            # Not the error itself: a driver's may quote the messages it was given.
            logger.warning(
                "%s is unavailable (%s): the conversation goes on from memory, and what is said is "
                "stored when it comes back",
                self._name,
                type(error).__name__,
            )
        self._failed_at, self.failure = time.monotonic(), error

    def ends(self) -> None:
        """The store answered."""
        if self.failure is not None:
            self.failure = None
            logger.info("%s is available again", self._name)

    def postponed(self, error: Exception) -> None:
        """Say that an edit waits until the next time; raise what waiting does not cure."""
        if isinstance(error, self._defects):
            raise error
        logger.info("%s: what it holds is edited later (%s)", self._name, type(error).__name__)
