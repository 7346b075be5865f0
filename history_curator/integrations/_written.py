"""The message of an edited entry, made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from history_curator.formats import copied, differ
from history_curator.entries import ConversationEntry


class _Written(NamedTuple):
    """What an entry was written as in a format, and what was seen of it then."""

    format: str
    message: Any
    seen: Any


def written_once(
    format: str,
    entry: ConversationEntry,
    write: Callable[[ConversationEntry], Any],
    seen: Callable[[Any], Any],
) -> Any:
    """Return the message of an edited entry: the same one as long as nobody edits it in turn.

    `seen` returns what of a message would show an edit.
    """
    known = entry.written
    if not isinstance(known, _Written) or known.format != format:
        known = None
    if known is None or differ(seen(known.message), known.seen):
        message = write(entry)
        known = _Written(format, message, copied(seen(message)))
        object.__setattr__(entry, "written", known)
    return known.message
