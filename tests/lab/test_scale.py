"""Replay at scale: many executors, sources of all kinds, runs that are stopped, workers that die."""

from __future__ import annotations

import gzip
import json
import os
import signal
import time
from concurrent.futures import Executor, Future
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from history_curator import Curator
from history_curator.errors import ConfigurationError, ConversionError
from history_curator.lab import NoCuration, load_conversations, replay
from tests.lab.test_replay import _numbers, session
from tests.support.messages import assistant, user


def run(conversations: Any, policies: Any, **options: Any) -> Any:
    return replay(conversations, policies, **{"progress": False, "executor": "serial", **options})


def write(path: Path, talk: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"id": path.name, "messages": talk}) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


class TestSources:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        write(tmp_path / "a.json", [user("one"), assistant("1")])
        write(tmp_path / "deep" / "b.jsonl.gz", [user("two"), assistant("2")])
        (tmp_path / "README.md").write_text("not a conversation")
        return tmp_path

    def ids(self, *sources: Any) -> list[str]:
        return [each.id for each in load_conversations(*sources)]

    def test_a_folder_is_read_with_what_is_below_it(self, folder: Path) -> None:
        assert self.ids(folder) == ["a.json", "b.jsonl.gz"]

    def test_a_pattern(self, folder: Path) -> None:
        assert self.ids(f"{folder}/**/*.gz") == ["b.jsonl.gz"]

    def test_several_sources_in_their_order(self, folder: Path) -> None:
        assert self.ids(folder / "deep", folder / "a.json") == ["b.jsonl.gz", "a.json"]

    def test_nothing_found_is_an_error_that_names_the_source(self, tmp_path: Path) -> None:
        with pytest.raises(ConversionError, match="holds no conversations"):
            load_conversations(tmp_path)

    def test_replay_takes_a_folder(self, folder: Path) -> None:
        assert run(folder, ["no curation"])["no curation"].conversations == 2

    def test_an_object_store(self) -> None:
        fsspec = pytest.importorskip("fsspec", reason="fsspec is absent")
        store = fsspec.filesystem("memory")
        rows = "".join(
            json.dumps({"messages": [user("hi"), assistant("yes")]}) + "\n" for _ in "ab"
        )
        store.pipe("/logs/one.jsonl.gz", gzip.compress(rows.encode()))
        store.pipe("/logs/two.json", json.dumps([user("hi"), assistant("yes")]).encode())
        store.pipe("/logs/notes.txt", b"no")
        assert len(load_conversations("memory://logs")) == 3
        assert len(load_conversations("memory://logs/*.gz")) == 2
        assert len(load_conversations("memory://logs/two.json")) == 1


class Counted:
    """Writes a line for every conversation it is started on."""

    max_tokens = None

    def __init__(self, path: Path, stop_at: int = 10**6) -> None:
        self.path, self.stop_at = path, stop_at

    def start(self, conversation: Any, counter: Any) -> Any:
        seen = self.path.read_text().splitlines() if self.path.exists() else []
        if len(seen) >= self.stop_at:
            raise KeyboardInterrupt
        self.path.write_text("\n".join([*seen, conversation.id]) + "\n")
        return NoCuration().start(conversation, counter)


class TestStoppedRuns:
    def test_it_goes_on_where_it_was(self, tmp_path: Path) -> None:
        talks = [{"id": f"t{n}", "messages": session(60)} for n in range(4)]
        log = tmp_path / "log.txt"
        with pytest.raises(KeyboardInterrupt):
            run(talks, {"all": Counted(log, stop_at=2)}, finished=tmp_path / "run")
        assert len(log.read_text().split()) == 2
        results = run(talks, {"all": Counted(log)}, finished=tmp_path / "run")
        assert sorted(log.read_text().split()) == ["t0", "t1", "t2", "t3"]
        assert _numbers(results) == _numbers(run(talks, {"all": NoCuration()}))

    def test_a_changed_conversation_is_measured_again(self, tmp_path: Path) -> None:
        first = run([session(5)], {"all": NoCuration()}, finished=tmp_path)
        again = run([session(6)], {"all": NoCuration()}, finished=tmp_path)
        assert again["all"].calls == first["all"].calls + 1

    def test_another_run_is_refused(self, tmp_path: Path) -> None:
        run([session(5)], {"all": NoCuration()}, finished=tmp_path)
        with pytest.raises(ConfigurationError, match="policies"):
            run([session(5)], {"mine": Curator(max_tokens=900)}, finished=tmp_path)
        with pytest.raises(ConfigurationError, match="provider"):
            run([session(5)], {"all": NoCuration()}, provider="openai", finished=tmp_path)


class TestParquet:
    def test_a_row_per_policy_and_conversation(self, tmp_path: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is absent")
        talks = [session(5), session(6)]
        results = run(talks, {"mine": Curator(max_tokens=900), "all": NoCuration()})
        results.to_parquet(tmp_path / "results.parquet")
        rows = parquet.read_table(tmp_path / "results.parquet").to_pylist()
        assert [(row["policy"], row["conversation"]) for row in rows] == [
            ("mine", "conversation 0"), ("mine", "conversation 1"),
            ("all", "conversation 0"), ("all", "conversation 1"),
        ]  # fmt: skip
        assert rows[2]["tokens"] == results.tallies["all"][0].tokens
        assert rows[0]["costs.anthropic"] == pytest.approx(
            results.tallies["mine"][0].costs["anthropic"]
        )

    def test_to_an_object_store(self) -> None:
        pytest.importorskip("pyarrow", reason="pyarrow is absent")
        fsspec = pytest.importorskip("fsspec", reason="fsspec is absent")
        run([session(3)], ["no curation"]).to_parquet("memory://out/results.parquet")
        assert fsspec.filesystem("memory").cat("/out/results.parquet")[:4] == b"PAR1"


class TestSharedCounts:
    def test_policies_of_a_task_share_one_counter(self) -> None:
        """What travels to a worker holds one counter, however many curators use it."""
        import pickle

        from history_curator.lab.replay import Settings
        from history_curator.lab.policies import as_policies
        from history_curator.tokens import get_counter

        policies = as_policies(["curator", "sliding"], 900)
        task = pickle.loads(pickle.dumps((policies, Settings(get_counter("o200k_base")))))
        counters = {id(task[1].counter), *(id(each.curator.counter) for each in task[0].values())}
        assert len(counters) == 1


class Deadly:
    """Kills the worker it runs on, once."""

    max_tokens = None

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def start(self, conversation: Any, counter: Any) -> Any:
        try:
            self.mark.touch(exist_ok=False)
        except FileExistsError:
            return NoCuration().start(conversation, counter)
        return os.kill(os.getpid(), signal.SIGKILL)


class TestDyingWorkers:
    def test_a_dask_cluster_runs_the_lost_task_again(self, tmp_path: Path) -> None:
        distributed = pytest.importorskip("distributed", reason="dask.distributed is absent")
        talks = [session(60, words=20) for _ in range(4)]
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            before = {worker["pid"] for worker in _workers(client)}
            found = run(talks, {"all": Deadly(tmp_path / "dead")}, executor=client.get_executor())
            assert (tmp_path / "dead").exists()
            assert {worker["pid"] for worker in _workers(client)} != before
        assert _numbers(found) == _numbers(run(talks, {"all": NoCuration()}))

    def test_a_dead_process_of_the_pool_is_explained(self, tmp_path: Path) -> None:
        talks = [session(60, words=20) for _ in range(4)]
        with pytest.raises(ConfigurationError, match="finished="):
            run(talks, {"all": Deadly(tmp_path / "dead")}, executor=None)


def _workers(client: Any) -> list[dict[str, Any]]:
    """Wait until both workers are there, and return what they say about themselves."""
    client.wait_for_workers(2)
    return list(client.run(lambda: {"pid": os.getpid()}).values())


class Slow(Executor):
    """Finishes what is submitted last first."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        delay = 0.2 if not hasattr(self, "_second") else 0.0
        self._second = True

        def work() -> None:
            time.sleep(delay)
            future.set_result(fn(*args, **kwargs))

        Thread(target=work).start()
        return future


def test_results_stand_in_the_order_of_the_conversations() -> None:
    talks = [{"id": "a", "messages": session(60)}, {"id": "b", "messages": session(55)}]
    found = run(talks, {"all": NoCuration()}, executor=Slow())
    assert [tally.conversation for tally in found.tallies["all"]] == ["a", "b"]


class TestOtherClusters:
    def test_ray(self) -> None:
        ray = pytest.importorskip("ray", reason="ray is absent")
        ray.init(num_cpus=2, include_dashboard=False)
        try:
            talks = [session(30), session(60)]
            policies = {"mine": Curator(max_tokens=900)}
            with RayExecutor() as executor:
                found = run(talks, policies, executor=executor)
            assert _numbers(found) == _numbers(run(talks, policies))
        finally:
            ray.shutdown()

    def test_ray_that_is_absent_is_said(self) -> None:
        try:
            import ray  # noqa: F401
        except ImportError:
            with pytest.raises(ImportError, match="pip install ray"):
                RayExecutor()

    def test_spark(self) -> None:
        pyspark = pytest.importorskip("pyspark", reason="pyspark is absent")
        context = pyspark.SparkContext("local[2]")
        try:
            talks = [session(30), session(60)]
            policies = {"mine": Curator(max_tokens=900)}
            with SparkExecutor(context) as executor:
                found = run(talks, policies, executor=executor)
            assert _numbers(found) == _numbers(run(talks, policies))
        finally:
            context.stop()

    def test_a_spark_context_is_asked_for_one_partition_a_task(self) -> None:
        """The protocol, without a cluster: each call is one map over one element."""

        class Rows(list):  # type: ignore[type-arg]
            def map(self, function: Any) -> Rows:
                return Rows(map(function, self))

            def collect(self) -> list[Any]:
                return list(self)

        class Context:
            def parallelize(self, rows: list[Any], partitions: int) -> Rows:
                assert len(rows) == partitions == 1
                return Rows(rows)

        talks = [session(30), session(60)]
        with SparkExecutor(Context()) as executor:
            found = run(talks, ["no curation"], executor=executor)
        assert _numbers(found) == _numbers(run(talks, ["no curation"]))
