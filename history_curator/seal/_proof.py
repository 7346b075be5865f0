"""What is written is what was counted: entries are written, read again, and counted then."""

from __future__ import annotations

from collections.abc import Sequence

from history_curator.dialects import Dialect, reread
from history_curator.model import ConversationEntry
from history_curator.tokens import TokenCounter


def written_tokens(
    entries: Sequence[ConversationEntry], dialect: Dialect | None, counter: TokenCounter
) -> int:
    """Return what entries cost once they are written."""
    if dialect is not None and not getattr(dialect, "immutable", False):
        entries = reread(dialect, entries)
    return sum(map(counter.count_entry, entries))
