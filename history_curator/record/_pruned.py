"""What pruning did to a store, or would do: by row and by conversation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from history_curator.report._layout import many


@dataclass(frozen=True, slots=True)
class PruneDecision:
    """What happens to one row.

    Attributes:
        session_id: the conversation.
        row: its primary key.
        role: who spoke.
        action: ``trimmed``, ``removed`` or ``unreadable`` (left alone).
        reason: why.
        before: characters stored before.
        after: characters stored afterwards.
    """

    session_id: str
    row: Any
    role: str
    action: str
    reason: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What was cleaned, or would be.

    Attributes:
        store: the URL, without its password.
        table: the table.
        layout: whose table it is.
        dry_run: whether the store was left as it is.
        sessions: conversations looked at.
        rows: messages looked at.
        characters: what they took before.
        decisions: one per row that changes.
    """

    store: str
    table: str
    layout: str
    dry_run: bool
    sessions: int
    rows: int
    characters: int
    decisions: tuple[PruneDecision, ...]

    @property
    def by_conversation(self) -> dict[str, tuple[PruneDecision, ...]]:
        """What happens in each conversation that changes."""
        found: dict[str, list[PruneDecision]] = {}
        for one in self.decisions:
            found.setdefault(one.session_id, []).append(one)
        return {session: tuple(some) for session, some in found.items()}

    @property
    def trimmed(self) -> int:
        """Rows that keep less."""
        return sum(one.action == "trimmed" for one in self.decisions)

    @property
    def removed(self) -> int:
        """Rows that go."""
        return sum(one.action == "removed" for one in self.decisions)

    @property
    def saved(self) -> int:
        """Characters the store no longer holds."""
        return sum(one.before - one.after for one in self.decisions)

    def explain(self, *, rows: bool = False) -> str:
        """Return the outcome in words: one line per conversation that changes.

        Args:
            rows: also one line per row.
        """
        verb = "would be" if self.dry_run else "were"
        summary = (
            f"{self.store}, table {self.table} ({self.layout}): "
            f"{many(self.rows, 'message')} of {many(self.sessions, 'conversation')}; "
            f"{self.trimmed} {verb} "
            f"trimmed, {self.removed} {verb} removed, {self.saved} of {self.characters} "
            "characters saved"
        )
        lines = [summary]
        for session, some in self.by_conversation.items():
            actions = [one.action for one in some]
            lines.append(
                f"  {session}: {actions.count('trimmed')} {verb} trimmed, "
                f"{actions.count('removed')} {verb} removed, "
                f"{sum(one.before - one.after for one in some)} characters saved"
            )
            if "unreadable" in actions:
                lines[-1] += f", {actions.count('unreadable')} not read and left alone"
            if rows:
                lines += [
                    f"    #{one.row} {one.role}: {one.action}, {one.before} -> {one.after} "
                    f"characters ({one.reason})"
                    for one in some
                ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        totals = {"trimmed": self.trimmed, "removed": self.removed, "saved": self.saved}
        return {**asdict(self), **totals}
