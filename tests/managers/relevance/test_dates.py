"""Dates as people write them, and the messages said then."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest

from history_curator.managers.relevance._dates import SOON, THEN, Calendar, dates_in, days_ago
from history_curator.entries import ConversationEntry, MessageRole

pytest.importorskip("numpy")


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("on 8 May, 2023", [(2023, 5, 8)]),
        ("May 8th", [(0, 5, 8)]),
        ("the 3rd of Sept. 2021", [(2021, 9, 3)]),
        ("2023-05-08T10:00", [(2023, 5, 8)]),
        ("in June 2023", [(2023, 6, 0)]),
        ("last December", [(0, 12, 0)]),
        ("between 1 May and 3 May", [(0, 5, 1), (0, 5, 3)]),
        ("you may 2 times", [(0, 5, 2)]),
        ("I may go, they march on", []),
        ("version 2023.5", []),
    ],
)
def test_dates_are_read(text: str, dates: list[tuple[int, int, int]]) -> None:
    assert dates_in(text) == dates


def said(text: str, when: datetime | None = None) -> ConversationEntry:
    return ConversationEntry(MessageRole.USER, text, created_at=when)


def month(number: int) -> datetime:
    return datetime(2024, number, 1, tzinfo=timezone.utc)


def calendar(*entries: ConversationEntry) -> Calendar:
    made = Calendar()
    for entry in entries:
        made.add(entry)
    return made


def test_a_date_in_a_bracket_holds_until_the_next() -> None:
    made = calendar(said("hi"), said("[8 May 2023] a"), said("b"), said("[9 May 2023] c"))
    assert made.factors("on 8 May?", 4).tolist() == [1.0, THEN, THEN, 1.0]


def test_messages_are_dated_by_when_they_were_recorded() -> None:
    made = calendar(said("a", month(2)), said("b", month(3)))
    assert made.factors("in February 2024", 2).tolist() == [THEN, 1.0]


def test_what_is_said_soon_after_a_day_counts_as_well() -> None:
    days = [said(f"[{day} May 2023] x") for day in (7, 8, 9, 15, 16)]
    found = calendar(*days).factors("what happened on 8 May, 2023?", 5)
    assert found.tolist() == [1.0, THEN, SOON, SOON, 1.0]


@pytest.mark.parametrize("question", ["and then?", "in version 3", "the last question", "a day"])
def test_a_question_without_a_date_says_nothing(question: str) -> None:
    assert calendar(said("[8 May 2023] a")).factors(question, 1) is None


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("what did I say today?", (0, 0)),
        ("Yesterday you said", (1, 1)),
        ("3 days ago", (3, 3)),
        ("a week ago", (10, 4)),
        ("two weeks ago", (17, 11)),
        ("a couple of months ago", (75, 45)),
        ("last week", (9, 3)),
        ("this week", (2, 0)),
        ("last weekend", (4, 3)),
        ("last Monday", (2, 2)),
        ("last Wednesday", (7, 7)),
        ("last month", (44, 15)),
        ("this month", (14, 0)),
        ("long ago", None),
        ("a daydream", None),
    ],
)
def test_relative_times_are_read(text: str, span: tuple[int, int] | None) -> None:
    assert days_ago(text, date(2024, 5, 15)) == span  # a Wednesday


def test_relative_times_are_seen_from_the_latest_message() -> None:
    made = calendar(*(said(f"[{day} May 2024] x") for day in (1, 7, 13, 14, 15)), said("now"))
    assert made.factors("what did I say yesterday?", 6).tolist() == [1, 1, 1, THEN, 1, 1]
    assert made.factors("what did I say last week?", 6).tolist() == [1, THEN, 1, 1, 1, 1]
    assert calendar(said("no date")).factors("what did I say yesterday?", 1) is None


@pytest.mark.parametrize("question", ["on 31 February 2023?", "2023-99-99", "999 months ago"])
def test_a_day_that_never_was_harms_nothing(question: str) -> None:
    made = calendar(said("[31 February 2023] a"), said("[1 March 2023] b"))
    found = made.factors(question, 2)
    assert found is None or len(found) == 2
