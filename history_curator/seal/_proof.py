"""What is written is what was counted: entries are written, read again, and counted then."""

from __future__ import annotations

from collections.abc import Sequence

from history_curator.dialects import Dialect, reread
from history_curator.model import ConversationEntry
from history_curator.tokens import TokenCounter


def written(
    entries: Sequence[ConversationEntry], dialect: Dialect | None, counter: TokenCounter
) -> tuple[Sequence[ConversationEntry], int]:
    """Return entries as they read once they are written, and what they cost then.

    The very entries where nothing of them is lost on the way.
    """
    if dialect is not None and not getattr(dialect, "immutable", False):
        entries = reread(dialect, entries, counter.count_entry)
    return entries, sum(map(counter.count_entry, entries))
