"""The ``history-curator`` command."""

from __future__ import annotations

import os
import sys
import warnings
from io import TextIOWrapper
from typing import Any

from history_curator import __version__

__all__ = ["main"]


def _one_line(message: Warning | str, *_: Any, **__: Any) -> None:
    sys.stderr.write(f"warning: {message}\n")


def main() -> None:
    """Run the command line.

    Without typer and rich only ``--version`` works; everything else says how to install them, with
    exit code 2. When the reader of a pipe has gone, the command ends quietly with exit code 141, as
    other tools do.
    """
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"history-curator {__version__}\n")
        return
    try:
        from history_curator.cli.commands import app
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("typer", "rich", "click"):
            raise
        sys.stderr.write(
            f"The command line needs {error.name}, which is not installed. "
            'Fix: pip install "history-curator[cli]"\n'
        )
        sys.exit(2)
    warnings.showwarning = _one_line
    # Half a character in a record is printed as its escape in JSON; UTF-8 cannot carry it.
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.encoding.lower() == "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="history-curator")
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        cause = error.__context__ if isinstance(error, SystemExit) else error
        if not isinstance(cause, BrokenPipeError):
            raise
        # Buffered output would be written, and fail again, when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
