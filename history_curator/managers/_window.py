"""`SlidingWindowManager`: the system message and the last N entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from history_curator.managers._checks import check_count
from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry, MessageRole
from history_curator.timeline import Unit, pair


@dataclass(frozen=True, slots=True)
class SlidingWindowManager:
    """Keeps system entries and the last ``window_size`` other entries.

    Guaranteed: never more than the window, except that the newest exchange is kept whole however
    many calls it has; an exchange that only partly fits is left out; pinned entries stay. A window
    of zero keeps nothing but system and pinned entries. Orphaned results are left out.

    A window slides on every call, so the provider's prompt cache misses on every call; a budget
    (`TokenBudgetManager`, or `Curator(max_tokens=…)`) does not have that cost.

    Examples:
        >>> from history_curator import Curator
        >>> said = [{"role": "user", "content": str(n)} for n in range(5)]
        >>> curation = Curator(SlidingWindowManager(2)).curate(said)
        >>> curation.report.curated_count
        2
    """

    window_size: int

    def __post_init__(self) -> None:
        check_count(self, "window_size", self.window_size)

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> list[ConversationEntry]:
        """Return the window."""
        size = max(self.window_size, context.preserve_last_n or 0)
        if sum(entry.role is not MessageRole.SYSTEM for entry in entries) <= size:
            return list(entries)
        kept = _newest(pair(entries), size)
        window = []
        for entry in entries:
            is_system = entry.role is MessageRole.SYSTEM
            if is_system or entry.pinned or id(entry.root) in kept:
                window.append(entry)
            else:
                context.explain(entry, f"outside the window of the last {self.window_size} entries")
        return window


def _newest(units: Sequence[Unit], size: int) -> set[int]:
    """Return the identities of the entries of the last units that fit into ``size``."""
    kept: set[int] = set()
    for unit in reversed(units):
        members = {id(entry.root) for entry in (unit.head, *unit.results) if entry is not None}
        if size <= 0 or (kept and len(kept) + len(members) > size):
            break
        kept |= members
        if len(kept) >= size:
            break
    return kept
