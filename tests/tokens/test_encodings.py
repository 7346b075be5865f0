"""Where tiktoken's data come from: a copy on this machine, else the network, else estimates."""

from __future__ import annotations

import inspect
import os
import threading
import warnings
from pathlib import Path

import pytest

from history_curator.tokens import TiktokenCounter
from history_curator.tokens import tiktoken_counter as encodings


@pytest.fixture
def empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The only folder that is looked at; no encoding is loaded, and none may be downloaded."""
    monkeypatch.setattr(encodings, "_loaded", {})
    monkeypatch.setattr(encodings, "_candidate_folders", lambda: iter([tmp_path]))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(encodings.ALLOW_DOWNLOAD, "0")
    return tmp_path


def count_with_warnings(counter: TiktokenCounter, text: str) -> tuple[int, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokens = counter.count(text)
        counter.count(text + "!")
        TiktokenCounter("o200k_base").count(text)
    return tokens, [str(warning.message) for warning in caught]


class TestWithoutACopy:
    @pytest.mark.usefixtures("empty_folder")
    def test_counts_are_estimates_and_one_warning_says_so(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise AssertionError("touched the network")

        monkeypatch.setattr("tiktoken.load.read_file_cached", refuse)
        counter = TiktokenCounter("o200k_base")
        tokens, messages = count_with_warnings(counter, "hello world")
        assert tokens >= 2
        assert not counter.exact
        assert counter.name == TiktokenCounter("o200k_base").name == "o200k_base estimated"
        assert len(messages) == 1
        assert "HISTORY_CURATOR_ALLOW_DOWNLOAD=0" in messages[0]
        assert "Fix" in messages[0]
        with pytest.warns(RuntimeWarning, match="cl100k_base"):
            assert TiktokenCounter("gpt-4").name == "cl100k_base:gpt-4 estimated"

    @pytest.mark.usefixtures("empty_folder")
    def test_a_failing_download_ends_in_one_warning(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(url: str) -> bytes:
            raise ConnectionError("no route to host")

        monkeypatch.delenv(encodings.ALLOW_DOWNLOAD)
        monkeypatch.setattr("tiktoken.load.read_file_cached", fail)
        tokens, messages = count_with_warnings(TiktokenCounter("o200k_base"), "hello world")
        assert tokens >= 2
        assert len(messages) == 1
        assert "no route to host" in messages[0]

    @pytest.mark.usefixtures("empty_folder")
    def test_a_download_that_hangs_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        release = threading.Event()
        monkeypatch.delenv(encodings.ALLOW_DOWNLOAD)
        monkeypatch.setattr(encodings, "_DOWNLOAD_SECONDS", 0.05)
        monkeypatch.setattr("tiktoken.load.read_file_cached", lambda *_: release.wait(30))
        _, messages = count_with_warnings(TiktokenCounter("o200k_base"), "hello world")
        release.set()
        assert "no answer" in messages[0]


@pytest.mark.parametrize("before", [None, "/somewhere/else"])
def test_the_cache_folder_is_set_only_for_the_load(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    if TiktokenCounter("o200k_base").name.endswith("estimated"):
        pytest.skip("o200k_base is not available offline")
    monkeypatch.setattr(encodings, "_loaded", {})
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    if before is not None:
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", before)
    assert TiktokenCounter("o200k_base").exact
    assert os.environ.get("TIKTOKEN_CACHE_DIR") == before


def test_the_table_of_encodings_matches_tiktoken() -> None:
    import tiktoken_ext.openai_public as public

    for name, file in encodings.ENCODINGS.items():
        builder = public.o200k_base if name == "o200k_harmony" else getattr(public, name)
        assert f"/encodings/{file}.tiktoken" in inspect.getsource(builder)
