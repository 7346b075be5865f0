"""Calls and results become units."""

from __future__ import annotations

from dataclasses import replace

import pytest

from history_curator.entries import ConversationEntry
from history_curator.testing import parse_entries
from history_curator.units import Pairing, pair


def read(talk: str) -> list[ConversationEntry]:
    """A conversation in shorthand, in which ``T(?)`` does not say what it answers."""
    return [
        replace(entry, tool_call_id=None) if entry.tool_call_id == "?" else entry
        for entry in parse_entries(talk)
    ]


def test_a_result_without_an_id_answers_the_first_call_that_waits() -> None:
    (_, unit) = pair(read("U A(c1,c2,c3) T(c1) T(?) T(?)"))
    assert [entry.content for entry in unit.entries[2:]] == ["result 3 of ?", "result 4 of ?"]


@pytest.mark.parametrize(
    ("talk", "orphans"),
    [
        ("U A(c1) T(?) T(?)", [3]),  # no call waits any more
        ("U A(c1) A T(?)", []),
        ("U A(c1) U T(?)", [3]),  # the user spoke since
    ],
)
def test_a_result_that_no_call_waits_for_is_an_orphan(talk: str, orphans: list[int]) -> None:
    assert list(Pairing(read(talk)).orphans) == orphans


def test_a_late_result_takes_the_place_of_its_placeholder() -> None:
    (_, unit, _) = pair(read("U A(c1,c2,c3) T(c3) A T(c1)"))
    assert [entry.origin for entry in unit.entries] == [None, None, "placeholder", None]
    assert unit.waiting == (1,)


def test_a_call_that_is_listed_twice_is_one() -> None:
    entries = read("U A(c1) T(c1)")
    call = (entries[1].tool_calls or ())[0]
    twice: ConversationEntry = entries[1].evolve(tool_calls=(call, call))
    (_, unit) = pair([entries[0], twice, entries[2]])
    assert unit.head.tool_calls == (call,)
    assert unit.head.action == "repaired"
    assert unit.entries[1:] == (entries[2],)
