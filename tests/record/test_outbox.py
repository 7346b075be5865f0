"""A store that fails in every way, and what is in it afterwards."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from typing import Any

import pytest

from history_curator.record.outbox import WriteBehind


class Flaky:
    """A store whose operations fail on demand, before or after they took effect."""

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

    def append(self, items: Any) -> None:
        self._meet("append")
        if self.after is not None:
            self.rows.extend(items[: self.after])
            raise ConnectionResetError("gone before the answer")
        self.rows.extend(items)

    def clear(self) -> None:
        self._meet("clear")
        self.rows.clear()


@pytest.fixture
def store() -> Flaky:
    return Flaky()


@pytest.fixture
def buffer(store: Flaky) -> WriteBehind[Any]:
    return WriteBehind(store.load, store.append, clear=store.clear)


class TestOutage:
    def test_said_meanwhile_arrives_in_order(self, store: Flaky, buffer: WriteBehind[Any]) -> None:
        assert buffer.add(["a", "b"])
        store.down = True
        assert not buffer.add(["c"])
        assert not buffer.add(["d", "e"])
        assert buffer.read() == ["a", "b", "c", "d", "e"]
        assert buffer.pending == ("c", "d", "e")
        store.down = False
        assert buffer.add(["f"])
        assert store.rows == ["a", "b", "c", "d", "e", "f"] == buffer.read()
        assert buffer.pending == ()

    def test_reading_flushes(self, store: Flaky, buffer: WriteBehind[Any]) -> None:
        store.down = True
        buffer.add(["a"])
        store.down = False
        assert buffer.read() == ["a"] == store.rows

    def test_degrades_to_empty_when_nothing_is_known(
        self, store: Flaky, buffer: WriteBehind[Any]
    ) -> None:
        store.rows = ["earlier"]
        store.down = True
        assert buffer.read() == []
        assert buffer.degraded
        store.down = False
        assert buffer.read() == ["earlier"]
        assert not buffer.degraded

    def test_one_warning_per_outage(
        self, store: Flaky, buffer: WriteBehind[Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, logger="history_curator.store"):
            for _ in range(2):
                store.down = True
                buffer.read()
                buffer.add(["x"])
                buffer.read()
                store.down = False
                buffer.read()
        levels = [record.levelname for record in caplog.records]
        assert levels == ["WARNING", "INFO", "WARNING", "INFO"]

    def test_rests_before_trying_again(self, store: Flaky) -> None:
        buffer = WriteBehind(store.load, store.append, retry_after=3600)
        store.down = True
        buffer.read()
        store.calls.clear()
        buffer.add(["a"])
        assert buffer.read() == ["a"]
        assert store.calls == []


class TestDoubt:
    """The write failed, but some of it may have arrived."""

    @pytest.mark.parametrize("arrived", [0, 1, 2, 3])
    def test_nothing_doubled_or_lost(
        self, store: Flaky, buffer: WriteBehind[Any], arrived: int
    ) -> None:
        store.rows = ["ok", "ok"]
        store.after = arrived
        assert not buffer.add(["ok", "b", "ok"])
        assert buffer.read() == ["ok", "ok", "ok", "b", "ok"]
        store.after = None
        assert buffer.add(["d"])
        assert store.rows == ["ok", "ok", "ok", "b", "ok", "d"]

    def test_unique_keys_tell_equal_words_of_two_writers_apart(self, store: Flaky) -> None:
        buffer = WriteBehind(store.load, store.append, key=lambda item: item[0])
        store.after = 0
        buffer.add([("mine", "ok")])
        store.rows.append(("theirs", "ok"))
        store.after = None
        assert buffer.flush()
        assert store.rows == [("theirs", "ok"), ("mine", "ok")]

    def test_keys_spare_the_load_before_the_first_write(self, store: Flaky) -> None:
        buffer = WriteBehind(store.load, store.append, key=lambda item: item)
        buffer.add(["a"])
        assert store.calls == ["append"]

    def test_another_writer_between_keeps_its_place(
        self, store: Flaky, buffer: WriteBehind[Any]
    ) -> None:
        buffer.add(["a"])
        store.after = 1
        buffer.add(["b", "c"])
        store.after = None
        store.rows.append("other")
        assert buffer.flush()
        assert store.rows == ["a", "b", "other", "c"]


class TestRewrite:
    def test_replaces_what_is_stored(self, store: Flaky, buffer: WriteBehind[Any]) -> None:
        buffer.add(["a", "b"])
        assert buffer.rewrite(lambda stored: [item.upper() for item in stored])
        assert store.rows == ["A", "B"] == buffer.read()

    def test_unchanged_is_not_written(self, store: Flaky, buffer: WriteBehind[Any]) -> None:
        buffer.add(["a"])
        store.calls.clear()
        assert buffer.rewrite(list)
        assert buffer.rewrite(lambda stored: None)
        assert set(store.calls) == {"load"}

    def test_failure_halfway_is_finished_later(
        self, store: Flaky, buffer: WriteBehind[Any]
    ) -> None:
        buffer.add(["a", "b"])
        store.after = 1
        assert not buffer.rewrite(lambda stored: ["A", "B"])
        assert buffer.read() == ["A", "B"]
        assert not buffer.add(["c"])
        store.after = None
        assert buffer.flush()
        assert store.rows == ["A", "B", "c"]

    def test_does_nothing_while_down(self, store: Flaky, buffer: WriteBehind[Any]) -> None:
        store.down = True
        assert not buffer.rewrite(lambda stored: ["never"])
        store.down = False
        assert buffer.read() == []

    def test_uses_replace_where_there_is_one(self, store: Flaky) -> None:
        def replace(items: Any) -> None:
            store.rows[:] = items

        buffer = WriteBehind(store.load, store.append, replace=replace)
        buffer.add(["a"])
        assert buffer.rewrite(lambda stored: ["b"])
        assert store.rows == ["b"]
        assert "clear" not in store.calls


class TestClear:
    def test_while_down_happens_later(self, store: Flaky, buffer: WriteBehind[Any]) -> None:
        buffer.add(["a"])
        store.down = True
        buffer.clear()
        buffer.add(["b"])
        assert buffer.read() == ["b"]
        store.down = False
        assert buffer.flush()
        assert store.rows == ["b"]

    def test_without_a_way_to_clear_says_so(self, store: Flaky) -> None:
        buffer = WriteBehind(store.load, store.append)
        with pytest.raises(NotImplementedError, match="pass clear="):
            buffer.clear()
        assert buffer.add(["still works"])


class TestDefects:
    def test_a_refused_item_is_raised_and_does_not_block(self, store: Flaky) -> None:
        def append(items: Any) -> None:
            if "bad" in items:
                raise TypeError("not serialisable")
            store.append(items)

        buffer = WriteBehind(store.load, append)
        with pytest.raises(TypeError, match="serialisable"):
            buffer.add(["bad"])
        assert buffer.add(["good"])
        assert store.rows == ["good"]

    def test_an_unreadable_store_is_not_an_outage(self, store: Flaky) -> None:
        broken = True

        def load() -> list[Any]:
            if broken:
                raise ValueError("row 3 is not JSON")
            return store.load()

        buffer = WriteBehind(load, store.append)
        with pytest.raises(ValueError, match="row 3"):
            buffer.add(["a"])
        assert buffer.pending == ("a",)
        broken = False
        assert buffer.flush()
        assert store.rows == ["a"]


class TestAsync:
    async def test_same_guarantees(self, store: Flaky) -> None:
        async def aload() -> list[Any]:
            await asyncio.sleep(0)
            return store.load()

        async def aappend(items: Any) -> None:
            await asyncio.sleep(0)
            store.append(items)

        buffer: WriteBehind[Any] = WriteBehind(
            store.load, store.append, aload=aload, aappend=aappend, clear=store.clear
        )
        await buffer.aadd(["a"])
        store.after = 1
        assert not await buffer.aadd(["b", "c"])
        assert await buffer.aread() == ["a", "b", "c"]
        store.after = None
        assert await buffer.aflush()
        assert store.rows == ["a", "b", "c"]
        assert await buffer.arewrite(lambda stored: stored[1:])
        assert buffer.read() == ["b", "c"]
        await buffer.aclear()
        assert store.rows == []

    async def test_concurrent_tasks_keep_the_order_of_their_calls(self, store: Flaky) -> None:
        async def aappend(items: Any) -> None:
            await asyncio.sleep(0.001)
            store.append(items)

        buffer: WriteBehind[Any] = WriteBehind(store.load, store.append, aappend=aappend)
        await asyncio.gather(*(buffer.aadd([number]) for number in range(30)))
        assert store.rows == list(range(30))

    async def test_cancelled_write_is_neither_lost_nor_doubled(self, store: Flaky) -> None:
        release = threading.Event()
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        def append(items: Any) -> None:
            loop.call_soon_threadsafe(started.set)
            release.wait(5)
            store.append(items)

        buffer: WriteBehind[Any] = WriteBehind(store.load, append)
        task = asyncio.create_task(buffer.aadd(["a"]))
        await started.wait()
        task.cancel()
        await asyncio.sleep(0)
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await buffer.aadd(["b"])
        assert store.rows == ["a", "b"]


def test_threads_share_one_outbox(store: Flaky, buffer: WriteBehind[Any]) -> None:
    def write(writer: int) -> None:
        for number in range(50):
            if number == 20:
                store.down = writer == 0
            buffer.add([(writer, number)])

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.down = False
    assert buffer.flush()
    assert len(store.rows) == 200
    for writer in range(4):
        assert [n for w, n in store.rows if w == writer] == list(range(50))


def test_given_items_are_not_changed(buffer: WriteBehind[Any]) -> None:
    items = [{"role": "user", "content": "hi"}]
    before = copy.deepcopy(items)
    buffer.add(items)
    buffer.rewrite(lambda stored: [])
    assert items == before
