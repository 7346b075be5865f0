from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_curator.caching import cold_entries, seconds, time_of
from history_curator.entries import ConversationEntry, MessageRole

ROLES = {"u": MessageRole.USER, "a": MessageRole.ASSISTANT, "t": MessageRole.TOOL}
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def said(role: str, at: float | None) -> ConversationEntry:
    when = None if at is None else START + timedelta(seconds=at)
    return ConversationEntry(ROLES[role], "x", created_at=when)


def history(*steps: tuple[str, float | None]) -> list[ConversationEntry]:
    return [said(role, at) for role, at in steps]


class TestColdEntries:
    def test_a_user_who_comes_back_late(self) -> None:
        talk = history(("u", 0), ("a", 5), ("u", 304), ("a", 310), ("u", 610))
        assert cold_entries(talk, 300) == (4,)

    def test_a_tool_that_ran_for_long(self) -> None:
        assert cold_entries(history(("u", 0), ("a", 5), ("t", 400)), 300) == (2,)

    def test_results_that_trickle_in_are_late_once(self) -> None:
        talk = history(("u", 0), ("a", 5), ("t", 200), ("t", 400), ("t", 800), ("a", 801))
        assert cold_entries(talk, 300) == (3,)

    def test_entries_without_a_time_are_passed_over(self) -> None:
        talk = history(("u", None), ("a", 5), ("u", None), ("a", None), ("u", 900))
        assert cold_entries(talk, 300) == (4,)
        assert cold_entries(history(("u", None), ("a", None), ("u", None)), 300) == ()

    def test_no_answer_yet_nothing_to_lose(self) -> None:
        assert cold_entries(history(("u", 0), ("u", 9_000)), 300) == ()

    def test_without_a_ttl_nothing_goes_cold(self) -> None:
        assert cold_entries(history(("u", 0), ("a", 0), ("u", 9_000)), None) == ()

    def test_idle_marks_the_newest(self) -> None:
        talk = history(("u", None), ("a", None), ("u", None))
        assert cold_entries(talk, 300, idle=299) == ()
        assert cold_entries(talk, 300, idle=300) == (2,)
        assert cold_entries([], 300, idle=300) == ()

    @given(
        st.lists(st.tuples(st.sampled_from("uat"), st.none() | st.floats(0, 3_000)), max_size=12),
        st.integers(0, 12),
    )
    def test_growing_takes_nothing_back(self, steps: list[Any], cut: int) -> None:
        talk = history(*steps)
        whole, part = cold_entries(talk, 300), cold_entries(talk[:cut], 300)
        assert part == tuple(at for at in whole if at < cut)


class TestTimeOf:
    @pytest.mark.parametrize("key", ["timestamp", "created_at", "time"])
    def test_of_a_dict(self, key: str) -> None:
        entry = ConversationEntry(MessageRole.USER, "x", source={key: "2026-01-01T00:00:00Z"})
        assert time_of(entry) == START.timestamp()

    def test_of_a_framework_message(self) -> None:
        class Message:
            def __init__(self) -> None:
                self.additional_kwargs = {"timestamp": START.timestamp()}

        entry = ConversationEntry(MessageRole.USER, "x", source=Message())
        assert time_of(entry) == START.timestamp()

    def test_the_record_wins(self) -> None:
        entry = ConversationEntry(MessageRole.USER, "x", created_at=START, source={"time": 5})
        assert time_of(entry) == START.timestamp()

    def test_an_edited_copy_keeps_the_time(self) -> None:
        entry = ConversationEntry(MessageRole.USER, "x", source={"time": 5})
        assert time_of(entry.evolve(content="y")) == 5

    def test_none(self) -> None:
        assert time_of(ConversationEntry(MessageRole.USER, "x", source=object())) is None


class TestSeconds:
    @pytest.mark.parametrize(
        "value",
        [
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00.000Z",
            "2026-01-01T01:00:00.0000000+01:00",
            "2026-01-01",
            datetime(2026, 1, 1),  # noqa: DTZ001 - no zone counts as UTC
            START,
            1767225600,
            1767225600000,
            1767225600000000000,
        ],
    )
    def test_one_moment(self, value: Any) -> None:
        assert seconds(value) == 1767225600.0

    @pytest.mark.parametrize("value", ["", "soon", None, True, -1, 0, float("nan"), [], {}])
    def test_no_moment(self, value: Any) -> None:
        assert seconds(value) is None
