"""`DuplicateResultManager`: what is said twice is kept once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry
from history_curator.timeline import pair


@dataclass(frozen=True, slots=True)
class DuplicateResultManager:
    """Replaces a tool result by a reference when a later identical call returned the same.

    The same means: same tool, same arguments, same text. The latest one stays. Results no longer
    than the reference, results with media and pinned ones stay as well.

    Args:
        reference: what the model sees instead of the earlier result.

    Examples:
        >>> DuplicateResultManager(reference="[see below]").reference
        '[see below]'
    """

    reference: str = "[Same result as a later call with the same arguments]"

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> list[ConversationEntry]:
        """Return the entries with earlier duplicates replaced."""
        edited: dict[int, ConversationEntry] = {}
        seen: set[tuple[str, str, str]] = set()
        for unit in reversed(pair(entries)):
            calls = unit.head.tool_calls or ()
            for call, result in zip(reversed(calls), reversed(unit.results), strict=True):
                if result is None or not self._is_long(result):
                    continue
                key = (call.name, call.arguments, result.content or "")
                if key in seen and not result.pinned:
                    edited[id(result.root)] = self._refer(result)
                seen.add(key)
        return [edited.get(id(entry.root), entry) for entry in entries] if edited else list(entries)

    def _is_long(self, entry: ConversationEntry) -> bool:
        return len(entry.content or "") > len(self.reference) and not entry.has_media

    def _refer(self, entry: ConversationEntry) -> ConversationEntry:
        return entry.evolve(
            content=self.reference,
            parts=None,
            truncated=True,
            original_length=entry.original_length or len(entry.content or ""),
            action="cleared",
            reason="a later call with the same arguments returned the same",
        )
