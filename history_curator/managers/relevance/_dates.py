"""Dates: when a message was said, and which times a question is about."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

from history_curator.managers.relevance._text import numpy
from history_curator.entries import ConversationEntry

Date = tuple[int, int, int]
"""Year, month and day; 0 where it is not said."""

THEN = 3.0
"""What a message counts that was said when the question says."""
SOON = 2.0
"""What a message counts that was said soon after: people tell what happened the other day."""
SOON_DAYS = 7

_NAMES = """
january february march april may june july august september october november december
"""
_MONTHS = {name: number for number, name in enumerate(_NAMES.split(), 1)}
_MONTHS |= {name[:3]: number for name, number in _MONTHS.items()} | {"sept": 9}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
_YEAR = r"(?:,?\s*(?P<year>(?:19|20)\d\d)\b)"
_BEFORE = r"\b(?:in|of|during|since|until|before|after|last|this|early|late|mid)[\s-]+"
_WITH_DAY = (
    r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)(?!\d)",
    rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}{_YEAR}?",
    rf"\b{_MONTH}\s+{_DAY}{_YEAR}?",
)
_WITHOUT = ((rf"\b{_MONTH}(?:\s+of)?{_YEAR}",), (rf"{_BEFORE}{_MONTH}",))
_PATTERNS = [
    [re.compile(pattern, re.IGNORECASE) for pattern in patterns]
    for patterns in (_WITH_DAY, *_WITHOUT)
]
"""What is more exact is looked for first."""
_HEADER = re.compile(r"\s*\[([^\]\n]{4,80})\]")

_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_COUNTS |= {"a couple of": 2, "a few": 3}
_UNITS = {"day": 1, "week": 7, "month": 30}
_AGO = re.compile(
    rf"\b(?P<count>\d{{1,3}}|{'|'.join(sorted(_COUNTS, key=len, reverse=True))})\s+"
    rf"(?P<unit>{'|'.join(_UNITS)})s?\s+ago\b",
    re.IGNORECASE,
)
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_LAST = re.compile(
    rf"\b(?:(?P<day>today|tonight|this (?:morning|afternoon|evening))|(?P<before>yesterday|last night)"
    rf"|(?P<which>last|this) (?P<unit>week(?:end)?|month)|last (?P<weekday>{'|'.join(_WEEKDAYS)}))\b",
    re.IGNORECASE,
)


def dates_in(text: str) -> list[Date]:
    """Return the dates of a text; months alone only where there is no day.

    Examples:
        >>> dates_in("What did I say on May 8th, 2023?"), dates_in("the trip in June")
        ([(2023, 5, 8)], [(0, 6, 0)])
    """
    for patterns in _PATTERNS:
        found = list(dict.fromkeys(date for each in patterns for date in _matches(each, text)))
        if found:
            return found
    return []


def days_ago(text: str, today: date) -> tuple[int, int] | None:
    """Return how many days ago the time a text speaks of began and ended; None for none.

    Examples:
        >>> monday = date(2024, 5, 13)
        >>> days_ago("what did I say yesterday?", monday), days_ago("two weeks ago", monday)
        ((1, 1), (17, 11))
    """
    if ago := _AGO.search(text):
        count, length = ago["count"].lower(), _UNITS[ago["unit"].lower()]
        days = (int(count) if count.isdigit() else _COUNTS[count]) * length
        return days + length // 2, max(days - length // 2, 0)
    said = _LAST.search(text)
    if said is None:
        return None
    if said["day"]:
        return 0, 0
    if said["before"]:
        return 1, 1
    weekday = today.weekday()
    if said["weekday"]:
        days = (weekday - _WEEKDAYS.index(said["weekday"].lower()) - 1) % 7 + 1
        return days, days
    last, unit = said["which"].lower() == "last", said["unit"].lower()
    if unit == "week":
        return (weekday + 7, weekday + 1) if last else (weekday, 0)
    if unit == "weekend":
        saturday = (weekday - 5) % 7
        return saturday, max(saturday - 1, 0)
    before = (today.replace(day=1) - timedelta(days=1)).day
    return (today.day - 1 + before, today.day) if last else (today.day - 1, 0)


class Calendar:
    """When each message of a conversation was said.

    A message is dated by when it was recorded, or by a date in a bracket at its start, such as
    ``[Session 3, 8 May 2023]``, which holds until the next one.
    """

    def __init__(self) -> None:
        self._days: array[int] = array("I")
        self._today = 0

    def add(self, entry: ConversationEntry) -> None:
        """Append one message."""
        header = _HEADER.match(entry.content or "")
        found = dates_in(header[1]) if header else []
        if found:
            self._today = _number(found[0])
        said = entry.created_at
        if said is None or found:
            self._days.append(self._today)
        else:
            self._days.append(_number((said.year, said.month, said.day)))

    def factors(self, question: str, limit: int) -> Any:
        """Return what each of the first messages counts for a question; None without a date.

        "Yesterday" and the like are seen from the latest of these messages that has a date.
        """
        wanted = dates_in(question)
        days = numpy().array(self._days[:limit])
        if wanted:
            return _by_date(days, wanted)
        return (
            _by_distance(days, question)
            if _AGO.search(question) or _LAST.search(question)
            else None
        )


def _by_date(days: Any, wanted: list[Date]) -> Any:
    np = numpy()
    said = np.stack([days // 10_000, days // 100 % 100, days % 100], axis=1)
    hits = [((said == each) | (np.array(each) == 0)).all(axis=1) for each in wanted]
    factors = np.ones(len(days))
    for year, month, day in wanted:
        then = _day(year, month, day)
        if then is not None:
            after = _days_of(days) - then.toordinal()
            factors[(after > 0) & (after <= SOON_DAYS)] = SOON
    factors[np.logical_or.reduce(hits) & (days > 0)] = THEN
    return factors


def _by_distance(days: Any, question: str) -> Any:
    np = numpy()
    known = _days_of(days)
    if not (known > 0).any():
        return None
    today = date.fromordinal(int(known[known > 0][-1]))
    span = days_ago(question, today)
    if span is None:
        return None
    ago = today.toordinal() - known
    return np.where((known > 0) & (ago <= span[0]) & (ago >= span[1]), THEN, 1.0)


def _days_of(days: Any) -> Any:
    """Return days counted from one beginning; 0 where the date is not whole."""
    np = numpy()
    different, place = np.unique(days, return_inverse=True)
    counted = [_day(n // 10_000, n // 100 % 100, n % 100) for n in different.tolist()]
    return np.array([0 if each is None else each.toordinal() for each in counted], dtype=int)[place]


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[Date]:
    for match in pattern.finditer(text):
        said = match.groupdict()
        month = said["month"]
        number = int(month) if month.isdigit() else _MONTHS[month.lower()]
        yield int(said.get("year") or 0), number, int(said.get("day") or 0)


def _number(when: Date) -> int:
    return when[0] * 10_000 + when[1] * 100 + when[2]
