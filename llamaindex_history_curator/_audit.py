"""What `CuratedMemory.set` took out of the record."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from llama_index.core.base.llms.types import ChatMessage

from llamaindex_history_curator._serialize import message_to_dict
from llamaindex_history_curator._store import without_id


class Replaced(NamedTuple):
    """What one `CuratedMemory.set` took out of the record.

    Example:
        >>> from datetime import datetime, timezone
        >>> lost = Replaced(datetime.now(timezone.utc), (ChatMessage("hi"),))
        >>> len(lost.messages)
        1
    """

    at: datetime
    messages: tuple[ChatMessage, ...]


def missing(stored: Sequence[ChatMessage], fresh: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return the stored messages that the fresh ones do not hold, in order."""
    stored = [without_id(message) for message in stored]
    if list(fresh[: len(stored)]) == stored:
        return []
    there = Counter(map(_key, fresh))
    lost = []
    for message in stored:
        key = _key(message)
        if there[key]:
            there[key] -= 1
        else:
            lost.append(message)
    return lost


def _key(message: ChatMessage) -> str:
    return json.dumps(message_to_dict(message), sort_keys=True)
