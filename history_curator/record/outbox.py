"""Keep a conversation going while its store is down, and deliver what waits when it is back."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from history_curator.errors import HistoryCuratorError
from history_curator.run_steps import Call, Steps, run_async, run_sync

T = TypeVar("T")
R = TypeVar("R")
Change = Callable[[list[T]], Sequence[T] | None]

logger = logging.getLogger("history_curator.store")

DEFECTS = (AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
"""Errors that waiting does not cure: they are raised, not waited out."""

LOCK_SECONDS = 2.0
"""How long a sync call waits for an async one, which may wait for a loop that is blocked."""


@dataclass(slots=True, eq=False)
class Batch(Generic[T]):
    """Items that go to the store together."""

    items: list[T]
    replaces: bool = False
    attempted: bool = False
    refusal: Exception | None = None


class WriteBehind(Generic[T]):
    """A store with a memory and an outbox, for adapters.

    Guaranteed while this object lives: items reach the store in the order they were added, and
    none is lost, however often the store fails; an item with an id is stored once. In an outage
    `read` returns the last known items and everything added since. An outage is one warning in
    ``history_curator.store`` and one message when it ends, without a word of the conversation.
    Sync and async calls may be mixed. `pending` items do not survive the process.

    The store's operations are functions: `load` all and `append`, and among `calls` ``clear``,
    ``replace`` (all) and ``edit`` (in place). The same with an ``a`` are awaited; where one is
    missing the plain one runs in a thread. `stamp` gives an item an id when it is added, and `key`
    returns it: by it an item is found again after a write that failed.

    Examples:
        >>> rows = []
        >>> buffer = WriteBehind(lambda: list(rows), rows.extend)
        >>> buffer.add(["hello"]), buffer.read()
        (True, ['hello'])
    """

    def __init__(
        self,
        load: Callable[[], Sequence[T]],
        append: Callable[[Sequence[T]], Any],
        *,
        stamp: Callable[[T], T] | None = None,
        key: Callable[[T], Hashable] | None = None,
        retry_after: float = 0.0,
        name: str = "store",
        **calls: Callable[..., Any] | None,
    ) -> None:
        self._calls = {"load": load, "append": append, **calls}
        self._stamp, self._key = stamp or (lambda item: item), key or (lambda _: None)
        self._retry_after, self._name = retry_after, name
        self.failure: Exception | None = None
        """The store's error while it is down. It may quote the conversation."""
        self._failed_at = 0.0
        self._outbox: deque[Batch[T]] = deque()
        self._known: list[T] = []
        self._lock = threading.Lock()
        self._holder: int | None = None

    @property
    def pending(self) -> tuple[T, ...]:
        """The items that wait for the store, oldest first."""
        return tuple(item for batch in tuple(self._outbox) for item in batch.items)

    @property
    def degraded(self) -> bool:
        """Whether the store failed the last time it was asked."""
        return self.failure is not None

    def read(self) -> list[T]:
        """Return every item, from the store where it answers."""
        return self._run(self._read()) or self._in_memory()

    async def aread(self) -> list[T]:
        """Return every item; see `read`."""
        return await self._arun(self._read())

    def add(self, items: Sequence[T]) -> bool:
        """Store items, or queue them while the store is down. True when stored."""
        return bool(self._run(self._add(items)))

    async def aadd(self, items: Sequence[T]) -> bool:
        """Store items; see `add`."""
        return await self._arun(self._add(items))

    def flush(self) -> bool:
        """Deliver what is queued. True when nothing is left waiting."""
        return bool(self._run(self._flush()))

    async def aflush(self) -> bool:
        """Deliver what is queued; see `flush`."""
        return await self._arun(self._flush())

    def rewrite(self, change: Change[T]) -> bool:
        """Replace what is stored by ``change(stored)``, unless that is None or the same list.

        True when the store holds the result. Items that another process adds in between are lost.
        """
        return bool(self._run(self._rewrite(change)))

    async def arewrite(self, change: Change[T]) -> bool:
        """Replace what is stored; see `rewrite`."""
        return await self._arun(self._rewrite(change))

    def edit(self) -> bool:
        """Let the store edit what it holds. False when it cannot be reached, or something waits."""
        return self._run(self._ask_store("edit")) is not None

    async def aedit(self) -> bool:
        """Let the store edit what it holds; see `edit`."""
        return await self._arun(self._ask_store("edit")) is not None

    def clear(self) -> bool:
        """Forget everything. A store that is down is cleared when it comes back."""
        return bool(self._run(self._add([], replaces=True)))

    async def aclear(self) -> bool:
        """Forget everything; see `clear`."""
        return await self._arun(self._add([], replaces=True))

    def _add(self, items: Sequence[T], *, replaces: bool = False) -> Steps[bool]:
        # Queued before any lock or await, so that the order is the order of the calls.
        batch = Batch(list(map(self._stamp, items)), replaces)
        if batch.items or replaces:
            self._outbox.append(batch)
        return self._send(batch)

    def _send(self, batch: Batch[T]) -> Steps[bool]:
        delivered = yield from self._flush()
        if batch.refusal is not None:
            raise batch.refusal
        return delivered

    def _flush(self) -> Steps[bool]:
        if self.failure and time.monotonic() - self._failed_at < self._retry_after:
            return False
        while self._outbox:
            batch = self._outbox[0]
            try:
                yield from self._deliver(batch)
            except Exception as error:  # noqa: BLE001
                if batch.refusal is None:
                    self._note_failure(error)
                    return False
            self._outbox.popleft()
            self._note_success()
        return True

    def _deliver(self, batch: Batch[T]) -> Steps[None]:
        items, writes = batch.items, ["append"]
        if batch.replaces:
            can_replace = self._calls.get("replace") or self._calls.get("areplace")
            writes = ["clear", "append"] if items else ["clear"]
            writes = ["replace"] if items and can_replace else writes
            self._known = []
        elif batch.attempted:  # some of it may have arrived
            self._known = list((yield self._call("load")))
            stored = set(map(self._key, self._known)) - {None}
            items = batch.items = [item for item in items if self._key(item) not in stored]
        batch.attempted = True
        try:
            for write in writes if items or batch.replaces else ():
                yield self._call(write, *([] if write == "clear" else [items]))
        except DEFECTS as error:
            batch.refusal = error
            raise
        self._known += items

    def _ask_store(self, operation: str, *arguments: Any) -> Steps[tuple[Any] | None]:
        """Deliver what waits, then return the result of one operation; None while it is down."""
        if not (yield from self._flush()):
            return None
        try:
            result = yield self._call(operation, *arguments)
        except Exception as error:  # noqa: BLE001
            self._note_failure(error)
            return None
        self._note_success()
        return (result,)

    def _read(self) -> Steps[list[T]]:
        stored = yield from self._ask_store("load")
        if stored is not None:
            self._known = list(stored[0])
        return self._in_memory()

    def _rewrite(self, change: Change[T]) -> Steps[bool]:
        found = yield from self._ask_store("load")
        if found is None:
            return False
        self._known = stored = list(found[0])
        changed = change(list(stored))
        if changed is None or list(map(id, changed)) == list(map(id, stored)):
            return True
        items = [self._stamp(item) if self._key(item) is None else item for item in changed]
        batch = Batch(items, replaces=True)
        self._outbox.appendleft(batch)
        return (yield from self._send(batch))

    # One body at a time, whether threads or tasks run it.

    def _run(self, steps: Steps[R]) -> R | None:
        """Run steps in sync code; None when another call is in the way for too long."""
        if self._holder == threading.get_ident():
            problem = "is in use by a task of the running event loop, or by its own store"
            raise HistoryCuratorError(f"{self._name} {problem}. Fix: await the async method here.")
        if not self._lock.acquire(timeout=LOCK_SECONDS):
            return None
        self._holder = threading.get_ident()
        try:
            return run_sync(steps)
        finally:
            self._holder = None
            self._lock.release()

    async def _arun(self, steps: Steps[R]) -> R:
        # One lock for threads and tasks of any loop; a task must not block its loop for it.
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        self._holder = threading.get_ident()
        try:
            return await run_async(steps)
        finally:
            self._holder = None
            self._lock.release()

    def _call(self, operation: str, *arguments: Any) -> Call:
        plain, awaited = self._calls.get(operation), self._calls.get(f"a{operation}")
        if plain is None:
            problem = f"{self._name} cannot {operation}. Fix: pass {operation}= to WriteBehind."
            plain = partial(_raise, NotImplementedError(problem))
        return Call(plain, awaited or partial(_run_in_thread, plain), arguments)

    def _in_memory(self) -> list[T]:
        items = list(self._known)
        for batch in tuple(self._outbox):
            items = list(batch.items) if batch.replaces else items + batch.items
        return items

    def _note_failure(self, error: Exception) -> None:
        if isinstance(error, DEFECTS):
            raise error
        if self.failure is None:
            # Only the kind of error: a driver's text may quote the messages it was given.
            text = "%s is unavailable (%s): the conversation goes on from memory until it is back"
            logger.warning(text, self._name, type(error).__name__)
        self._failed_at, self.failure = time.monotonic(), error

    def _note_success(self) -> None:
        if self.failure is not None:
            self.failure = None
            logger.info("%s is available again", self._name)


def _raise(error: Exception, *_: Any) -> None:
    raise error


async def _run_in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    # A thread cannot be cancelled, so its write has to end before the lock is let go.
    running = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
