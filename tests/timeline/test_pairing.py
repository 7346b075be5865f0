"""Calls and results become units, in one go or one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from history_curator.entries import ConversationEntry
from history_curator.testing import parse_entries
from history_curator.timeline import Timeline, Unit

CONVERSATIONS = (
    "S U A(c1) T(c1) A U",
    "U A(c1,c2,c3) T(c3) U T(c1) A T(c2)",
    "U A(c1) A(c2) A(c1) T(c1) T(c2) T(c1) T(c9)",
    "U A(c1,c1) T(c1) T(c1) T(c1) U A(c1) T(c1)",
    "U A(c1,c2) T(?) T(?) U A(c1) U T(?)",
    "U A(c1) T(c1) T~(c1) A T(c1) S U",
    "U A(c1,c2) T(?) T(?) T(?) A(c3) T(c3) T(?)",
)


def read(talk: str) -> list[ConversationEntry]:
    """A conversation in shorthand, in which ``T(?)`` does not say what it answers."""
    return [
        replace(entry, tool_call_id=None) if entry.tool_call_id == "?" else entry
        for entry in parse_entries(talk)
    ]


def seen(timeline: Timeline) -> Any:
    """Everything that is known of a conversation, by what it says."""
    pairing = timeline.pairing
    return (
        [(unit.kind, unit.start, unit.offset, unit.missing, said(unit)) for unit in pairing.units],
        [[one and one.content for one in unit.results] for unit in pairing.units],
        (pairing.users, sorted(pairing.incomplete_units), pairing.orphans, pairing.changed_units, pairing.size),
        [entry.content for entry in pairing.replaced],
    )


def said(unit: Unit) -> list[tuple[str | None, str | None]]:
    return [(entry.tool_call_id, entry.content) for entry in unit.entries]


@pytest.mark.parametrize("talk", CONVERSATIONS)
def test_it_does_not_matter_how_many_arrive_at_once(talk: str) -> None:
    entries = read(talk)
    whole = seen(Timeline(entries))
    for size in (1, 2, 3):
        grown = Timeline()
        for start in range(0, len(entries), size):
            grown.extend(entries[start : start + size])
        assert seen(grown) == whole


def test_an_exchange_that_is_read_with_its_results_is_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    make = Unit.__init__

    def counted(self: Unit, *given: Any) -> None:
        made.append(self)
        make(self, *given)

    monkeypatch.setattr(Unit, "__init__", counted)
    names = [f"c{number}" for number in range(50)]
    results = " ".join(f"T({name})" for name in names)
    timeline = Timeline(read(f"U A({','.join(names)}) {results} A"))
    assert made == timeline.pairing.units


def test_a_unit_that_was_seen_is_not_changed_and_its_placeholders_stay() -> None:
    *before, late = read("U A(c1,c2,c3) T(c3) A T(c1)")
    timeline = Timeline(before)
    known = timeline.pairing.units[1]
    shown = known.entries
    timeline.extend([late])
    grown = timeline.pairing.units[1]
    assert known.entries is shown
    assert (known.missing, grown.missing) == (2, 1)
    assert grown.entries[1] is late
    assert grown.entries[2] is shown[2]
    assert grown.entries[2].origin == "placeholder"


def orphans(talk: str) -> list[int]:
    return list(Timeline(read(talk)).pairing.orphans)


def test_a_result_without_an_id_answers_the_first_call_that_waits() -> None:
    (_, unit) = Timeline(read("U A(c1,c2,c3) T(c1) T(?) T(?)")).pairing.units
    assert [entry.content for entry in unit.entries[2:]] == ["result 3 of ?", "result 4 of ?"]
    assert orphans("U A(c1) T(?) T(?)") == [3], "no call waits any more"
    assert orphans("U A(c1) A T(?)") == []
    assert orphans("U A(c1) U T(?)") == [3], "the user spoke since"


def test_a_call_that_is_listed_twice_is_one() -> None:
    entries = read("U A(c1) T(c1)")
    call = (entries[1].tool_calls or ())[0]
    twice: ConversationEntry = entries[1].evolve(tool_calls=(call, call))
    (_, unit) = Timeline([entries[0], twice, entries[2]]).pairing.units
    assert unit.head.tool_calls == (call,)
    assert unit.head.action == "repaired"
    assert unit.entries[1:] == (entries[2],)
