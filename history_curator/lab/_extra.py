"""Optional packages, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def need(module: str, extra: str | None = "lab") -> Any:
    """Return a module, or raise with the command that installs it.

    Args:
        module: what to import.
        extra: the extra it belongs to, or None for a package of its own.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        install = f'"history-curator[{extra}]"' if extra else package
        raise ImportError(f"{package} is not installed. Fix: pip install {install}") from error
