"""Work out the decisions, after the fact: one per recorded entry, one per invented one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from history_curator.entries import ConversationEntry
from history_curator.entry_json import entry_to_dict
from history_curator.managers.base import Step


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


KEPT = "kept as it is"


def absorbed(entries: Sequence[ConversationEntry]) -> dict[int, int]:
    """Recorded entries that were merged into another: id -> position of that other."""
    found: dict[int, int] = {}
    for position, entry in enumerate(entries):
        for root in (entry.metadata or {}).get("merged", ()) if entry.original else ():
            found[id(root)] = position
    return found


MOVED = {
    "system": "moved to the front, where system messages stand",
    "tool": "moved up to the call it answers",
}


class Deciding:
    """Compares the record with the view, and asks the steps who did it.

    An entry that was split in two has two decisions, both with its index.
    """

    def __init__(
        self,
        record: Sequence[ConversationEntry],
        view: Sequence[ConversationEntry],
        steps: Sequence[Step],
        count: Callable[[ConversationEntry], int],
        orphans: Mapping[int, str],
    ) -> None:
        self._record = record
        self._view = view
        self._steps = steps
        self._count = count
        self._orphans = orphans
        self._presence = [{id(entry.root) for entry in step.entries} for step in steps]
        self._identities = [{id(entry) for entry in step.entries} for step in steps]
        self._merged = absorbed(view)
        self._places = self._find_places()

    def run(self) -> list[Decision]:
        """Return the decisions in the order of the record, inventions at their place."""
        inserted = self._inserted()
        out = inserted.pop(-1, [])
        latest = -1
        for index, recorded in enumerate(self._record):
            places = self._places[index]
            if places:
                moved = places[0] < latest
                latest = max(latest, places[-1])
                out.extend(self._shown(index, recorded, place, moved=moved) for place in places)
            else:
                out.append(self._absent(index, recorded))
            out.extend(inserted.pop(index, ()))
        return out

    def _find_places(self) -> list[list[int]]:
        """Where each recorded entry stands in the view; the same object may be recorded twice."""
        free: dict[int, list[int]] = {}
        for place, entry in enumerate(self._view):
            free.setdefault(id(entry.root), []).append(place)
        times = Counter(id(entry.root) for entry in self._record)
        places = []
        for entry in self._record:
            key = id(entry.root)
            times[key] -= 1
            mine = free.get(key, [])
            taken = mine[:1] if times[key] else mine[:]
            del mine[: len(taken)]
            places.append(taken)
        return places

    def _shown(
        self, index: int, recorded: ConversationEntry, place: int, *, moved: bool
    ) -> Decision:
        entry = self._view[place]
        action, reason, manager = "kept", KEPT, "seal"
        if entry is not recorded:
            action, reason = entry.action or "kept", entry.reason or KEPT
            manager = self._edited_by(entry)
        if moved and action == "kept":
            action, reason = "moved", MOVED.get(recorded.role.value, "moved")
        return self._decision(index, recorded, place, entry, (action, reason, manager))

    def _absent(self, index: int, recorded: ConversationEntry) -> Decision:
        root = id(recorded.root)
        if root in self._merged:
            fate = ("merged", "merged into its neighbour", "seal")
        elif index in self._orphans:
            fate = ("dropped", self._orphans[index], "seal")
        else:
            fate = ("dropped", *self._dropped_by(root))
        return self._decision(index, recorded, self._merged.get(root), None, fate)

    def _inserted(self) -> dict[int, list[Decision]]:
        """Inventions, by the position of the recorded entry they follow."""
        at_place = {place: index for index, places in enumerate(self._places) for place in places}
        known = {id(entry.root) for entry in self._record}
        out: dict[int, list[Decision]] = {}
        previous = -1
        for place, entry in enumerate(self._view):
            if id(entry.root) in known:
                previous = max(previous, at_place.get(place, previous))
                continue
            fate = (
                entry.action or "inserted", entry.reason or "inserted", self._edited_by(entry),
            )  # fmt: skip
            out.setdefault(previous, []).append(self._decision(None, None, place, entry, fate))
        return out

    def _decision(
        self,
        index: int | None,
        recorded: ConversationEntry | None,
        place: int | None,
        entry: ConversationEntry | None,
        fate: tuple[str, str, str],
    ) -> Decision:
        """Put down what was recorded, what is in the view, and the action, reason and manager."""
        said = recorded or entry
        assert said is not None
        return Decision(
            index,
            place,
            said.role.value,
            *fate,
            tokens_before=0 if recorded is None else self._count(recorded),
            tokens_after=0 if entry is None else self._count(entry),
            handle=None if entry is None else entry.handle,
            origin=None if entry is None else entry.origin,
            name=said.tool_name or said.name,
            change=None if entry is None or entry is recorded else entry_to_dict(entry),
        )

    def _dropped_by(self, root: int) -> tuple[str, str]:
        """Return why an entry was left out, and the manager that did it."""
        for step, present in zip(self._steps, self._presence, strict=True):
            if root not in present:
                return step.reasons.get(root, f"left out by {step.name}"), step.name
        return "left out", self._steps[-1].manager if self._steps else "seal"

    def _edited_by(self, entry: ConversationEntry) -> str:
        """Return the manager in whose output this very entry appears first."""
        outputs = zip(self._steps, self._identities, strict=True)
        return next((step.name for step, known in outputs if id(entry) in known), "seal")
