from __future__ import annotations

from history_curator.tokens.truncate import cap_text, count_lines

__all__ = ["cap_text", "count_lines", "keep_count"]


def keep_count(*_: object) -> None:
    """Do nothing."""
