"""Decisions: what happened to each entry between the record and the view, and the view from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from history_curator.entries import ConversationEntry
from history_curator.entry_json import entry_from_dict, entry_to_dict
from history_curator.formats import find_format, read_entries, ungroup_items
from history_curator.managers import Step

_UNCHANGED = "kept as it is"
_MOVED = {
    "system": "moved to the front, where system messages stand",
    "tool": "moved up to the call it answers",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """The fate of one entry, and the reason.

    Attributes:
        index: position in the record, or None for an inserted entry.
        position: position in the view, or None when it is not there.
        role: who speaks.
        action: kept, truncated, cleared, dropped, merged, moved, inserted, summarised, repaired.
        reason: why, for a person.
        manager: who decided: a manager's name, ``budget``, ``rules``; empty for an entry that
            everybody left as it is.
        tokens_before: tokens as recorded; 0 when inserted.
        tokens_after: tokens in the view; 0 when it is not there.
        handle: the name by which the recall tool returns the original.
        origin: why an inserted entry was invented.
        name: the author or the tool.
        change: the fields of an edited or inserted entry as they stand in the view;
            `rebuild` needs them.
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


@dataclass
class DecisionBuilder:
    """Compares the record with the view, and asks the steps which of them did it.

    An entry that was split in two has two decisions, both with its index.
    """

    record: Sequence[ConversationEntry]
    view: Sequence[ConversationEntry]
    steps: Sequence[Step]
    orphans: Mapping[int, str]
    count_entry: Callable[[ConversationEntry], int]

    def __post_init__(self) -> None:
        self._roots = [{id(entry.root) for entry in step.entries} for step in self.steps]
        self._outputs = [{id(entry) for entry in step.entries} for step in self.steps]
        self._merged = {
            id(root): position
            for position, entry in enumerate(self.view)
            if entry.original
            for root in (entry.metadata or {}).get("merged", ())
        }
        self._positions = self._find_positions()

    def build(self) -> list[Decision]:
        """Return the decisions in the order of the record, inserted entries at their place."""
        inserted = self._decide_inserted()
        decisions = inserted.pop(-1, [])
        latest = -1
        for index, recorded in enumerate(self.record):
            positions = self._positions[index]
            if positions:
                is_moved = positions[0] < latest
                latest = max(latest, positions[-1])
                decisions += [self._decide_shown(index, each, is_moved) for each in positions]
            else:
                decisions.append(self._decide_absent(index, recorded))
            decisions += inserted.pop(index, ())
        return decisions

    def _find_positions(self) -> list[list[int]]:
        """Return where each recorded entry is in the view; one object may be recorded twice."""
        free: dict[int, list[int]] = {}
        for position, entry in enumerate(self.view):
            free.setdefault(id(entry.root), []).append(position)
        remaining = Counter(id(entry.root) for entry in self.record)
        found = []
        for entry in self.record:
            key = id(entry.root)
            remaining[key] -= 1
            mine = free.get(key, [])
            taken = mine[:1] if remaining[key] else mine[:]
            del mine[: len(taken)]
            found.append(taken)
        return found

    def _decide_shown(self, index: int, position: int, is_moved: bool) -> Decision:
        recorded, entry = self.record[index], self.view[position]
        action, reason, manager = "kept", _UNCHANGED, ""
        if entry is not recorded:
            action, reason = entry.action or "kept", entry.reason or _UNCHANGED
            manager = self._find_editor(entry)
        if is_moved and action == "kept":
            action, manager = "moved", "rules"
            reason = _MOVED.get(recorded.role.value, "moved")
        return self._decide(index, position, recorded, entry, (action, reason, manager))

    def _decide_absent(self, index: int, recorded: ConversationEntry) -> Decision:
        root = id(recorded.root)
        action, reason, manager = "dropped", "left out", "budget"
        if root in self._merged:
            action, reason, manager = "merged", "merged into its neighbour", "rules"
        elif index in self.orphans:
            reason, manager = self.orphans[index], "rules"
        else:
            for step, present in zip(self.steps, self._roots, strict=True):
                if root not in present:
                    reason = step.reasons.get(root, f"left out by {step.name}")
                    manager = step.name
                    break
        position = self._merged.get(root)
        return self._decide(index, position, recorded, None, (action, reason, manager))

    def _decide_inserted(self) -> dict[int, list[Decision]]:
        """Return decisions about invented entries, by the index of the entry they follow."""
        indexes = {each: index for index, found in enumerate(self._positions) for each in found}
        found: dict[int, list[Decision]] = {}
        previous = -1
        for position, entry in enumerate(self.view):
            if position in indexes:
                previous = max(previous, indexes[position])
                continue
            reason = entry.reason or "inserted"
            fate = (entry.action or "inserted", reason, self._find_editor(entry))
            decision = self._decide(None, position, None, entry, fate)
            found.setdefault(previous, []).append(decision)
        return found

    def _decide(
        self,
        index: int | None,
        position: int | None,
        recorded: ConversationEntry | None,
        entry: ConversationEntry | None,
        fate: tuple[str, str, str],
    ) -> Decision:
        """Return the decision with its action, reason and manager."""
        known = recorded or entry
        assert known is not None
        return Decision(
            index,
            position,
            known.role.value,
            *fate,
            tokens_before=0 if recorded is None else self.count_entry(recorded),
            tokens_after=0 if entry is None else self.count_entry(entry),
            handle=None if entry is None else entry.handle,
            origin=None if entry is None else entry.origin,
            name=known.tool_name or known.name,
            change=None if entry is None or entry is recorded else entry_to_dict(entry),
        )

    def _find_editor(self, entry: ConversationEntry) -> str:
        """Return the step in whose output this very entry appears first."""
        outputs = zip(self.steps, self._outputs, strict=True)
        return next((step.name for step, known in outputs if id(entry) in known), "rules")


def rebuild(
    messages: Sequence[Any], decisions: Sequence[dict[str, Any]], provider: str | None = None
) -> list[Any]:
    """Return the view that a report describes, from the recorded messages.

    Args:
        messages: the record, as it was given to the curator.
        decisions: `Decision.to_dict` of every decision, as `to_json` writes them.
        provider: the profile of the curation; it tells formats apart where messages do not.
    """
    format = find_format(messages, provider)
    entries = read_entries(messages, format)
    view: dict[int, ConversationEntry] = {}
    for decision in decisions:
        position, index, change = decision["position"], decision["index"], decision["change"]
        if position is None or (decision["action"] == "merged" and change is None):
            continue
        if change is None:
            view[position] = entries[index]
        elif index is None:
            view[position] = entry_from_dict(change)
        else:
            original = entries[index]
            view[position] = entry_from_dict(change).evolve(
                source=original.source, span=original.span, original=original
            )
    return ungroup_items(format.write([view[position] for position in sorted(view)]))
