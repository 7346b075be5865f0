"""Work out, after the fact, which step did what to which entry.

Steps keep the lists they returned; comparing them is only done when somebody looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from history_curator.model import ConversationEntry

KEPT = "kept as it is"


@dataclass(frozen=True, slots=True)
class Step:
    """What one manager returned, and the reasons it gave for what it left out."""

    manager: str
    entries: Sequence[ConversationEntry]
    reasons: Mapping[int, str] = field(default_factory=dict)


def dropped_by(
    root: ConversationEntry, steps: Sequence[Step], presence: Sequence[set[int]]
) -> tuple[str, str]:
    """The manager that left an entry out, and why."""
    key = id(root)
    for step, present in zip(steps, presence, strict=True):
        if key not in present:
            return step.manager, step.reasons.get(key, f"left out by {step.manager}")
    last = steps[-1].manager if steps else "seal"
    return last, "left out"


def edited_by(
    entry: ConversationEntry, steps: Sequence[Step], identities: Sequence[set[int]]
) -> str:
    """The manager in whose output this very entry appears first."""
    key = id(entry)
    for step, known in zip(steps, identities, strict=True):
        if key in known:
            return step.manager
    return "seal"


def roots_of(entries: Sequence[ConversationEntry]) -> set[int]:
    """Ids of the recorded entries behind these."""
    return {id(entry.root) for entry in entries}


def absorbed(entries: Sequence[ConversationEntry]) -> dict[int, int]:
    """Recorded entries that were merged into another: id -> position of that other."""
    found: dict[int, int] = {}
    for position, entry in enumerate(entries):
        for root in (entry.metadata or {}).get("merged", ()) if entry.original else ():
            found[id(root)] = position
    return found
