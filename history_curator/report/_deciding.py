"""Work out the decisions: one per recorded entry, one per invented one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from history_curator.model import ConversationEntry, entry_to_dict
from history_curator.report._attribution import (
    KEPT,
    Step,
    absorbed,
    dropped_by,
    edited_by,
    roots_of,
)
from history_curator.report._decision import Decision

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
        self._presence = [roots_of(step.entries) for step in steps]
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
        touched = entry is not recorded
        action, reason = "kept", KEPT
        if touched:
            action, reason = entry.action or "kept", entry.reason or KEPT
        if moved and action == "kept":
            action, reason = "moved", MOVED.get(recorded.role.value, "moved")
        return Decision(
            index=index,
            position=place,
            role=recorded.role.value,
            action=action,
            reason=reason,
            manager=edited_by(entry, self._steps, self._identities) if touched else "seal",
            tokens_before=self._count(recorded),
            tokens_after=self._count(entry),
            handle=entry.handle,
            origin=entry.origin,
            name=recorded.tool_name or recorded.name,
            change=entry_to_dict(entry) if touched else None,
        )

    def _absent(self, index: int, recorded: ConversationEntry) -> Decision:
        root = recorded.root
        action, manager = "dropped", "seal"
        if id(root) in self._merged:
            action, reason = "merged", "merged into its neighbour"
        elif index in self._orphans:
            reason = self._orphans[index]
        else:
            manager, reason = dropped_by(root, self._steps, self._presence)
        return Decision(
            index=index,
            position=self._merged.get(id(root)),
            role=recorded.role.value,
            action=action,
            reason=reason,
            manager=manager,
            tokens_before=self._count(recorded),
            tokens_after=0,
            name=recorded.tool_name or recorded.name,
        )

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
            decision = Decision(
                index=None,
                position=place,
                role=entry.role.value,
                action=entry.action or "inserted",
                reason=entry.reason or "inserted",
                manager=edited_by(entry, self._steps, self._identities),
                tokens_before=0,
                tokens_after=self._count(entry),
                handle=entry.handle,
                origin=entry.origin,
                name=entry.tool_name or entry.name,
                change=entry_to_dict(entry),
            )
            out.setdefault(previous, []).append(decision)
        return out
