"""`Decision`: what happened to one entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Decision:
    """What happened to one entry and why.

    Attributes:
        index: position in the record, or None for an inserted entry.
        position: position in the view, or None when it is not there.
        role: who speaks.
        action: kept, truncated, cleared, dropped, merged, moved, inserted, summarised, repaired.
        reason: why, for a person.
        manager: who decided.
        tokens_before: tokens as recorded; 0 when inserted.
        tokens_after: tokens in the view; 0 when it is not there.
        handle: what the recall tool takes to return the original.
        origin: why an inserted entry was invented.
        name: the author or the tool.
        change: for a touched or inserted entry, its fields as they stand in the view; what
            `CurationReport.rebuild` needs.
    """

    index: int | None
    position: int | None
    role: str
    action: str
    reason: str
    manager: str
    tokens_before: int
    tokens_after: int
    handle: str | None = None
    origin: str | None = None
    name: str | None = None
    change: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)
