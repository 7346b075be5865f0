"""``python -m history_curator.cli``."""

from __future__ import annotations

from history_curator.cli import main

main()
