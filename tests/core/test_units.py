"""Calls and results become units, in one go or one after the other."""

from __future__ import annotations

from dataclasses import replace

from history_curator.entries import ConversationEntry
from history_curator.testing import parse_entries
from history_curator.units import Pairing


def read(talk: str) -> list[ConversationEntry]:
    """A conversation in shorthand, in which ``T(?)`` does not say what it answers."""
    return [
        replace(entry, tool_call_id=None) if entry.tool_call_id == "?" else entry
        for entry in parse_entries(talk)
    ]


def test_a_late_result_joins_its_call_and_the_placeholder_of_another_stays() -> None:
    entries = read("U A(c1,c2,c3) T(c3) A T(c1)")
    pairing = Pairing(entries)
    unit = pairing.units[1]
    assert unit.indexes == [1, 4, -1, 2]
    assert unit.entries[1] is entries[4]
    assert unit.entries[2].origin == "placeholder"
    assert unit.results == [entries[4], None, entries[2]]
    assert (pairing.waiting, pairing.late_results) == ({1}, [4])


def test_a_result_belongs_to_the_latest_calls_with_its_id() -> None:
    pairing = Pairing(read("U A(c1) T(c1) A(c1) T(c1)"))
    assert [unit.indexes for unit in pairing.units[1:]] == [[1, 2], [3, 4]]


def test_a_second_result_takes_the_place_of_the_first() -> None:
    pairing = Pairing(read("U A(c1) T(c1) T(c1)"))
    assert pairing.units[1].indexes == [1, 3]
    assert pairing.unused_results == {2: "a later result for the same call took its place"}


def test_a_result_without_an_id_answers_the_first_call_that_waits() -> None:
    (_, unit) = Pairing(read("U A(c1,c2,c3) T(c1) T(?) T(?)")).units
    assert [entry.content for entry in unit.entries[2:]] == ["result 3 of ?", "result 4 of ?"]
    for talk, unused in (
        ("U A(c1) T(?) T(?)", [3]),  # no call waits any more
        ("U A(c1) A T(?)", []),
        ("U A(c1) U T(?)", [3]),  # the user spoke since
    ):
        assert list(Pairing(read(talk)).unused_results) == unused


def test_a_call_that_is_listed_twice_is_one() -> None:
    entries = read("U A(c1) T(c1)")
    call = (entries[1].tool_calls or ())[0]
    twice: ConversationEntry = entries[1].evolve(tool_calls=(call, call))
    (_, unit) = Pairing([entries[0], twice, entries[2]]).units
    assert unit.head.tool_calls == (call,)
    assert unit.head.action == "repaired"
    assert unit.entries[1:] == (entries[2],)
