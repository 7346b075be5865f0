"""The message of an edited entry, made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from history_curator.dialects import copied, differ
from history_curator.model import ConversationEntry


class _Written(NamedTuple):
    """What an entry was written as in a dialect, and what was seen of it then."""

    dialect: str
    message: Any
    seen: Any


def written_once(
    dialect: str,
    entry: ConversationEntry,
    write: Callable[[ConversationEntry], Any],
    seen: Callable[[Any], Any],
) -> Any:
    """Return the message of an edited entry: the same one as long as nobody edits it in turn.

    `seen` returns what of a message would show an edit.
    """
    known = entry.written
    if not isinstance(known, _Written) or known.dialect != dialect:
        known = None
    if known is None or differ(seen(known.message), known.seen):
        message = write(entry)
        known = _Written(dialect, message, copied(seen(message)))
        object.__setattr__(entry, "written", known)
    return known.message
