"""Keep a conversation going while its store is down, and deliver what waits when it is back."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from history_curator.errors import HistoryCuratorError
from history_curator.run_steps import Call, Steps

T = TypeVar("T")
R = TypeVar("R")

logger = logging.getLogger("history_curator.store")

LOCK_SECONDS = 2.0
"""How long a sync call waits for an async one, which may wait for a loop that is blocked."""
_DEFECTS = (AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)


def is_defect(error: Exception) -> bool:
    """Whether an error will come again however long we wait: a bug, or a `DataError` (PEP 249)."""
    kinds = type(error).__mro__
    return isinstance(error, _DEFECTS) or any(kind.__name__ == "DataError" for kind in kinds)


@dataclass(slots=True, eq=False)
class Batch(Generic[T]):
    """Items that go to the store together; a refusal says why the store will never take them."""

    items: list[T]
    replaces: bool = False
    attempted: bool = False
    refusal: Exception | None = None


class WriteBehind(Generic[T]):
    """A store with a memory and an outbox, for adapters.

    Each method returns steps, to be run by `run_sync` or `run_async`; the two may be mixed.

    Guaranteed while this object lives: items reach the store in the order they were added, and
    none is lost, however often the store fails; an item with an id is stored once. In an outage
    `read` returns the last known items and everything added since. An outage is one warning and
    one message when it ends, without a word of the conversation.

    The store's operations are functions: `load` all and `append`, and among `calls` ``clear``,
    ``replace`` (all) and ``edit`` (in place). The same with an ``a`` are awaited; where one is
    missing the plain one runs in a thread. `stamp` gives an item the id that `key` returns: by it
    an item is found again after a write that failed.
    """

    def __init__(
        self,
        load: Callable[[], Sequence[T]],
        append: Callable[[Sequence[T]], Any],
        *,
        stamp: Callable[[T], T] = lambda item: item,
        key: Callable[[T], Hashable] = lambda _: None,
        name: str = "store",
        **calls: Callable[..., Any] | None,
    ) -> None:
        self._calls: dict[str, Any] = {"load": load, "append": append, **calls}
        self._stamp, self._key, self._name = stamp, key, name
        self.failure: Exception | None = None
        """The store's error while it is down. It may quote the conversation."""
        self._outbox: deque[Batch[T]] = deque()
        self._known: list[T] = []
        self._lock = threading.Lock()
        self._holder: int | None = None

    @property
    def pending(self) -> tuple[T, ...]:
        """The items that wait for the store, oldest first."""
        return tuple(item for batch in tuple(self._outbox) for item in batch.items)

    def read(self) -> Steps[list[T]]:
        """Return every item, from the store where it answers."""
        yield from self._run_alone(self._ask("load"))
        items = list(self._known)
        for batch in tuple(self._outbox):
            items = list(batch.items) if batch.replaces else items + batch.items
        return items

    def add(self, items: Sequence[T], *, replace: bool = False) -> Steps[bool]:
        """Store items, in place of all others if you say so. True when stored, False when queued."""
        # Queued before any lock or await, so that the order is the order of the calls.
        batch = Batch(list(map(self._stamp, items)), replace)
        if batch.items or replace:
            self._outbox.append(batch)

        def send() -> Steps[bool]:
            delivered = yield from self.flush()
            if batch.refusal is not None:
                raise batch.refusal
            return delivered

        return send()

    def flush(self) -> Steps[bool]:
        """Deliver what is queued. True when nothing is left waiting."""
        return bool((yield from self._run_alone(self._flush())))

    def revise(self, change: Callable[[list[T]], Sequence[T] | None]) -> Steps[bool]:
        """Let the store edit what it holds, or replace it by ``change(stored)`` unless that is None.

        True when done. Items that another process adds while all is replaced are lost.
        """
        return bool((yield from self._run_alone(self._revise(change))))

    def _flush(self) -> Steps[bool]:
        while self._outbox:
            batch = self._outbox[0]
            try:
                yield from self._deliver(batch)
            except Exception as error:  # noqa: BLE001
                if batch.refusal is None:
                    self._note(error)
                    return False
                # Who added it may wait no longer: then this line is all that tells.
                text, kind = "%s refused for good, messages: %d (%s)", type(error).__name__
                logger.error(text, self._name, len(batch.items), kind)  # noqa: TRY400
            self._outbox.popleft()
            self._note(None)
        return True

    def _deliver(self, batch: Batch[T]) -> Steps[None]:
        write = "append"
        if batch.replaces:
            write, self._known = "replace" if batch.items else "clear", []
        elif batch.attempted:  # some of it may have arrived
            self._known = list((yield self._call("load")))
            stored = set(map(self._key, self._known)) - {None}
            batch.items = [item for item in batch.items if self._key(item) not in stored]
        batch.attempted = True
        try:
            if batch.items or batch.replaces:
                yield self._call(write, *([] if write == "clear" else [batch.items]))
        except Exception as error:
            batch.refusal = error if is_defect(error) else None
            raise
        self._known += batch.items

    def _revise(self, change: Callable[[list[T]], Sequence[T] | None]) -> Steps[bool]:
        if "edit" in self._calls:
            return (yield from self._ask("edit"))
        is_loaded = yield from self._ask("load")
        changed = change(list(self._known)) if is_loaded else None
        if changed is None:
            return is_loaded
        items = [self._stamp(item) if self._key(item) is None else item for item in changed]
        self._outbox.appendleft(Batch(items, replaces=True))
        return (yield from self._flush())

    def _ask(self, operation: str) -> Steps[bool]:
        """Deliver what waits, then ask the store. False while it is down."""
        if not (yield from self._flush()):
            return False
        try:
            result = yield self._call(operation)
        except Exception as error:  # noqa: BLE001
            self._note(error)
            return False
        self._note(None)
        if operation == "load":
            self._known = list(result)
        return True

    # One body at a time, whether threads or tasks run it.

    def _run_alone(self, steps: Steps[R]) -> Steps[R | None]:
        """Run steps; None when another call is in the way of a sync one for too long."""
        if not (yield Call(self._wait_for_lock, self._await_lock)):
            return None
        self._holder = threading.get_ident()
        try:
            return (yield from steps)
        finally:
            self._holder = None
            self._lock.release()

    def _wait_for_lock(self) -> bool:
        if self._holder == threading.get_ident():
            problem = "is in use by a task of the running event loop, or by its own store"
            raise HistoryCuratorError(f"{self._name} {problem}. Fix: await the async method here.")
        return self._lock.acquire(timeout=LOCK_SECONDS)

    async def _await_lock(self) -> bool:
        # One lock for threads and tasks of any loop; a task must not block its loop for it.
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        return True

    def _call(self, operation: str, *arguments: Any) -> Call:
        plain: Any = self._calls.get(operation)
        awaited = self._calls.get(f"a{operation}") or partial(_run_in_thread, plain)
        return Call(plain, awaited, arguments)

    def _note(self, error: Exception | None) -> None:
        """Remember the store's error, or that there is none, and log when an outage begins or ends."""
        if error is not None and is_defect(error):
            raise error
        if error is not None and self.failure is None:
            # Only the kind of error: a driver's text may quote the messages it was given.
            text = "%s is unavailable (%s): the conversation goes on from memory until it is back"
            logger.warning(text, self._name, type(error).__name__)
        elif error is None and self.failure is not None:
            logger.info("%s is available again", self._name)
        self.failure = error


async def _run_in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    # A thread cannot be cancelled, so its write has to end before the lock is let go.
    running = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
