"""What validation hands back: the messages to use and what was done to them."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from history_curator.boundary._content import describe
from history_curator.boundary._timestamps import in_utc, parse_timestamp
from history_curator.entries import ConversationEntry, MessageRole

_BEGINNING = datetime.min.replace(tzinfo=timezone.utc)

Severity = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class HistoryWarning:
    """Something was put right in a history that was handed in.

    Attributes:
        field: path of what was changed, such as ``"conversation_history[3].timestamp"``. The
            index is the position in the list the caller gave.
        message: what was wrong and what was done.
        severity: ``high`` when messages were left out, ``medium`` when text was, else ``low``.
        suggestion: what the caller can do to avoid it.
        code: the kind of warning, for programs.

    Examples:
        >>> print(HistoryWarning("prompt", "is long", "low", "shorten it"))
        prompt: is long (shorten it)
    """

    field: str
    message: str
    severity: Severity = "medium"
    suggestion: str = ""
    code: str = ""

    def __str__(self) -> str:
        advice = f" ({self.suggestion})" if self.suggestion else ""
        return f"{self.field}: {self.message}{advice}"


@dataclass(frozen=True, slots=True)
class ValidatedMessage:
    """One message that passed.

    Attributes:
        role: ``user``, ``assistant`` or ``orchestrator``.
        content: the text, perhaps shortened.
        timestamp: ISO 8601.
        truncated: whether the text was shortened.
        original_length: its characters before.
        index: its position in the list the caller gave.
        attachments: what came with the text, such as code or images: the message's
            ``attachments`` and the blocks of its content that are not text. Copies.
    """

    role: str
    content: str
    timestamp: str
    truncated: bool
    original_length: int
    index: int
    attachments: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ValidatedHistory:
    """A history that passed, with everything that was put right.

    Attributes:
        records: the messages with what is known about them.
        warnings: one per fix.
        collected_at: when it was validated.
        given: how many messages the caller handed in.

    Examples:
        >>> from history_curator.boundary import validate_history
        >>> history = validate_history([{"role": "User ", "content": " hi "}])
        >>> history.messages[0]["role"], history.messages[0]["content"]
        ('user', 'hi')
        >>> [warning.code for warning in history.warnings]
        ['missing_timestamp']
    """

    records: tuple[ValidatedMessage, ...]
    warnings: tuple[HistoryWarning, ...]
    collected_at: datetime
    given: int = 0

    @property
    def messages(self) -> list[dict[str, Any]] | None:
        """New ``{role, content, timestamp}`` dicts, or None when no message is left.

        A message that came with attachments has ``attachments`` as well.
        """
        if not self.records:
            return None
        return [
            {
                "role": one.role,
                "content": one.content,
                "timestamp": one.timestamp,
                **_with_attachments(one),
            }
            for one in self.records
        ]

    @property
    def entries(self) -> list[ConversationEntry]:
        """The messages as entries; an orchestrator is an assistant of that name."""
        return [
            ConversationEntry(
                role=MessageRole.USER if one.role == "user" else MessageRole.ASSISTANT,
                content=_whole_text(one),
                sequence=position,
                created_at=parse_timestamp(one.timestamp),
                name="orchestrator" if one.role == "orchestrator" else None,
                truncated=one.truncated,
                original_length=one.original_length if one.truncated else None,
            )
            for position, one in enumerate(self.records)
        ]

    @property
    def truncated_count(self) -> int:
        """How many messages were shortened."""
        return sum(one.truncated for one in self.records)

    def to_task_context(self) -> dict[str, Any]:
        """Return plain data to store with a task: messages, counts and when they were said."""
        order = sorted(self.records, key=_moment)
        return {
            "messages": [
                {
                    "role": one.role,
                    "content": one.content,
                    "timestamp": one.timestamp,
                    "truncated": one.truncated,
                    "original_length": one.original_length,
                    **_with_attachments(one),
                }
                for one in self.records
            ],
            "total_messages": len(self.records),
            "truncated_count": self.truncated_count,
            "metadata": {
                "collection_time": self.collected_at.isoformat(),
                "oldest_message": order[0].timestamp if order else None,
                "newest_message": order[-1].timestamp if order else None,
            },
        }


def _moment(message: ValidatedMessage) -> datetime:
    return in_utc(parse_timestamp(message.timestamp) or _BEGINNING)


def _with_attachments(message: ValidatedMessage) -> dict[str, Any]:
    if not message.attachments:
        return {}
    return {"attachments": deepcopy(list(message.attachments))}


def _whole_text(message: ValidatedMessage) -> str:
    """The text, and a note for each attachment, which no provider takes as it is."""
    notes = (f"[attachment: {describe(one)}]" for one in message.attachments)
    return "\n".join((message.content, *notes))
