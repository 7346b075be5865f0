"""`validate_history`: refuse what is wrong, put right what can be, and say so."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from history_curator.boundary._content import attachments_of, text_of_blocks
from history_curator.boundary._limits import HistoryLimits
from history_curator.boundary._timestamps import parse_timestamp
from history_curator.boundary._validated import (
    HistoryWarning,
    Severity,
    ValidatedHistory,
    ValidatedMessage,
)
from history_curator.errors import HistoryValidationError, named

_WARNINGS: dict[str, tuple[Severity, str]] = {
    "all_filtered": ("high", "Send messages with text in them"),
    "empty_content": ("low", "Leave empty messages out"),
    "invalid_timestamp": ("low", "Send ISO 8601 timestamps, such as 2025-10-29T13:30:00Z"),
    "long_message": ("medium", "Keep {role} messages below {limit} characters"),
    "malformed_attachments": ("medium", "Send attachments as a list of dictionaries"),
    "many_messages": ("low", "Consider starting a new conversation"),
    "missing_timestamp": ("low", "Send ISO 8601 timestamps"),
    "too_many_messages": ("high", "Consider providing only recent relevant messages"),
    "total_size": ("high", "Send fewer or shorter messages"),
}
"""How much each thing that was put right matters, and what the caller can do about it."""

JSON_OVERHEAD = 10
"""Characters of JSON around a message, roughly."""


def validate_history(
    history: Any,
    limits: HistoryLimits | None = None,
    *,
    field: str = "conversation_history",
    now: datetime | None = None,
) -> ValidatedHistory:
    """Return a history that is safe to use, or raise.

    Critical errors raise: not a list, a message that is not a dict, a required field missing, an
    unknown role, content that is neither text nor a list of blocks, a message over its hard limit.
    Everything else is put right with a warning: too many messages, missing or invalid timestamps,
    empty and long messages, malformed attachments, too large a total, nothing left. Attachments
    and blocks that are not text stay with their message, as `ValidatedMessage.attachments`. Older
    messages beyond `max_messages` are left out before they are looked at. What the caller gave is
    never changed; every message returned is new.

    Args:
        history: a list of ``{role, content, timestamp}`` dicts, or None.
        limits: what to hold it to; `HistoryLimits.assistant_first()` by default.
        field: the parameter's name in errors and warnings.
        now: the time given to messages without one.

    Raises:
        HistoryValidationError: with the field, what is wrong with it, and the value.

    Examples:
        >>> validate_history(
        ...     [{"role": "user", "content": "hi", "timestamp": "2025-10-29T13:30:00Z"}]
        ... ).warnings
        ()
    """
    limits = limits or HistoryLimits()
    now = now or datetime.now(timezone.utc)
    if history is None:
        return ValidatedHistory((), (), now)
    if not isinstance(history, list):
        raise HistoryValidationError(
            field, "Must be a list of message dictionaries", type(history).__name__
        )
    check = _Check(limits, field, now)
    check.payload(history)
    first = check.count(len(history))
    kept = [
        message
        for index in range(first, len(history))
        if (message := check.message(index, history[index])) is not None
    ]
    if history and not kept:
        check.warn(
            "all_filtered",
            field,
            "All messages were filtered out due to validation issues. History will be omitted.",
        )
    return ValidatedHistory(
        tuple(check.total(kept)), tuple(check.warnings), now, given=len(history)
    )


def message_size(message: ValidatedMessage) -> int:
    """Return the approximate size of a message in characters."""
    text = len(message.content) + len(message.role) + len(message.timestamp)
    if message.attachments:
        text += payload_bytes(message.attachments)
    return text + JSON_OVERHEAD


class _Check:
    """One validation: the limits, and the warnings so far."""

    def __init__(self, limits: HistoryLimits, field: str, now: datetime) -> None:
        self.limits = limits
        self.field = field
        self.now = now.isoformat()
        self.warnings: list[HistoryWarning] = []

    def warn(self, code: str, field: str, message: str, **words: object) -> None:
        severity, advice = _WARNINGS[code]
        suggestion = advice.format(**words)
        self.warnings.append(HistoryWarning(field, message, severity, suggestion, code))

    def payload(self, history: list[Any]) -> None:
        most = self.limits.max_payload_bytes
        if most is None:
            return
        size = payload_bytes(history)
        if size > most:
            raise HistoryValidationError(
                self.field,
                f"Exceeds the payload limit of {most} bytes; send fewer or shorter messages",
                f"{size} bytes",
            )

    def count(self, given: int) -> int:
        """Return the index of the first message to look at."""
        most, early = self.limits.max_messages, self.limits.warn_messages
        if most is not None and given > most:
            message = f"Too many messages ({given} > {most}): truncating to most recent {most}"
            self.warn("too_many_messages", self.field, message)
            return given - most
        if early is not None and given > early:
            message = f"{given} messages, more than {early}; the oldest are left out from {most} on"
            self.warn("many_messages", self.field, message)
        return 0

    def message(self, index: int, given: Any) -> ValidatedMessage | None:
        """Return the message as it may be used, or None when there is nothing in it."""
        where = f"{self.field}[{index}]"
        if not isinstance(given, Mapping):
            raise HistoryValidationError(
                where, "Each message must be a dictionary", type(given).__name__
            )
        missing = [name for name in ("role", "content") if name not in given]
        if missing:
            names = " and ".join(f"'{name}'" for name in missing)
            raise HistoryValidationError(
                where,
                f"Message at index {index} missing required field {names}",
                [named(key).strip("'") for key in given],
            )
        role = self._role(where, given["role"])
        text, attachments = self._text(where, given["content"])
        attachments += self._attachments(where, given)
        if (not text or text.isspace()) and not attachments:
            message = "Empty message content - message will be skipped"
            self.warn("empty_content", f"{where}.content", message)
            return None
        content = self._length(where, role, text)
        return ValidatedMessage(
            role=role,
            content=content,
            timestamp=self._timestamp(where, given.get("timestamp")),
            truncated=content is not text,
            original_length=len(text),
            index=index,
            attachments=attachments,
        )

    def total(self, messages: list[ValidatedMessage]) -> list[ValidatedMessage]:
        """Return the latest messages that fit the total size, at least the minimum."""
        most = self.limits.max_total_chars
        size = sum(map(message_size, messages))
        if most is None or size <= most:
            return messages
        before = size
        room = most - len(self.limits.omission_indicator)
        kept = deque(messages)
        while size > room and len(kept) > self.limits.min_messages:
            size -= message_size(kept.popleft())
        over = "" if size <= room else f", still {size} characters"
        self.warn(
            "total_size",
            self.field,
            f"Total history size ({before} chars) exceeds limit ({most} chars). "
            f"Kept last {len(kept)} of {len(messages)} messages{over}.",
        )
        if kept and len(kept) < len(messages):
            oldest = kept[0]
            kept[0] = replace(oldest, content=self.limits.omission_indicator + oldest.content)
        return list(kept)

    def _role(self, where: str, given: Any) -> str:
        role = given.strip().lower() if isinstance(given, str) else ""
        if role not in self.limits.roles:
            expected = "|".join(self.limits.roles)
            raise HistoryValidationError(
                f"{where}.role", f"Role must be one of {expected}, got {named(given)}"
            )
        return role

    def _text(self, where: str, given: Any) -> tuple[str, tuple[dict[str, Any], ...]]:
        others: tuple[dict[str, Any], ...] = ()
        if given is None:
            return "", ()
        if isinstance(given, (int, float)):
            given = str(given)
        if isinstance(given, list):
            found = text_of_blocks(given)
            given, others = found if found is not None else (given, ())
        if not isinstance(given, str):
            raise HistoryValidationError(
                f"{where}.content",
                "Content must be text or a list of content blocks",
                type(given).__name__,
            )
        return (given.strip() if self.limits.strip_content else given), others

    def _attachments(self, where: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        attachments, malformed = attachments_of(given)
        if malformed:
            message = f"Not a list of dictionaries - left out: {malformed}"
            self.warn("malformed_attachments", f"{where}.attachments", message)
        return attachments

    def _length(self, where: str, role: str, text: str) -> str:
        hard = self.limits.hard_limit(role)
        if hard is not None and len(text) > hard:
            raise HistoryValidationError(
                f"{where}.content",
                f"{role.capitalize()} message exceeds hard limit of {hard} characters",
                f"{len(text)} characters",
            )
        content = self.limits.shorten(role, text)
        if content is not text:
            self.warn(
                "long_message",
                f"{where}.content",
                f"{role.capitalize()} message truncated from {len(text)} "
                f"to {len(content)} characters",
                role=role,
                limit=self.limits.soft_limit(role),
            )
        return content

    def _timestamp(self, where: str, given: Any) -> str:
        if isinstance(given, datetime):
            return given.isoformat()
        if given is None or given == "":
            message = f"Missing timestamp - added current time: {self.now}"
            self.warn("missing_timestamp", f"{where}.timestamp", message)
            return self.now
        if parse_timestamp(given) is None:
            message = f"Invalid timestamp format {named(given)} - replaced with current time"
            self.warn("invalid_timestamp", f"{where}.timestamp", message)
            return self.now
        return str(given)


def payload_bytes(data: Any) -> int:
    """Return the size of data as UTF-8 JSON; what is text or bytes is taken for such."""
    if isinstance(data, (bytes, bytearray)):
        return len(data)
    text = data
    if not isinstance(data, str):
        text = json.dumps(data, ensure_ascii=False, default=str, separators=(",", ":"))
    return len(text.encode("utf-8", errors="surrogatepass"))
