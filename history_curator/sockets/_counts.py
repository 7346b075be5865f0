"""What an event says about a curation, in whichever words a framework wants it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from history_curator.curator import Curation


@dataclass(frozen=True, slots=True)
class Counts:
    """One curation in numbers.

    Attributes:
        before: messages given.
        after: messages of the view.
        tokens: what the view costs, with tools and reserve.
        max_tokens: the budget; None for none.
        prefix_entries: messages the next call repeats byte for byte unless the cut moves.
        prefix_tokens: their tokens.
        actions: how many messages were dropped, cleared, truncated, inserted…
        strategy: which managers decided.
        provider: whose rules hold.
        counter: what counted.
    """

    before: int
    after: int
    tokens: int
    max_tokens: int | None
    prefix_entries: int
    prefix_tokens: int
    actions: Mapping[str, int]
    strategy: str
    provider: str
    counter: str


def counts_of(curation: Curation) -> Counts:
    """Count on the view: the report's own decisions would tokenise the whole record.

    Examples:
        >>> from history_curator import Curator
        >>> curation = Curator(max_tokens=100).curate([{"role": "user", "content": "hi"}])
        >>> counts_of(curation).after
        1
    """
    report = curation.report
    actions = Counter(entry.action for entry in curation.entries if entry.action)
    kept = sum(1 for entry in curation.entries if entry.origin is None)
    if report.original_count > kept:
        actions["dropped"] = report.original_count - kept
    return Counts(
        before=report.original_count,
        after=report.curated_count,
        tokens=report.tokens,
        max_tokens=report.max_tokens,
        prefix_entries=report.prefix_entries,
        prefix_tokens=report.prefix_tokens,
        actions=actions,
        strategy=report.strategy,
        provider=report.provider,
        counter=report.counter,
    )
