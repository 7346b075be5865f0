"""`PassthroughManager`: everything, unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from history_curator.managers._protocol import CurationContext
from history_curator.model import ConversationEntry


@dataclass(frozen=True, slots=True)
class PassthroughManager:
    """Returns the entries unchanged.

    Examples:
        >>> from history_curator import Curator
        >>> curation = Curator(PassthroughManager()).curate([{"role": "user", "content": "hi"}])
        >>> curation.messages
        [{'role': 'user', 'content': 'hi'}]
    """

    def curate(
        self, entries: Sequence[ConversationEntry], *, context: CurationContext
    ) -> list[ConversationEntry]:
        """Return the entries."""
        return list(entries)
