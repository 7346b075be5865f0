"""Optional packages, imported when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def need(
    module: str,
    extra: str = "lab",
    *,
    package: str | None = None,
    missing: Callable[[str], Exception] = ImportError,
) -> Any:
    """Return a module, or raise with the command that installs it.

    Args:
        module: what to import.
        extra: the extra it belongs to.
        package: what it belongs to where that is no extra.
        missing: makes the error.
    """
    try:
        return import_module(module)
    except ImportError as error:
        name = package or module.partition(".")[0]
        install = package or f'"history-curator[{extra}]"'
        raise missing(f"{name} is not installed. Fix: pip install {install}") from error


@contextmanager
def progress_bar(title: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error, with rich, and hand out ``advance(n)``."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn(),
               TimeRemainingColumn(), "left")  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total, completed=done)
        yield lambda more: bar.advance(task, more)
