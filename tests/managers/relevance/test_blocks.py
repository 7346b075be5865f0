"""Blocks in files: the same scores, no second indexing, nothing for anybody else."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from history_curator.managers.relevance import LexicalIndex, _blocks, _index, _text

np = pytest.importorskip("numpy")
pytest.importorskip("Stemmer")

QUERY = {"word3": 1.0, "word7": 0.5, "parrot": 1.0}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_blocks, "BLOCK", 8)


def texts(count: int, owner: str = "mine") -> list[str]:
    return [f"{owner} word{n % 11} and word{n % 5}" for n in range(count)]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    before = _text.words

    def words(text: str) -> list[str]:
        seen.append(text)
        return before(text)

    monkeypatch.setattr(_index, "words", words)
    return seen


@pytest.mark.parametrize("count", [1, 7, 8, 9, 40])
@pytest.mark.parametrize("step", [1, 5, 100])
def test_scores_are_those_of_an_index_in_memory(tmp_path: Path, count: int, step: int) -> None:
    plain, kept = LexicalIndex(), LexicalIndex(folder=tmp_path)
    plain.extend(texts(count))
    for start in range(0, count, step):
        kept.extend(texts(count)[start : start + step])
    for limit in (None, 1, count // 2, count):
        assert np.array_equal(plain.scores(QUERY, limit), kept.scores(QUERY, limit))
    assert len(kept) == count


def test_a_restart_indexes_only_what_is_in_no_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LexicalIndex(folder=tmp_path).extend(texts(20))
    seen = counted(monkeypatch)
    again = LexicalIndex(folder=tmp_path)
    again.extend(texts(20))
    assert len(seen) == 4
    plain = LexicalIndex()
    plain.extend(texts(20))
    assert np.array_equal(plain.scores(QUERY), again.scores(QUERY))


def test_a_block_is_found_by_all_of_its_texts(tmp_path: Path) -> None:
    LexicalIndex(folder=tmp_path).extend(texts(8))
    other = LexicalIndex(folder=tmp_path)
    other.extend([*texts(7), "a parrot"])
    assert other.scores({"parrot": 1.0}).nonzero()[0].tolist() == [7]
    assert len(list(tmp_path.iterdir())) == 2


def test_blocks_hold_no_text_and_are_their_owners(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    LexicalIndex(folder=folder).extend(texts(8, "secretname"))
    (path,) = folder.iterdir()
    assert b"secretname" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_memory_holds_the_newest_block_only(tmp_path: Path) -> None:
    index = LexicalIndex(folder=tmp_path)
    index.extend(texts(800))
    assert index.nbytes < 100


@pytest.mark.parametrize("broken", [b"", b"short", b"\0" * 64, b"\1" * 400])
def test_a_file_that_is_no_block_is_made_again(tmp_path: Path, broken: bytes) -> None:
    LexicalIndex(folder=tmp_path).extend(texts(8))
    (path,) = tmp_path.iterdir()
    path.chmod(0o600)
    path.write_bytes(broken)
    again, plain = LexicalIndex(folder=tmp_path), LexicalIndex()
    again.extend(texts(8))
    plain.extend(texts(8))
    assert np.array_equal(again.scores(QUERY), plain.scores(QUERY))


def test_a_full_disk_leaves_the_block_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    index = LexicalIndex(folder=tmp_path)
    index.extend(texts(20))
    plain = LexicalIndex()
    plain.extend(texts(20))
    assert np.array_equal(index.scores(QUERY), plain.scores(QUERY))
    assert list(tmp_path.iterdir()) == []
    assert "mine" not in caplog.text
