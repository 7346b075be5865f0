"""Call an async-only store from sync code without losing its connections.

A database driver ties connections to the event loop that opened them, so one ``asyncio.run`` per
call would leave a pool full of dead ones.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

R = TypeVar("R")

Making = Callable[[], Coroutine[Any, Any, R]]
"""What makes a coroutine when it is called."""


class LoopBridge:
    """Runs coroutines for sync and async callers, as far as possible always on one loop.

    An async caller is awaited on its own loop until a sync caller comes, for whom a loop of ours
    is started; from then on everything goes there. A sync caller never waits for a loop it does
    not own: LlamaIndex blocks the running loop wherever it offers a sync form of something async,
    and what the loop waits for may be this very call.

    Args:
        move: called once, before anything runs on the loop of ours: gives up what the store
            opened on the loop before.
    """

    def __init__(self, move: Callable[[], None] | None = None) -> None:
        self._lock = threading.Lock()
        self._move = move
        self._own: asyncio.AbstractEventLoop | None = None
        self._used = False

    def run(self, make: Making[R]) -> R:
        """Run a coroutine to its end from sync code, also inside a running loop."""
        loop = self._own or self._start()
        return asyncio.run_coroutine_threadsafe(make(), loop).result()

    async def arun(self, make: Making[R]) -> R:
        """Await a coroutine."""
        if self._own is not None:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(make(), self._own))
        self._used = True
        return await make()

    def close(self) -> None:
        """Stop the loop of ours, if there is one."""
        if self._own is not None:
            self._own.call_soon_threadsafe(self._own.stop)

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._own is None:
                loop = asyncio.new_event_loop()
                name = "history-curator-store"
                threading.Thread(target=loop.run_forever, name=name, daemon=True).start()
                if self._move is not None and self._used:
                    self._move()
                self._own = loop
            return self._own


_bridges: dict[int, LoopBridge] = {}
_bridges_lock = threading.Lock()


def bridge_for(store: object, move: Callable[[], None] | None = None) -> LoopBridge:
    """Return the bridge of a store: one, however many memories are open on it."""
    key = id(store)
    with _bridges_lock:
        bridge = _bridges.get(key)
        if bridge is None:
            bridge = _bridges[key] = LoopBridge(move)
            weakref.finalize(store, _close, key)
        return bridge


def _close(key: int) -> None:
    bridge = _bridges.pop(key, None)
    if bridge is not None:
        bridge.close()
