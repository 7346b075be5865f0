"""Optional packages, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["need"]


def need(module: str, extra: str = "lab") -> Any:
    """Return a module, or raise with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f'{package} is not installed. Fix: pip install "history-curator[{extra}]"'
        ) from error
