"""What was done to the messages of a conversation, for an event."""

from __future__ import annotations

from collections import Counter

from history_curator.curator import Curation


def actions_of(curation: Curation) -> Counter[str]:
    """Return how many messages were dropped, cleared, truncated, inserted and so on.

    Counted on the view: the report's own decisions would tokenise the whole record.

    Examples:
        >>> from history_curator import Curator
        >>> said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
        >>> actions_of(Curator(max_tokens=100).curate(said))
        Counter()
    """
    actions = Counter(entry.action for entry in curation.entries if entry.action)
    kept = sum(1 for entry in curation.entries if entry.origin is None)
    if curation.report.original_count > kept:
        actions["dropped"] = curation.report.original_count - kept
    return actions
