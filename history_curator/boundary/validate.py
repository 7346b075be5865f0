"""`validate_history`: refuse a history that is wrong, put right what can be, and say so."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from history_curator.boundary.limits import HistoryLimits
from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import HistoryValidationError, name_value

Severity = Literal["low", "medium", "high"]

_WARNINGS: dict[str, tuple[Severity, str]] = {
    "attachments": ("medium", "Send what matters as text"),
    "large_payload": ("low", "Send less of the history"),
    "malformed_history": ("high", "Send a list of messages"),
    "malformed_messages": ("medium", "Send a role and text in each"),
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
"""How much each fix matters, and what the caller can do about it."""

JSON_OVERHEAD = 10
"""Characters of JSON around a message, roughly."""


@dataclass(frozen=True, slots=True)
class HistoryWarning:
    """One thing that was put right in a history: where, how bad, and how to avoid it.

    `field` is a path such as ``"conversation_history[3].timestamp"``, by the caller's positions.
    `severity` is ``high`` when messages were left out, ``medium`` when text was, else ``low``;
    `code` is the kind of warning, for programs.
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
    """One message that passed, with its text perhaps shortened.

    Its `index` is the position in the list the caller gave; `attachments` are copies of the
    message's ``attachments`` and of the blocks of its content that are not text.
    """

    role: str
    content: str
    timestamp: str
    truncated: bool
    original_length: int
    index: int
    attachments: tuple[dict[str, Any], ...] = ()

    @property
    def size(self) -> int:
        """The approximate size in characters."""
        text = len(self.content) + len(self.role) + len(self.timestamp) + JSON_OVERHEAD
        return text + (payload_bytes(self.attachments) if self.attachments else 0)

    def to_dict(self, *fields: str) -> dict[str, Any]:
        """Return these fields, and ``attachments`` where there are any."""
        data = {name: getattr(self, name) for name in fields}
        return {**data, "attachments": deepcopy([*self.attachments])} if self.attachments else data


@dataclass(frozen=True, slots=True)
class ValidatedHistory:
    """A history that passed, with a warning for everything that was put right."""

    records: tuple[ValidatedMessage, ...]
    warnings: tuple[HistoryWarning, ...]
    collected_at: datetime
    given: int = 0

    @property
    def messages(self) -> list[dict[str, Any]] | None:
        """New ``{role, content, timestamp}`` dicts, or None when no message is left."""
        return [one.to_dict("role", "content", "timestamp") for one in self.records] or None

    @property
    def entries(self) -> list[ConversationEntry]:
        """The messages as entries; an orchestrator is an assistant of that name."""
        return [
            ConversationEntry(
                role=MessageRole.USER if one.role == "user" else MessageRole.ASSISTANT,
                # No provider takes an attachment as it is, so a note stands for it.
                content="\n".join(
                    (one.content, *(f"[attachment: {describe(each)}]" for each in one.attachments))
                ),
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
        fields = ("role", "content", "timestamp", "truncated", "original_length")
        times = sorted((one.timestamp for one in self.records), key=_moment)
        return {
            "messages": [one.to_dict(*fields) for one in self.records],
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
    """Return a history that is safe to use, or raise.

    A `HistoryValidationError` says that it is not a list, a message is not a dict, a required field
    is missing, a role unknown, content neither text nor a list of blocks, or a message over its
    hard limit. Everything else is put right with a warning. Older messages beyond `max_messages`
    are not looked at. The given history is never changed; every message returned is new.

    Args:
        history: a list of ``{role, content, timestamp}`` dicts, or None.
        limits: what to hold it to; `HistoryLimits.assistant_first()` by default.
        field: the parameter's name in errors and warnings.
        now: the time given to messages without one.

    Examples:
        >>> history = validate_history([{"role": "User ", "content": " hi "}])
        >>> history.messages[0]["role"], [warning.code for warning in history.warnings]
        ('user', ['missing_timestamp'])
    """
    limits = limits or HistoryLimits()
    now = now or datetime.now(timezone.utc)
    if history is None:
        return ValidatedHistory((), (), now)
    if not isinstance(history, list):
        problem = "Must be a list of message dictionaries"
        raise HistoryValidationError(field, problem, type(history).__name__)
    if limits.max_payload_bytes is not None:
        payload_bytes(history, limits, field)
    check = HistoryCheck(limits, field, now)
    first = check.find_first(len(history))
    messages = [check.read_message(index, history[index]) for index in range(first, len(history))]
    records = [message for message in messages if message is not None]
    if history and not records:
        message = "All messages were filtered out due to validation issues. History is omitted."
        check.warn("all_filtered", field, message)
    records = check.fit_total(records)
    return ValidatedHistory(tuple(records), tuple(check.warnings), now, given=len(history))


class Findings:
    """The limits, and what was put right in a history so far."""

    def __init__(self, limits: HistoryLimits, field: str) -> None:
        self.limits = limits
        self.field = field
        self.warnings: list[HistoryWarning] = []

    def warn(self, code: str, field: str, message: str, **words: object) -> None:
        """Add a warning."""
        severity, advice = _WARNINGS[code]
        self.warnings.append(HistoryWarning(field, message, severity, advice.format(**words), code))

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


class HistoryCheck(Findings):
    """One validation."""

    def __init__(self, limits: HistoryLimits, field: str, now: datetime) -> None:
        super().__init__(limits, field)
        self.now = now.isoformat()

    def read_message(self, index: int, given: Any) -> ValidatedMessage | None:
        """Return the message as it may be used, or None when it is empty."""
        where = f"{self.field}[{index}]"
        if not isinstance(given, Mapping):
            problem = "Each message must be a dictionary"
            raise HistoryValidationError(where, problem, type(given).__name__)
        missing = [f"'{name}'" for name in ("role", "content") if name not in given]
        if missing:
            problem = f"Message at index {index} missing required field {' and '.join(missing)}"
            known = [name_value(key).strip("'") for key in given]
            raise HistoryValidationError(where, problem, known)
        role = given["role"].strip().lower() if isinstance(given["role"], str) else ""
        if role not in self.limits.roles:
            problem = f"Role must be one of {'|'.join(self.limits.roles)}"
            raise HistoryValidationError(
                f"{where}.role", f"{problem}, got {name_value(given['role'])}"
            )
        text, attachments, malformed = read_content(given)
        if text is None:
            problem, kind = "Content must be text or a list of content blocks", given["content"]
            raise HistoryValidationError(f"{where}.content", problem, type(kind).__name__)
        text = text.strip() if self.limits.strip_content else text
        if malformed:
            message = f"Not a list of dictionaries - left out: {malformed}"
            self.warn("malformed_attachments", f"{where}.attachments", message)
        if not text.strip() and not attachments:
            message = "Empty message content - message will be skipped"
            self.warn("empty_content", f"{where}.content", message)
            return None
        content = self._fit_length(f"{where}.content", role, text)
        return ValidatedMessage(
            role=role,
            content=content,
            timestamp=self._read_timestamp(f"{where}.timestamp", given.get("timestamp")),
            truncated=content is not text,
            original_length=len(text),
            index=index,
            attachments=attachments,
        )

    def fit_total(self, messages: list[ValidatedMessage]) -> list[ValidatedMessage]:
        """Return the latest messages that fit the total size, at least the minimum."""
        most = self.limits.max_total_chars
        before = size = sum(message.size for message in messages)
        if most is None or size <= most:
            return messages
        available = most - len(self.limits.omission_indicator)
        left = deque(messages)
        while size > available and len(left) > self.limits.min_messages:
            size -= left.popleft().size
        over = "" if size <= available else f", still {size} characters"
        message = f"Total history size ({before} chars) exceeds limit ({most} chars). "
        message += f"Kept last {len(left)} of {len(messages)} messages{over}."
        self.warn("total_size", self.field, message)
        if left and len(left) < len(messages):
            left[0] = replace(left[0], content=self.limits.omission_indicator + left[0].content)
        return list(left)

    def _fit_length(self, where: str, role: str, text: str) -> str:
        hard, speaker = self.limits.hard_limit(role), role.capitalize()
        if hard is not None and len(text) > hard:
            problem = f"{speaker} message exceeds hard limit of {hard} characters"
            raise HistoryValidationError(where, problem, f"{len(text)} characters")
        content = self.limits.shorten(role, text)
        if content is not text:
            message = f"{speaker} message truncated from {len(text)} to {len(content)} characters"
            limit = self.limits.soft_limit(role)
            self.warn("long_message", where, message, role=role, limit=limit)
        return content

    def _read_timestamp(self, where: str, given: Any) -> str:
        if isinstance(given, datetime):
            return given.isoformat()
        if given is None or given == "":
            message = f"Missing timestamp - added current time: {self.now}"
            self.warn("missing_timestamp", where, message)
            return self.now
        if parse_timestamp(given) is None:
            message = f"Invalid timestamp format {name_value(given)} - replaced with current time"
            self.warn("invalid_timestamp", where, message)
            return self.now
        return str(given)


def payload_bytes(data: Any, limits: HistoryLimits | None = None, field: str = "payload") -> int:
    """Return the size of data as UTF-8 JSON (text and bytes are JSON); refuse what is too large."""
    try:
        if not isinstance(data, (str, bytes, bytearray)):
            data = json.dumps(data, ensure_ascii=False, default=str, separators=(",", ":"))
    except (RecursionError, ValueError) as error:
        raise HistoryValidationError(field, "Is nested too deeply") from error
    size = len(data.encode("utf-8", errors="surrogatepass") if isinstance(data, str) else data)
    most = limits.max_payload_bytes if limits is not None else None
    if most is not None and size > most:
        problem = f"Exceeds the payload limit of {most} bytes; send fewer or shorter messages"
        raise HistoryValidationError(field, problem, f"{size} bytes")
    return size


def read_content(message: Mapping[str, Any]) -> tuple[str | None, tuple[dict[str, Any], ...], int]:
    """Return a message's text, copies of its attachments, and how many of them are malformed.

    The text is that of its text blocks, or None where the content is neither text nor blocks; the
    other blocks are attachments.
    """
    content, given = message.get("content"), message.get("attachments")
    others = given if isinstance(given, list) else [] if given is None else [given]
    attachments = [one for one in others if isinstance(one, Mapping) and others is given]
    malformed, texts, blocks = len(others) - len(attachments), list[str](), list[Any]()
    given_blocks: list[Any] = content if isinstance(content, list) else [content]
    for block in given_blocks:
        kind = block.get("type", "text") if isinstance(block, Mapping) else None
        if isinstance(block, str) or (isinstance(block, (int, float)) and block is content):
            texts.append(str(block))
        elif not isinstance(kind, str) or block is content:
            return ("" if content is None else None), (), malformed
        elif isinstance(block.get("text"), str) and kind.endswith("text"):
            texts.append(block["text"])
        else:
            blocks.append(block)
    try:
        copies = deepcopy([dict(one) for one in (*blocks, *attachments)])
    except RecursionError as error:
        raise HistoryValidationError("payload", "Is nested too deeply") from error
    return "\n".join(texts), tuple(copies), malformed


def describe(attachment: Mapping[str, Any]) -> str:
    """Return what an attachment is, in a few words and without its content."""
    names = ("name", "filename", "language", "mime_type")
    words = [str(attachment.get("type") or "attachment")]
    words += [str(attachment[name]) for name in names if attachment.get(name)]
    content = attachment.get("content")
    return ", ".join([*words, f"{len(content)} characters"] if isinstance(content, str) else words)


_DATETIME = TypeAdapter(datetime)


def parse_timestamp(text: object) -> datetime | None:
    """Return the moment an ISO 8601 text names, or None. ``Z`` is UTC; no zone stays none."""
    if not isinstance(text, str) or not (text := text.strip()).isprintable():
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        pass  # older Pythons read fewer forms
    try:
        return _DATETIME.validate_python(text) if text[4:5] == "-" else None
    except ValidationError:
        return None


def _moment(timestamp: str) -> datetime:
    """Return a moment that can be compared with any other; no zone counts as UTC."""
    moment = parse_timestamp(timestamp) or datetime.fromtimestamp(0, timezone.utc)
    return moment.replace(tzinfo=moment.tzinfo or timezone.utc)
