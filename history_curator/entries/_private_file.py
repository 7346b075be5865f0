"""Files that hold conversations: written whole or not at all, readable by their owner only."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path


def check_folder(path: str | Path) -> Path:
    """Return the place a file will have, links followed.

    Raises:
        FileNotFoundError: naming the file, when there is no folder for it.
    """
    place = Path(path).resolve()
    if not place.parent.is_dir():
        problem = f"there is no folder {place.parent}. Fix: make it, or give another path"
        raise FileNotFoundError(errno.ENOENT, problem, str(path))
    return place


def write_private(path: str | Path, data: str | bytes) -> Path:
    """Write a file in one step and return its path.

    The data goes to a temporary file beside it, which then takes its name: whoever reads sees the
    old file or the new one, and a full disk or a crash leaves the old one. The file can be read
    and written by its owner only; one that was there keeps its mode. A link is followed, so the
    link stays and its target is replaced. What is no file, such as ``/dev/stdout``, is written to.
    Half a character, which UTF-8 cannot carry, is written as its escape in JSON.

    Raises:
        OSError: naming the path that was given, when it cannot be written.

    Examples:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "page.html"
        >>> oct(write_private(target, "<p>hello</p>").stat().st_mode & 0o777)
        '0o600'
    """
    target = Path(path)
    content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    if target.exists() and not target.is_file():
        with target.open("wb") as stream:
            stream.write(content)
        return target
    place = check_folder(target)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{place.name[:32]}.", dir=place.parent)
    except OSError as error:
        error.filename = str(target)  # not the name of a file that nobody asked for
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            Path(name).chmod(place.stat().st_mode & 0o777)
        Path(name).replace(place)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    return target
