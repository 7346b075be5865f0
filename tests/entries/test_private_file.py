"""A file that holds a conversation is written whole or not at all, for its owner only."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from history_curator.entries import write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_its_owners_alone_and_one_that_was_there_keeps_its_mode(
    tmp_path: Path,
) -> None:
    before = os.umask(0)
    try:
        path = write_private(tmp_path / "talk.json", "[]")
    finally:
        os.umask(before)
    assert (path.read_text(), mode(path)) == ("[]", 0o600)
    path.chmod(0o640)
    write_private(path, b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", 0o640)


def test_a_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_private(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_private(pipe, "hello")
        assert os.read(reader, 9) == b"hello"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("step", [(os, "fdopen"), (os, "fsync"), (Path, "replace")])
def test_a_full_disk_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[Any, str]
) -> None:
    path = tmp_path / "talk.json"
    path.write_text("old")

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*step, full)
    with pytest.raises(OSError, match="No space left"):
        write_private(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["talk.json"]


def test_a_folder_that_is_not_there_is_named_as_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "no" / "talk.json"
    with pytest.raises(FileNotFoundError, match="make it, or give another path") as missing:
        write_private(path, "[]")
    assert missing.value.filename == str(path)
    assert str(path.parent) in missing.value.strerror
