"""Keeps a conversation going while its store is down, and catches the store up afterwards.

For adapters: build one `WriteBehind` around the store's own functions and go through it. Every
method has an async twin, which awaits the store's async functions where given and runs the plain
ones in a thread where not. Sync and async calls may be mixed on one object and come from several
threads.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from history_curator._drive import Body
from history_curator.record._operations import Blocked, Operations, Outage

__all__ = ["DEFECTS", "WriteBehind"]

T = TypeVar("T")

DEFECTS: tuple[type[Exception], ...] = (
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
)
"""Errors that waiting does not cure: they are raised, not waited out."""


@dataclass(slots=True)
class _Batch(Generic[T]):
    items: list[T]
    replaces: bool = False
    attempted: bool = False
    refusal: Exception | None = None


class WriteBehind(Generic[T]):
    """A store with a memory and an outbox.

    Guaranteed while this object lives: items reach the store in the order they were added, none
    is lost and none is stored twice, however often the store fails, whether or not a failed
    write had arrived, and whatever others write meanwhile. Neither `read` nor `add` waits for an
    event loop that is blocked: they go on from memory, as in an outage. An outage is one warning in
    ``history_curator.store`` when it begins and one message when it ends; neither holds anything
    of the conversation, and `failure` has the error itself. Reading during an outage returns what
    was last read or written here, and everything added since. Not guaranteed: what waits survives
    the end of the process only if the caller saves `pending`.

    Args:
        load: returns everything stored, oldest first.
        append: stores items after what is there.
        clear: removes everything stored.
        replace: stores items instead of what is there, best in one transaction. Without it
            `rewrite` clears and appends.
        edit: edits in place what is stored; returns whether anything changed.
        stamp: returns an item with an id of its own, called when the item is added.
        key: returns an item's unique id, to recognise it in the store after a write whose
            outcome is unknown. Items without one are compared with `same`, from where the store
            was known to end, among stored items without one; with several writers that cannot
            tell two equal items apart, so pass a stamp and a key.
        same: whether a stored item is the given one.
        retry_after: seconds to leave a failed store alone before it is tried again.
        name: the store's name in log messages.
        defects: errors that are raised instead of waited out.

    Examples:
        >>> rows = []
        >>> buffer = WriteBehind(lambda: list(rows), rows.extend)
        >>> buffer.add(["hello"])
        True
        >>> buffer.read()
        ['hello']
    """

    def __init__(
        self,
        load: Callable[[], Sequence[T]],
        append: Callable[[Sequence[T]], Any],
        *,
        clear: Callable[[], Any] | None = None,
        replace: Callable[[Sequence[T]], Any] | None = None,
        edit: Callable[[Any], Any] | None = None,
        aload: Callable[[], Awaitable[Sequence[T]]] | None = None,
        aappend: Callable[[Sequence[T]], Awaitable[Any]] | None = None,
        aclear: Callable[[], Awaitable[Any]] | None = None,
        areplace: Callable[[Sequence[T]], Awaitable[Any]] | None = None,
        aedit: Callable[[Any], Awaitable[Any]] | None = None,
        stamp: Callable[[T], T] | None = None,
        key: Callable[[T], Hashable] | None = None,
        same: Callable[[T, T], bool] = operator.eq,
        retry_after: float = 0.0,
        name: str = "store",
        defects: tuple[type[Exception], ...] = DEFECTS,
    ) -> None:
        self._store = Operations(
            name,
            {"load": load, "append": append, "clear": clear, "replace": replace, "edit": edit},
            {"load": aload, "append": aappend, "clear": aclear, "replace": areplace, "edit": aedit},
        )
        self._stamp = stamp
        self._key = key
        self._same = same
        self._defects = defects
        self._outage = Outage(name, retry_after, defects)
        self._outbox: deque[_Batch[T]] = deque()
        self._known: list[T] = []
        self._mark: int | None = None

    @property
    def pending(self) -> tuple[T, ...]:
        """What waits for the store, oldest first."""
        return tuple(item for batch in tuple(self._outbox) for item in batch.items)

    @property
    def degraded(self) -> bool:
        """Whether the store failed the last time it was asked."""
        return self._outage.failure is not None

    @property
    def failure(self) -> Exception | None:
        """The error the store failed with last time, while it is down. It may quote what was said."""
        return self._outage.failure

    def read(self) -> list[T]:
        """Return everything said, from the store where it answers."""
        try:
            return self._store.run(self._read())
        except Blocked:
            return self._in_memory()

    async def aread(self) -> list[T]:
        """Return everything said, from the store where it answers."""
        return await self._store.arun(self._read())

    def add(self, items: Sequence[T]) -> bool:
        """Store items, or queue them while the store is down. True when stored."""
        batch = self._enqueue(items)
        try:
            return self._outcome(batch, self._store.run(self._flush()))
        except Blocked:
            return False  # whoever uses the store next delivers it

    async def aadd(self, items: Sequence[T]) -> bool:
        """Store items, or queue them while the store is down. True when stored."""
        batch = self._enqueue(items)
        return self._outcome(batch, await self._store.arun(self._flush()))

    def flush(self) -> bool:
        """Deliver what is queued. True when nothing is left waiting."""
        return self._store.run(self._flush())

    async def aflush(self) -> bool:
        """Deliver what is queued. True when nothing is left waiting."""
        return await self._store.arun(self._flush())

    def rewrite(self, change: Callable[[list[T]], Sequence[T] | None]) -> bool:
        """Replace what is stored by ``change(stored)``; None or the same list leaves it alone.

        True when the store holds the result. While the store cannot be read nothing happens.
        Another process that writes between the read and the replacement would lose its items, so
        only one process should rewrite a conversation; appending is safe from any number.
        """
        return self._store.run(self._rewrite(change))

    async def arewrite(self, change: Callable[[list[T]], Sequence[T] | None]) -> bool:
        """Replace what is stored by ``change(stored)``; see `rewrite`."""
        return await self._store.arun(self._rewrite(change))

    def edit(self, argument: Any = None) -> bool:
        """Let the store edit what it holds. False when it cannot be reached, or something waits."""
        return self._store.run(self._edit(argument))

    async def aedit(self, argument: Any = None) -> bool:
        """Let the store edit what it holds; see `edit`."""
        return await self._store.arun(self._edit(argument))

    def clear(self) -> bool:
        """Forget everything. While the store is down it is cleared when it comes back."""
        return self._store.run(self._clear())

    async def aclear(self) -> bool:
        """Forget everything. While the store is down it is cleared when it comes back."""
        return await self._store.arun(self._clear())

    # What each method does, written once: a body yields store operations and is sent results.

    def _enqueue(self, items: Sequence[T]) -> _Batch[T]:
        # Before any lock or await, so that the order is the order of the calls.
        batch = _Batch(list(items) if self._stamp is None else [self._stamp(one) for one in items])
        if batch.items:
            self._outbox.append(batch)
        return batch

    def _outcome(self, batch: _Batch[T], stored: bool) -> bool:
        # Whoever delivers a batch, its owner is told that the store refused it.
        if batch.refusal is not None:
            raise batch.refusal
        return stored

    def _read(self) -> Body[list[T]]:
        if (yield from self._flush()) and not self._outage.resting:
            try:
                self._remember((yield self._store.ask("load")))
            except Exception as error:  # noqa: BLE001
                self._outage.begins(error)
            else:
                self._outage.ends()
        return self._in_memory()

    def _flush(self) -> Body[bool]:
        while self._outbox:
            if self._outage.resting:
                return False
            batch = self._outbox[0]
            try:
                yield from self._deliver(batch)
            except Exception as error:  # noqa: BLE001
                if batch.refusal is None:
                    self._outage.begins(error)
                    return False
            self._outbox.popleft()
            self._outage.ends()
        return True

    def _deliver(self, batch: _Batch[T]) -> Body[None]:
        if batch.replaces:
            yield from self._replace(batch)
            return
        items = batch.items
        if batch.attempted:
            stored = list((yield self._store.ask("load")))
            items = self._missing(items, stored)
            self._remember(stored)
        elif self._mark is None and not self._all_have_keys(items):
            # Where the store ends must be known before a write can be in doubt.
            self._remember((yield self._store.ask("load")))
        if items:
            batch.items = items
            batch.attempted = True
            yield from self._write(batch, "append", items)
            self._known.extend(items)
            if self._mark is not None:
                self._mark += len(items)

    def _replace(self, batch: _Batch[T]) -> Body[None]:
        items = batch.items
        if items and self._store.offers("replace"):
            yield from self._write(batch, "replace", items)
        else:
            yield from self._write(batch, "clear")
            if items:
                yield from self._write(batch, "append", items)
        self._remember(items)

    def _write(self, batch: _Batch[T], step: str, *arguments: Any) -> Body[None]:
        try:
            yield self._store.ask(step, *arguments)
        except self._defects as error:
            batch.refusal = error
            raise

    def _rewrite(self, change: Callable[[list[T]], Sequence[T] | None]) -> Body[bool]:
        if not (yield from self._flush()) or self._outage.resting:
            return False
        try:
            stored = list((yield self._store.ask("load")))
        except Exception as error:  # noqa: BLE001
            self._outage.begins(error)
            return False
        self._remember(stored)
        changed = change(list(stored))
        if changed is None or _is_same_list(changed, stored):
            return True
        batch = _Batch([self._with_id(item) for item in changed], replaces=True)
        self._outbox.appendleft(batch)
        return self._outcome(batch, (yield from self._flush()))

    def _edit(self, argument: Any) -> Body[bool]:
        if not (yield from self._flush()) or self._outage.resting:
            return False
        try:
            changed = yield self._store.ask("edit", argument)
        except Exception as error:  # noqa: BLE001
            self._outage.postponed(error)
            return False
        self._outage.ends()
        if changed:
            self._mark = None
        return True

    def _clear(self) -> Body[bool]:
        self._outbox.clear()
        self._known = []
        batch: _Batch[T] = _Batch([], replaces=True)
        self._outbox.append(batch)
        return self._outcome(batch, (yield from self._flush()))

    # State.

    def _missing(self, items: list[T], stored: list[T]) -> list[T]:
        """Return the items of an unfinished write that did not arrive."""
        start = self._mark or 0
        recent = stored[start if start <= len(stored) else 0 :]
        if self._key is not None and self._all_have_keys(items):
            there = {self._key(item) for item in stored}
            if there & {self._key(item) for item in items} or self._all_have_keys(recent):
                return [item for item in items if self._key(item) not in there]
            # A store that loses ids: what came back without one may be ours.
            recent = [item for item in recent if self._key(item) is None]
        arrived = iter(recent)
        for position, item in enumerate(items):
            if not any(self._same(other, item) for other in arrived):
                return items[position:]
        return []

    def _with_id(self, item: T) -> T:
        if self._stamp is None or self._key is None or self._key(item) is not None:
            return item
        return self._stamp(item)

    def _all_have_keys(self, items: list[T]) -> bool:
        """Whether ids tell these items apart; one without an id is compared instead."""
        return self._key is not None and all(self._key(item) is not None for item in items)

    def _remember(self, stored: Sequence[T]) -> None:
        self._known = list(stored)
        self._mark = len(self._known)

    def _in_memory(self) -> list[T]:
        said = list(self._known)
        for batch in tuple(self._outbox):
            said = list(batch.items) if batch.replaces else said + batch.items
        return said


def _is_same_list(changed: Sequence[Any], stored: Sequence[Any]) -> bool:
    return len(changed) == len(stored) and all(map(operator.is_, changed, stored))
