"""The message of an edited entry, made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from history_curator.entries import ConversationEntry


def written_once(
    format: str,
    entry: ConversationEntry,
    write: Callable[[ConversationEntry], Any],
    seen: Callable[[Any], Any],
) -> Any:
    """Return the message of an edited entry."""
    return write(entry)
