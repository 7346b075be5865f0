from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from history_curator.tokens import TiktokenCounter
from history_curator.tokens import _encodings as encodings


@pytest.fixture
def nothing_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No encoding is loaded, and no folder has one."""
    monkeypatch.setattr(encodings, "_loaded", {})
    monkeypatch.setattr(encodings, "_cache_folders", lambda: iter([tmp_path]))
    monkeypatch.setattr(encodings, "load_bundled", lambda name: None)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


def count_quietly(counter: TiktokenCounter, text: str) -> tuple[int, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokens = counter.count(text)
        counter.count(text + "!")
        TiktokenCounter("o200k_base").count(text)
    return tokens, [str(warning.message) for warning in caught]


class TestWithoutACopy:
    def test_a_forbidden_download_is_not_tried(
        self, nothing_cached: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*args: object) -> None:
            raise AssertionError("touched the network")

        monkeypatch.setattr(encodings, "_download", refuse)
        monkeypatch.setenv(encodings.ALLOW_DOWNLOAD, "0")
        counter = TiktokenCounter("o200k_base")
        tokens, said = count_quietly(counter, "hello world")
        assert tokens >= 2
        assert not counter.exact
        assert counter.name == TiktokenCounter("o200k_base").name == "o200k_base estimated"
        assert TiktokenCounter("claude-sonnet-4-5").name == "o200k_base:claude estimated"
        assert len(said) == 1
        assert "HISTORY_CURATOR_ALLOW_DOWNLOAD=0" in said[0]
        assert "Fix" in said[0]

    def test_a_failing_download_ends_in_one_warning(
        self, nothing_cached: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(url: str, digest: str) -> bytes:
            raise ConnectionError("no route to host")

        monkeypatch.delenv(encodings.ALLOW_DOWNLOAD, raising=False)
        monkeypatch.setattr("tiktoken.load.read_file_cached", fail)
        tokens, said = count_quietly(TiktokenCounter("o200k_base"), "hello world")
        assert tokens >= 2
        assert len(said) == 1
        assert "no route to host" in said[0]

    def test_a_download_that_hangs_is_given_up(
        self, nothing_cached: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import threading

        release = threading.Event()
        monkeypatch.setattr(encodings, "_DOWNLOAD_SECONDS", 0.05)
        monkeypatch.setattr("tiktoken.load.read_file_cached", lambda *_: release.wait(30))
        problem = encodings._download("https://example.invalid/x", "0")
        release.set()
        assert problem is not None
        assert "no answer" in problem

    def test_a_damaged_copy_counts_as_none(self, nothing_cached: Path) -> None:
        import hashlib

        file, digest = encodings.ENCODINGS["o200k_base"]
        url = f"{encodings._HOST}/{file}.tiktoken"
        copy = nothing_cached / hashlib.sha1(url.encode()).hexdigest()
        copy.write_bytes(b"half a file")
        assert encodings._find_cached(url, digest) is None
        assert copy.exists()


class TestEnvironment:
    @pytest.mark.parametrize("before", [None, "/somewhere/else"])
    def test_the_cache_folder_is_set_only_for_the_load(
        self, monkeypatch: pytest.MonkeyPatch, before: str | None
    ) -> None:
        monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
        if before is not None:
            monkeypatch.setenv("TIKTOKEN_CACHE_DIR", before)
        with encodings._cache_dir("/for/now"):
            assert os.environ["TIKTOKEN_CACHE_DIR"] == "/for/now"
        assert os.environ.get("TIKTOKEN_CACHE_DIR") == before

    def test_the_table_matches_tiktoken(self) -> None:
        import inspect

        import tiktoken_ext.openai_public as public

        for name, (file, digest) in encodings.ENCODINGS.items():
            builder = public.o200k_base if name == "o200k_harmony" else getattr(public, name)
            source = inspect.getsource(builder)
            assert f"{encodings._HOST}/{file}.tiktoken" in source
            assert digest in source
