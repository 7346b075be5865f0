"""A store that fails in every way, and what is in it afterwards."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from history_curator.record import outbox
from history_curator.record.outbox import WriteBehind
from history_curator.run_steps import run_async, run_sync

Buffer = WriteBehind[Any]
_ids = count()


class Store:
    """A store of texts whose operations fail on demand, before or after they took effect."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.down = False
        self.after: int | None = None
        self.calls: list[str] = []

    def _meet(self, name: str) -> None:
        self.calls.append(name)
        if self.down:
            raise ConnectionError("refused")

    def load(self) -> list[Any]:
        self._meet("load")
        return list(self.rows)

    def append(self, items: Sequence[Any]) -> None:
        self._meet("append")
        self.rows.extend(items[: self.after])
        if self.after is not None:
            raise ConnectionResetError("gone before the answer")

    def replace(self, items: Sequence[Any]) -> None:
        self._meet("replace")
        self.rows[:] = items
        if self.after is not None:
            raise ConnectionResetError("gone before the answer")

    def clear(self) -> None:
        self._meet("clear")
        self.rows.clear()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def buffer(store: Store) -> Buffer:
    return WriteBehind(store.load, store.append, clear=store.clear)


def stamped_buffer(store: Store, **options: Any) -> Buffer:
    calls: dict[str, Any] = {"append": store.append, "clear": store.clear, **options}
    return WriteBehind(
        store.load, **calls, stamp=lambda text: (next(_ids), text), key=lambda item: item[0]
    )


def texts(rows: Sequence[Any]) -> list[str]:
    return [text for _, text in rows]


class TestOutage:
    def test_messages_of_an_outage_arrive_in_order(self, store: Store, buffer: Buffer) -> None:
        assert run_sync(buffer.add(["a", "b"]))
        store.down = True
        assert not run_sync(buffer.add(["c"]))
        assert not run_sync(buffer.add(["d", "e"]))
        assert run_sync(buffer.read()) == ["a", "b", "c", "d", "e"]
        assert buffer.pending == ("c", "d", "e")
        store.down = False
        assert run_sync(buffer.add(["f"]))
        assert store.rows == ["a", "b", "c", "d", "e", "f"] == run_sync(buffer.read())
        assert not buffer.pending

    def test_an_unknown_store_reads_as_empty_in_an_outage(
        self, store: Store, buffer: Buffer
    ) -> None:
        store.rows = ["earlier"]
        store.down = True
        assert run_sync(buffer.read()) == []
        assert isinstance(buffer.failure, ConnectionError)
        store.down = False
        run_sync(buffer.add(["now"]))
        assert run_sync(buffer.read()) == ["earlier", "now"] == store.rows
        assert buffer.failure is None

    def test_an_outage_is_one_warning_and_one_message(
        self, store: Store, buffer: Buffer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, logger="history_curator.store")
        for store.down in (True, False, True, False):
            run_sync(buffer.read())
            run_sync(buffer.add(["x"]))
            run_sync(buffer.read())
        levels = [record.levelname for record in caplog.records]
        assert levels == ["WARNING", "INFO", "WARNING", "INFO"]

    @pytest.mark.parametrize("arrived", [0, 1, 2, 3])
    def test_items_with_ids_are_neither_doubled_nor_lost_by_a_write_that_failed(
        self, store: Store, arrived: int
    ) -> None:
        buffer = stamped_buffer(store)
        run_sync(buffer.add(["ok", "ok"]))
        store.after = arrived
        assert not run_sync(buffer.add(["ok", "b", "ok"]))
        assert texts(run_sync(buffer.read())) == ["ok", "ok", "ok", "b", "ok"]
        store.rows.append((-1, "another writer's ok"))
        store.after = None
        assert run_sync(buffer.add(["d"]))
        ours = [text for key, text in store.rows if key >= 0]
        assert ours == ["ok", "ok", "ok", "b", "ok", "d"]


class TestRevise:
    def test_the_stored_items_are_replaced(self, store: Store) -> None:
        buffer = WriteBehind(store.load, store.append, replace=store.replace)
        run_sync(buffer.add(["a", "b"]))
        assert run_sync(buffer.revise(lambda stored: [item.upper() for item in stored]))
        assert store.rows == ["A", "B"] == run_sync(buffer.read())
        store.calls.clear()
        assert run_sync(buffer.revise(lambda stored: None))
        assert store.calls == ["load"]

    def test_a_replacement_that_failed_halfway_is_finished(self, store: Store) -> None:
        buffer = WriteBehind(store.load, store.append, replace=store.replace)
        run_sync(buffer.add(["a", "b"]))
        store.after = 1
        assert not run_sync(buffer.revise(lambda stored: ["A", "B"]))
        assert run_sync(buffer.read()) == ["A", "B"]
        assert not run_sync(buffer.add(["c"]))
        store.after = None
        assert run_sync(buffer.flush())
        assert store.rows == ["A", "B", "c"]

    def test_a_store_that_can_edit_does_so(self, store: Store) -> None:
        buffer = WriteBehind(store.load, store.append, edit=lambda: store.replace(["c"]))
        run_sync(buffer.add(["a"]))
        assert run_sync(buffer.revise(lambda stored: ["never"]))
        assert store.rows == ["c"]

    def test_a_store_that_is_down_is_cleared_later(self, store: Store, buffer: Buffer) -> None:
        run_sync(buffer.add(["a"]))
        store.down = True
        run_sync(buffer.add([], replace=True))
        run_sync(buffer.add(["b"]))
        assert run_sync(buffer.read()) == ["b"]
        store.down = False
        assert run_sync(buffer.flush())
        assert store.rows == ["b"]


class DataError(Exception):
    """A driver's error for a value that it can never store."""


class TestDefects:
    """Errors that waiting does not cure are raised."""

    @pytest.mark.parametrize("kind", [TypeError, type("Untranslatable", (DataError,), {})])
    def test_a_refused_item_does_not_block_the_next(
        self, kind: type[Exception], store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        def append(items: Any) -> None:
            if "bad" in items and not store.down:
                raise kind("not storable")
            store.append(items)

        buffer = WriteBehind(store.load, append)
        with pytest.raises(kind, match="storable"):
            run_sync(buffer.add(["bad"]))
        assert run_sync(buffer.add(["good"]))
        assert store.rows == ["good"]
        store.down = True
        run_sync(buffer.add(["bad"]))  # nobody waits for it when the store is back
        store.down = False
        assert run_sync(buffer.add(["better"]))
        assert store.rows == ["good", "better"]
        assert f"store refused for good, messages: 1 ({kind.__name__})" in caplog.text

    def test_an_unreadable_store_is_not_an_outage(self, store: Store) -> None:
        def load() -> list[Any]:
            raise ValueError("row 3 is not JSON")

        buffer = WriteBehind(load, store.append)
        with pytest.raises(ValueError, match="row 3"):
            run_sync(buffer.read())
        assert buffer.failure is None


class TestAsync:
    async def test_sync_and_async_calls_share_the_outbox(self, store: Store) -> None:
        async def aappend(items: Any) -> None:
            await asyncio.sleep(0)
            store.append(items)

        buffer = stamped_buffer(store, aappend=aappend)
        await run_async(buffer.add(["a"]))
        store.after = 1
        assert not await run_async(buffer.add(["b", "c"]))
        assert texts(await run_async(buffer.read())) == ["a", "b", "c"]
        store.after = None
        assert await run_async(buffer.flush())
        assert texts(store.rows) == ["a", "b", "c"]
        await run_async(buffer.add([], replace=True))
        assert store.rows == []

    async def test_tasks_keep_the_order_of_their_calls(self, store: Store) -> None:
        async def aappend(items: Any) -> None:
            await asyncio.sleep(0.001)
            store.append(items)

        buffer: Buffer = WriteBehind(store.load, store.append, aappend=aappend)
        await asyncio.gather(*(run_async(buffer.add([number])) for number in range(30)))
        assert store.rows == list(range(30))

    async def test_a_cancelled_write_is_neither_lost_nor_doubled(self, store: Store) -> None:
        release, started = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def append(items: Any) -> None:
            loop.call_soon_threadsafe(started.set)
            release.wait(5)
            store.append(items)

        buffer = stamped_buffer(store, append=append)
        task = asyncio.create_task(run_async(buffer.add(["a"])))
        await started.wait()
        task.cancel()
        await asyncio.sleep(0)
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await run_async(buffer.add(["b"]))
        assert texts(store.rows) == ["a", "b"]

    async def test_a_sync_call_does_not_wait_for_a_blocked_loop(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(outbox, "LOCK_SECONDS", 0.05)
        event = asyncio.Event()

        async def aappend(items: Any) -> None:
            await event.wait()
            store.append(items)

        buffer: Buffer = WriteBehind(store.load, store.append, aappend=aappend)
        task = asyncio.create_task(run_async(buffer.add(["a"])))
        await asyncio.sleep(0.01)
        assert await asyncio.to_thread(run_sync, buffer.read()) == ["a"]
        assert not await asyncio.to_thread(run_sync, buffer.add(["b"]))
        event.set()
        await task
        assert store.rows == ["a", "b"]


def test_threads_share_one_outbox(store: Store, buffer: Buffer) -> None:
    def write(writer: int) -> None:
        for number in range(50):
            if number == 20:
                store.down = writer == 0
            run_sync(buffer.add([(writer, number)]))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.down = False
    assert run_sync(buffer.flush())
    assert len(store.rows) == 200
    for writer in range(4):
        assert [n for w, n in store.rows if w == writer] == list(range(50))
