"""Reads ISO 8601 timestamps the same way on every Python version."""

from __future__ import annotations

import re
from datetime import date, datetime, timezone

_DATE = (
    r"(?P<year>\d{4})(?:"
    r"-(?P<month>\d{2})-(?P<day>\d{2})"  # extended: 2025-10-29
    r"|(?P<basic_month>\d{2})(?P<basic_day>\d{2})"  # basic: 20251029
    r"|-?W(?P<week>\d{2})(?:-?(?P<weekday>[1-7]))?)"  # by week, either way: 2025-W44-3, 2025W443
)
_TIME = (
    r"(?P<hour>\d{2})(?::?(?P<minute>\d{2})(?::?(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)?"
)
_ZONE = r"(?P<zone>[Zz]|[+-]\d{2}(?::?\d{2})?)"
_ISO_8601 = re.compile(rf"{_DATE}(?:[Tt ]{_TIME}{_ZONE}?)?")


def parse_timestamp(text: object) -> datetime | None:
    """Return the moment an ISO 8601 text names, extended or basic, or None.

    ``Z`` is UTC; no zone stays none.

    Examples:
        >>> parse_timestamp("20251029T133000Z") == parse_timestamp("2025-10-29T13:30:00+00:00")
        True
    """
    if not isinstance(text, str):
        return None
    match = _ISO_8601.fullmatch(text.strip())
    if match is None:
        return None
    try:
        return datetime.fromisoformat(_extended(match))
    except ValueError:
        return None


def _extended(match: re.Match[str]) -> str:
    """Return what every Python version reads: extended form, microseconds, zone with a colon."""
    year = match["year"]
    if match["week"]:
        day = date.fromisocalendar(int(year), int(match["week"]), int(match["weekday"] or 1))
        iso = day.isoformat()
    else:
        month, number = match["month"] or match["basic_month"], match["day"] or match["basic_day"]
        iso = f"{year}-{month}-{number}"
    if match["hour"] is None:
        return iso
    iso += f"T{match['hour']}:{match['minute'] or '00'}:{match['second'] or '00'}"
    if match["fraction"]:
        iso += f".{match['fraction'][:6]:0<6}"
    zone = match["zone"]
    if zone and zone in "Zz":
        iso += "+00:00"
    elif zone:
        digits = zone[1:].replace(":", "").ljust(4, "0")
        iso += f"{zone[0]}{digits[:2]}:{digits[2:]}"
    return iso


def in_utc(moment: datetime) -> datetime:
    """Return a moment that can be compared with any other; no zone counts as UTC."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=timezone.utc)
    return moment.astimezone(timezone.utc)
