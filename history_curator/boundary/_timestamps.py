"""Reads ISO 8601 timestamps the same way on every Python version."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_ISO_8601 = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<time>\d{2}:\d{2}(?::\d{2})?)(?:[.,](?P<fraction>\d{1,9}))?"
    r"(?P<zone>[Zz]|[+-]\d{2}(?::?\d{2})?)?)?"
)


def parse_timestamp(text: object) -> datetime | None:
    """Return the moment an ISO 8601 text names, or None. ``Z`` is UTC; no zone stays none."""
    if not isinstance(text, str):
        return None
    match = _ISO_8601.fullmatch(text.strip())
    if match is None:
        return None
    iso = match["date"]
    if match["time"]:
        iso += f"T{match['time']}"
        if match["fraction"]:
            if match["time"].count(":") < 2:
                return None
            iso += f".{match['fraction'][:6]:0<6}"
        zone = match["zone"]
        if zone and zone in "Zz":
            iso += "+00:00"
        elif zone:
            digits = zone[1:].replace(":", "").ljust(4, "0")
            iso += f"{zone[0]}{digits[:2]}:{digits[2:]}"
    try:
        return datetime.fromisoformat(iso)
    except ValueError:
        return None


def in_utc(moment: datetime) -> datetime:
    """Return a moment that can be compared with any other; no zone counts as UTC."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=timezone.utc)
    return moment.astimezone(timezone.utc)
