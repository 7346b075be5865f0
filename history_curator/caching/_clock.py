"""Where a provider's cache has gone cold, told from the times in the history alone.

A cached prefix is forgotten after a while of idleness. The request after that writes everything
anew whatever it holds, so that is the moment at which changing the view costs nothing. The answer
follows from the times the messages carry, never from the wall clock, so a view made from the same
history is the same on any machine and on any day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from history_curator.entries import ConversationEntry, MessageRole

__all__ = ["LATE", "Clock", "cold_entries", "seconds", "time_of"]

LATE = 15.0
"""Seconds after its time to live in which a prefix was still found, in real logs."""
_KEYS = ("timestamp", "created_at", "time")
_MILLISECONDS = 1e11
"""Numbers above this are milliseconds: as seconds they would lie beyond the year 5000."""


def seconds(value: Any) -> float | None:
    """Return a moment as seconds since 1970, or None for what names none.

    Takes a `datetime` (without a zone it counts as UTC), ISO 8601 text, and seconds, milliseconds
    or nanoseconds as a number.

    Examples:
        >>> seconds("1970-01-01T00:01:00Z"), seconds(1_700_000_000_000), seconds("soon")
        (60.0, 1700000000.0, None)
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        value = _parsed(value.strip())
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return moment.timestamp()
    if not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        return None
    number = float(value)
    if number > _MILLISECONDS * 1e6:
        return number / 1e9
    return number / 1e3 if number > _MILLISECONDS else number


def _parsed(text: str) -> datetime | None:
    head, point, rest = text.partition(".")
    if point:  # Python 3.10 reads three or six digits after the point, nothing else
        digits = len(rest) - len(rest.lstrip("0123456789"))
        text = f"{head}.{rest[:digits][:6]:0<6}{rest[digits:]}"
    try:
        return datetime.fromisoformat(f"{text[:-1]}+00:00" if text[-1:] in "Zz" else text)
    except ValueError:
        return None


def time_of(entry: ConversationEntry) -> float | None:
    """Return when a message was said, in seconds since 1970; None when it does not say.

    Looked up in this order: ``created_at`` of the entry (a record fills it), its metadata, and the
    message it was read from: ``timestamp``, ``created_at`` or ``time`` of a dict, or the same keys
    in a framework message's ``additional_kwargs``.
    """
    if entry.created_at is not None:
        return seconds(entry.created_at)
    source = entry.root.source
    for place in (
        entry.metadata,
        source,
        getattr(source, "additional_kwargs", None),
    ):
        if isinstance(place, Mapping):
            for key in _KEYS:
                moment = seconds(place.get(key))
                if moment is not None:
                    return moment
    return None


class Clock(NamedTuple):
    """When the model answered last, and how long it keeps what it was sent. Never changed.

    Attributes:
        ttl: seconds a cached prefix survives.
        answered: when the model answered last; None where nothing says so, and once the cache was
            found cold since then.
    """

    ttl: float
    answered: float | None = None

    def passes(self, answered: float | None, said: float | None) -> tuple[Clock, bool]:
        """Return the clock after a unit, and whether the cache was cold when others spoke in it.

        Args:
            answered: when the model answered in it, where it did.
            said: when the last of the others spoke in it: the user, or a tool.
        """
        since = self.answered if answered is None else answered
        if since is not None and said is not None and said - since >= self.ttl:
            return self._replace(answered=None), True
        return self._replace(answered=since), False


def cold_entries(
    entries: Sequence[ConversationEntry] | Iterable[ConversationEntry],
    ttl: float | None,
    *,
    idle: float | None = None,
) -> tuple[int, ...]:
    """Return the positions of the entries before which a cache has gone cold.

    An entry is one when it was said ``ttl`` seconds or more after the last answer of the model, and
    is the first such entry since that answer: the request that carries it finds nothing cached.
    Whether an entry is one depends on what stands before it only, so a growing history never takes
    one back. Entries without a time are passed over.

    Args:
        entries: the history, from its start.
        ttl: seconds a cached prefix survives; None when it is not known, and nothing goes cold.
        idle: seconds since the last request, where the caller knows and the messages do not say;
            it makes the newest entry one. Nothing remembers it, so a host that uses it gives its
            messages a time as well, or passes it for this view only.

    Examples:
        >>> from datetime import timedelta
        >>> start = datetime(2026, 1, 1, tzinfo=timezone.utc)
        >>> said = [
        ...     ConversationEntry(MessageRole.USER, "hi", created_at=start),
        ...     ConversationEntry(MessageRole.ASSISTANT, "hello", created_at=start),
        ...     ConversationEntry(
        ...         MessageRole.USER, "back", created_at=start + timedelta(minutes=9)
        ...     ),
        ... ]
        >>> cold_entries(said, 300), cold_entries(said, 3600)
        ((2,), ())
    """
    if ttl is None:
        return ()
    found: list[int] = []
    clock, last = Clock(ttl), -1
    for last, entry in enumerate(entries):
        moment = time_of(entry)
        spoke = entry.role is MessageRole.ASSISTANT
        clock, cold = clock.passes(moment if spoke else None, None if spoke else moment)
        if cold:
            found.append(last)
    if idle is not None and idle >= ttl and last >= 0 and last not in found:
        found.append(last)
    return tuple(found)
