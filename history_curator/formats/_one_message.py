"""One entry as a provider message, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

from history_curator.entries import ConversationEntry
from history_curator.errors import ConversionError
from history_curator.formats._chat import write_message
from history_curator.formats._dicts import DictFormat


def entry_to_provider_message(entry: ConversationEntry) -> dict[str, Any]:
    """Return an entry as an OpenAI-style message, a new dict.

    Examples:
        >>> from history_curator.entries import ConversationEntry, MessageRole
        >>> entry_to_provider_message(ConversationEntry(MessageRole.USER, "hi"))
        {'role': 'user', 'content': 'hi'}
    """

    return write_message(entry)


def provider_message_to_entry(
    msg: Mapping[str, Any],
    *,
    evaluation_id: UUID | None = None,
    sequence: int = 0,
    created_at: datetime | None = None,
) -> ConversationEntry:
    """Return one OpenAI-style message as an entry.

    Raises:
        ConversionError: when the message cannot be read, or holds more than one entry.
    """

    entries = DictFormat().read(msg, sequence)
    if len(entries) != 1:
        raise ConversionError(
            f"the message holds {len(entries)} entries (tool results and text).",
            index=sequence,
            field="content",
            fix="read it with Curator, or pass one message per tool result.",
        )
    return replace(
        entries[0],
        evaluation_id=evaluation_id,
        sequence=sequence,
        created_at=created_at or datetime.now(timezone.utc),
    )
