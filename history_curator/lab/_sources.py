"""Conversations from files, folders, patterns and object stores."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from history_curator.errors import ConversionError
from history_curator.lab._conversation import LabConversation
from history_curator.lab._extra import need

_SUFFIXES = (".json", ".jsonl", ".ndjson")


def load_conversations(*sources: str | Path) -> list[LabConversation]:
    """Return the conversations of files, folders, patterns and URLs.

    A folder is searched with everything below it for JSON, JSON lines and their gzipped forms. A
    pattern may hold ``*``, ``**``, ``?`` and ``[…]``. A URL such as ``s3://bucket/logs`` goes
    through fsspec and may be a file, a folder or a pattern, too.

    Raises:
        ConversionError: naming the source with nothing in it, or the file that cannot be read.
        ImportError: with the command that installs fsspec, for a URL without it.
    """
    from history_curator.cli._files import read_file

    return [
        LabConversation(
            each.id, each.messages, (each.holder or {}).get("questions") or (), each.tools
        )
        for source in sources
        for path in find_files(str(source))
        for each in read_file(path).conversations
    ]


def find_files(source: str) -> list[str]:
    """Return the files a source stands for, in order of their names.

    Examples:
        >>> find_files("-")
        ['-']
    """
    if "://" in source:
        return _found(source, _find_remote(source))
    path = Path(source)
    if path.is_dir():
        return _found(source, (str(each) for each in path.rglob("*") if each.is_file()))
    if glob.has_magic(source) and not path.exists():
        return _found(source, glob.glob(source, recursive=True), all_kinds=True)
    return [source]


def _find_remote(source: str) -> Iterable[str]:
    files: Any
    files, path = need("fsspec.core", "scale").url_to_fs(source)
    if glob.has_magic(path):
        found = files.glob(path)
    else:
        found = files.find(path) if files.isdir(path) else [path]
    return [files.unstrip_protocol(each) for each in found]


def _found(source: str, paths: Iterable[str], *, all_kinds: bool = False) -> list[str]:
    kept = sorted(
        path for path in paths if all_kinds or path.lower().removesuffix(".gz").endswith(_SUFFIXES)
    )
    if not kept:
        raise ConversionError(
            f"{source} holds no conversations.",
            fix=f"name files that end on {', '.join(_SUFFIXES)}, gzipped or not.",
        )
    return kept
