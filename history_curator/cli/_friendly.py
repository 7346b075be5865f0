"""Errors in one line."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import typer
from rich.markup import escape

from history_curator.cli._show import console
from history_curator.errors import HistoryCuratorError

Command = TypeVar("Command", bound=Callable[..., Any])


def friendly(command: Command) -> Command:
    """Turn the library's errors and missing files into one line and exit code 2."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:
            raise
        except (HistoryCuratorError, OSError, ImportError, RecursionError) as error:
            console(stderr=True).print(f"[red]error:[/red] {_plain(error)}", soft_wrap=True)
            raise typer.Exit(2) from error

    return run  # type: ignore[return-value]


def _plain(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        named = f"{error.filename}: " if error.filename is not None else ""
        return escape(f"{named}{error.strerror}.")
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply. Fix: pass messages, not what they were wrapped in."
    return escape(str(error))
