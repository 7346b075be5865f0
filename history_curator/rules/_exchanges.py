"""Walk an exchange whose results already follow their calls."""

from __future__ import annotations

from history_curator.rules._invariant import TOOL, Entries


def results_of(entries: Entries, index: int) -> list[int | None]:
    """Positions of the results of the calls at `index`, one per call, matched by id in order."""
    calls = entries[index].tool_calls or ()
    end = index + 1
    while end < len(entries) and entries[end].role is TOOL:
        end += 1
    free = list(range(index + 1, end))
    places: list[int | None] = []
    for call in calls:
        place = next((at for at in free if entries[at].tool_call_id == call.id), None)
        if place is not None:
            free.remove(place)
        places.append(place)
    return places
