"""The ``history-curator`` command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; without typer and rich, say how to install them."""
    try:
        from history_curator.cli._app import app
    except ImportError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        sys.exit(
            f"The command line needs {error.name}, which is not installed. "
            'Fix: pip install "history-curator[lab]"'
        )
    app()
