"""`validate_history`: refuse a history that is wrong, put right what can be, and say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from history_curator.boundary.limits import HistoryLimits
from history_curator.errors import HistoryValidationError, name_value

Severity = Literal["low", "medium", "high"]

_WARNINGS: dict[str, tuple[Severity, str]] = {
    "all_filtered": ("high", "Send messages with text in them"),
    "attachments": ("medium", "Send what matters as text"),
    "empty_content": ("low", "Leave empty messages out"),
    "invalid_timestamp": ("low", "Send ISO 8601 timestamps, such as 2025-10-29T13:30:00Z"),
    "long_message": ("medium", "Keep messages of this role shorter"),
    "malformed_history": ("high", "Send a list of messages"),
    "malformed_messages": ("medium", "Send a role and text in each"),
    "many_messages": ("low", "Consider starting a new conversation"),
    "missing_timestamp": ("low", "Send ISO 8601 timestamps"),
    "too_many_messages": ("high", "Consider providing only recent relevant messages"),
    "total_size": ("high", "Send fewer or shorter messages"),
}
"""How much each fix matters, and what the caller can do about it."""


@dataclass(frozen=True, slots=True)
class HistoryWarning:
    """One thing that was put right in a history, at the path `field`, and how to avoid it.

    `severity` is ``high`` when messages were left out, ``medium`` when text was, else ``low``.
    """

    field: str
    message: str
    severity: Severity
    suggestion: str
    code: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message} ({self.suggestion})"


@dataclass(frozen=True, slots=True)
class ValidatedHistory:
    """A history that passed, with a warning for everything that was put right.

    The `records` are its messages, with ``truncated`` and ``original_length`` of their text.
    """

    records: tuple[dict[str, Any], ...]
    warnings: tuple[HistoryWarning, ...]
    collected_at: datetime

    @property
    def messages(self) -> list[dict[str, Any]] | None:
        """New ``{role, content, timestamp}`` dicts, or None when no message is left."""
        fields = ("role", "content", "timestamp")
        return [{name: one[name] for name in fields} for one in self.records] or None

    @property
    def truncated_count(self) -> int:
        """How many messages were shortened."""
        return sum(one["truncated"] for one in self.records)

    def to_task_context(self) -> dict[str, Any]:
        """Return plain data to store with a task: messages, counts and when they were said."""
        given = [one["timestamp"] for one in self.records]
        times = [time for _, time in sorted((parse_timestamp(time), time) for time in given)]
        return {
            "messages": [dict(one) for one in self.records],
            "total_messages": len(self.records),
            "truncated_count": self.truncated_count,
            "metadata": {
                "collection_time": self.collected_at.isoformat(),
                "oldest_message": times[0] if times else None,
                "newest_message": times[-1] if times else None,
            },
        }


def validate_history(
    history: Any,
    limits: HistoryLimits | None = None,
    *,
    field: str = "conversation_history",
    now: datetime | None = None,
) -> ValidatedHistory:
    """Return a history of ``{role, content, timestamp}`` dicts that is safe to use, or raise.

    A `HistoryValidationError` says that it is not a list, a message is not a dict, a required field
    is missing, a role unknown, content neither text nor a list of blocks, or a message over its
    hard limit. Everything else is put right with a warning; the given history is never changed.

    The limits are those of `HistoryLimits.assistant_first` unless you give some; `field` is the
    name in errors and warnings, `now` the time of messages without one.

    Examples:
        >>> history = validate_history([{"role": "User ", "content": " hi "}])
        >>> history.messages[0]["role"], [warning.code for warning in history.warnings]
        ('user', ['missing_timestamp'])
    """
    findings, now = Findings(limits or HistoryLimits(), field), now or datetime.now(timezone.utc)
    if not isinstance(history, list | None):
        problem = "Must be a list of message dictionaries"
        raise HistoryValidationError(field, problem, type(history).__name__, "type_error")
    history = history or []
    kept = range(findings.find_first(len(history)), len(history))
    checked = [findings.check_message(index, history[index], now.isoformat()) for index in kept]
    records = [message for message in checked if message is not None]
    if history and not records:
        message = "All messages were filtered out due to validation issues. History is omitted."
        findings.warn("all_filtered", field, message)
    records = _fit_total(findings, records)
    return ValidatedHistory(tuple(records), tuple(findings.warnings), now)


def validate_conversation_history(
    conversation_history: Any, warnings: list[HistoryWarning]
) -> list[dict[str, Any]] | None:
    """Return the messages of `validate_history`, and add its warnings to a list."""
    history = validate_history(conversation_history)
    warnings += history.warnings
    return history.messages


def truncate_conversation_history(messages: Any) -> dict[str, Any]:
    """Return messages as a task stores them, the user's words first."""
    return validate_history(messages, HistoryLimits.user_first()).to_task_context()


class Findings:
    """The limits, and what was put right in a history so far."""

    def __init__(self, limits: HistoryLimits, field: str) -> None:
        self.limits, self.field = limits, field
        self.warnings: list[HistoryWarning] = []

    def warn(self, code: str, field: str, message: str) -> None:
        """Add a warning."""
        severity, advice = _WARNINGS[code]
        self.warnings.append(HistoryWarning(field, message, severity, advice, code))

    def find_first(self, count: int) -> int:
        """Return the index of the first message to look at."""
        most, early = self.limits.max_messages, self.limits.warn_messages
        if most is not None and count > most:
            message = f"Too many messages ({count} > {most}): truncating to most recent {most}"
            self.warn("too_many_messages", self.field, message)
            return count - most
        if early is not None and count > early:
            message = f"{count} messages, more than {early}; the oldest are left out from {most} on"
            self.warn("many_messages", self.field, message)
        return 0

    def read_message(self, index: int, given: Any) -> tuple[str, str]:
        """Return the role and the text of a message, or raise a `HistoryValidationError`."""
        where = f"{self.field}[{index}]"
        if not isinstance(given, Mapping):
            problem = "Each message must be a dictionary"
            raise HistoryValidationError(where, problem, type(given).__name__, "type_error")
        missing = " and ".join(f"'{name}'" for name in ("role", "content") if name not in given)
        if missing:
            problem = f"Message at index {index} missing required field {missing}"
            known = [name_value(key).strip("'") for key in given]
            raise HistoryValidationError(where, problem, known, "missing_field")
        role, content = given["role"], given["content"]
        name = role.strip().lower() if isinstance(role, str) else ""
        if name not in self.limits.roles:
            problem = f"Role must be one of {'|'.join(self.limits.roles)}"
            value = name_value(role).strip("'")  # no prose: it may be confidential
            raise HistoryValidationError(f"{where}.role", problem, value)
        text, left_out = read_text(content)
        if text is None:
            problem, kind = "Content must be text or a list of content blocks", type(content)
            raise HistoryValidationError(f"{where}.content", problem, kind.__name__, "type_error")
        attachments = given.get("attachments") or ()
        left_out += len(attachments) if isinstance(attachments, list) else bool(attachments)
        if left_out:
            self.warn("attachments", where, f"attachments left out: {left_out}")
        return name, text

    def check_message(self, index: int, given: Any, now: str) -> dict[str, Any] | None:
        """Return a message as it may be used, or None when it is empty."""
        limits, where = self.limits, f"{self.field}[{index}]"
        role, text = self.read_message(index, given)
        text = text.strip() if limits.strip_content else text
        if not text.strip():
            message = "Empty message content - message will be skipped"
            self.warn("empty_content", f"{where}.content", message)
            return None
        hard, speaker = limits.hard_limit(role), role.capitalize()
        if hard is not None and len(text) > hard:
            problem = f"{speaker} message exceeds hard limit of {hard} characters"
            raise HistoryValidationError(f"{where}.content", problem, f"{len(text)} characters")
        content = limits.shorten(role, text)
        if content is not text:
            message = f"{speaker} message truncated from {len(text)} to {len(content)} characters"
            self.warn("long_message", f"{where}.content", message)
        timestamp = self._read_timestamp(f"{where}.timestamp", given.get("timestamp"), now)
        fate = {"truncated": content is not text, "original_length": len(text)}
        return {"role": role, "content": content, "timestamp": timestamp, **fate}

    def _read_timestamp(self, where: str, given: Any, now: str) -> str:
        if isinstance(given, datetime):
            return given.isoformat()
        if parse_timestamp(given) is not None:
            return str(given)
        if given in (None, ""):
            message = f"Missing timestamp - added current time: {now}"
            self.warn("missing_timestamp", where, message)
        else:
            message = f"Invalid timestamp format {name_value(given)} - replaced with current time"
            self.warn("invalid_timestamp", where, message)
        return now


def _fit_total(findings: Findings, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the latest messages that fit the total size, at least the minimum."""
    limits, most = findings.limits, findings.limits.max_total_chars
    before = size = calculate_history_size(messages)
    if most is None or size <= most:
        return messages
    available = most - len(limits.omission_indicator)
    first = 0
    while size > available and len(messages) - first > limits.min_messages:
        size -= calculate_history_size([messages[first]])
        first += 1
    left = messages[first:]
    over = "" if size <= available else f", still {size} characters"
    message = f"Total history size ({before} chars) exceeds limit ({most} chars). "
    message += f"Kept last {len(left)} of {len(messages)} messages{over}."
    findings.warn("total_size", findings.field, message)
    if first and left:
        left[0]["content"] = limits.omission_indicator + left[0]["content"]
    return left


def calculate_history_size(messages: Iterable[Mapping[str, Any]]) -> int:
    """Return the approximate size in characters: fields, and 10 of JSON around each message."""
    fields = ("content", "role", "timestamp")
    return sum(sum(len(one.get(name, "")) for name in fields) + 10 for one in messages)


def read_text(content: Any) -> tuple[str | None, int]:
    """Return the text of a content (None where it can have none) and its count of other blocks."""
    if content is None or isinstance(content, (str, int, float)):
        return "" if content is None else str(content), 0
    if not isinstance(content, list):
        return None, 0
    texts = [block.get("text") if isinstance(block, Mapping) else block for block in content]
    found = [text for text in texts if isinstance(text, str)]
    return "\n".join(found), len(content) - len(found)


_DATETIME = TypeAdapter(datetime)


def parse_timestamp(text: object) -> datetime | None:
    """Return the moment an ISO 8601 text names, or None; without a zone it is UTC."""
    if not isinstance(text, str) or text[4:5] != "-":
        return None
    try:
        moment = _DATETIME.validate_python(text)
    except ValidationError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or timezone.utc)
