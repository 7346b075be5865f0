"""`sanitize_history` for requests that carry their history, `format_history` for prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from history_curator.boundary.limits import HistoryLimits
from history_curator.boundary.validate import (
    Findings,
    HistoryWarning,
    ValidatedHistory,
    describe,
    parse_timestamp,
    payload_bytes,
    read_content,
)
from history_curator.entries import one_line
from history_curator.errors import HistoryValidationError, name_value
from history_curator.formats import parse_json

HISTORY_FIELDS = ("conversationHistory", "conversation_history", "history", "messages")
"""Where a history may stand in a request, first match wins."""

Candidate = tuple[int, str, str]
"""(index, role, content) of a message that may be sent."""


@dataclass(frozen=True, slots=True)
class DroppedMessage:
    """A message at a position of the client's history that is not sent on, and why."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class SanitizedHistory:
    """A history to send, and what became of the rest.

    `history` holds ``{role, content}`` dicts without the `prompt`; `dropped` are messages left out,
    and `merged` positions of messages joined to the one before to keep roles alternating.
    """

    history: tuple[dict[str, str], ...]
    prompt: str | None
    dropped: tuple[DroppedMessage, ...]
    merged: tuple[int, ...]
    warnings: tuple[HistoryWarning, ...]
    payload_bytes: int

    @property
    def messages(self) -> list[dict[str, str]]:
        """New dicts ready to send: the history, then the prompt."""
        messages = [dict(message) for message in self.history]
        if self.prompt is not None:
            messages.append({"role": "user", "content": self.prompt})
        return messages


def sanitize_history(
    payload: Any, limits: HistoryLimits | None = None, *, prompt: str | None = None
) -> SanitizedHistory:
    r"""Return what may be sent on of a request that carries its own history.

    Malformed messages are left out, never an error; only ``role`` and the text of ``content``
    survive, and of them the last `max_messages`. With `alternate`, neighbours of one role are
    joined and the first message is the user's. The payload is never changed. It raises a
    `HistoryValidationError` when the payload is too large or not JSON, or has no prompt.

    Args:
        payload: the request: raw JSON, a mapping with ``prompt`` and ``conversationHistory``,
            or a list of messages.
        limits: what to hold it to; `HistoryLimits.stateless()` by default.
        prompt: what the user asks now, where the payload does not say.

    Examples:
        >>> history = [{"role": "user", "content": "list them"}, {"role": "?"}]
        >>> sanitized = sanitize_history({"prompt": "and now?", "history": history})
        >>> sanitized.messages, sanitized.dropped[0].index
        ([{'role': 'user', 'content': 'list them\n\nand now?'}], 1)
    """
    limits = limits or HistoryLimits.stateless()
    size = payload_bytes(payload, limits)
    given = _decode(payload)
    if isinstance(given, Mapping):
        prompt = given.get("prompt", prompt)
        given = next((given[name] for name in HISTORY_FIELDS if name in given), None)
        if not isinstance(prompt, str) or not prompt.strip():
            problem = "Must be text that is not empty"
            raise HistoryValidationError("prompt", problem, type(prompt).__name__)
    sanitizer = Sanitizer(limits)
    if limits.warn_payload_bytes is not None and size > limits.warn_payload_bytes:
        sanitizer.warn("large_payload", "payload", f"{size} bytes is a lot")
    history = sanitizer.take_latest(sanitizer.find_messages(given))
    if limits.alternate:
        history = sanitizer.alternate_roles(history)
        if history and prompt is not None and history[-1][1] == "user":
            index, _, content = history.pop()
            prompt = f"{content}\n\n{prompt}"
            sanitizer.merged.append(index)
    return SanitizedHistory(
        history=tuple({"role": role, "content": content} for _, role, content in history),
        prompt=prompt,
        dropped=tuple(sorted(sanitizer.dropped, key=lambda one: one.index)),
        merged=tuple(sanitizer.merged),
        warnings=tuple(sanitizer.warnings),
        payload_bytes=size,
    )


class Sanitizer(Findings):
    """One sanitising: the messages that were left out or joined."""

    def __init__(self, limits: HistoryLimits) -> None:
        super().__init__(limits, "history")
        self.dropped: list[DroppedMessage] = []
        self.merged: list[int] = []

    def find_messages(self, given: Any) -> list[Candidate]:
        """Return the messages that are well formed."""
        if given is None:
            return []
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
            problem = f"not a list but {type(given).__name__}: left out"
            self.warn("malformed_history", self.field, problem)
            return []
        found: list[Candidate] = []
        for index, message in enumerate(given):
            read = self._read_message(index, message)
            if isinstance(read, str):
                self.dropped.append(DroppedMessage(index, read))
            else:
                found.append(read)
        if self.dropped:
            problem = f"malformed messages left out: {len(self.dropped)}"
            self.warn("malformed_messages", self.field, problem)
        return found

    def take_latest(self, history: list[Candidate]) -> list[Candidate]:
        """Return the last messages, as many as the limit allows."""
        first = self.find_first(len(history))
        reason = f"older than the last {self.limits.max_messages} messages"
        self.dropped += [DroppedMessage(index, reason) for index, _, _ in history[:first]]
        return history[first:]

    def alternate_roles(self, history: list[Candidate]) -> list[Candidate]:
        """Join neighbours of one role, and drop answers before the first question."""
        joined: list[Candidate] = []
        for index, role, content in history:
            if not joined and role != "user":
                self.dropped.append(DroppedMessage(index, "an answer before the first question"))
            elif joined and joined[-1][1] == role:
                first, _, before = joined[-1]
                joined[-1] = (first, role, f"{before}\n\n{content}")
                self.merged.append(index)
            else:
                joined.append((index, role, content))
        return joined

    def _read_message(self, index: int, message: Any) -> Candidate | str:
        """Return a message that may be sent, or why there is none."""
        if not isinstance(message, Mapping):
            return f"not a message but {type(message).__name__}"
        role = message.get("role")
        name = role.strip().lower() if isinstance(role, str) else ""
        if name not in self.limits.roles:
            return f"role {name_value(role)} is not one of {', '.join(self.limits.roles)}"
        content, attachments, malformed = read_content(message)
        if left_out := len(attachments) + malformed:
            self.warn("attachments", f"history[{index}]", f"attachments left out: {left_out}")
        if content is None:
            return f"content is not text but {type(message['content']).__name__}"
        if not content.strip():
            return "content is empty"
        speaker = "assistant" if name == "orchestrator" else name
        return index, speaker, self.limits.shorten(speaker, content)


def _decode(payload: Any) -> Any:
    if not isinstance(payload, (str, bytes, bytearray)):
        return payload
    try:
        if not isinstance(payload, str):
            payload = payload.decode(json.detect_encoding(payload))
        return parse_json(payload)
    except ValueError as error:
        raise HistoryValidationError("payload", f"Is not JSON: {error}") from error


TITLE = "CONVERSATION HISTORY (Leading to This Task):"
INTRODUCTION = (
    "The orchestrator had the following conversation before creating this task.\n"
    "This provides context for WHY this task exists and WHAT the user wants."
)
_EMOJI = {"user": "👤", "assistant": "🤖", "orchestrator": "🎯"}
_CONTROL = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Characters that hide text or turn it around; line breaks are handled line by line."""
_NOT_IN_LABEL = re.compile(
    r"[\[\](){}<>:\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+"
)


def format_history(
    history: ValidatedHistory | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    *,
    style: Literal["emoji", "plain"] = "emoji",
    title: str = TITLE,
    introduction: str = INTRODUCTION,
) -> str:
    r"""Return the conversation as numbered, timestamped, role-marked text.

    Every line of a message is indented, whatever ends it, and a role or a timestamp is one short
    line, so no message can pass for the next one, for a heading or for the footer. An attachment is
    named, not shown. An empty history is an empty string.

    The history may be validated, the dict of its `to_task_context`, or message dicts. `style`
    ``emoji`` marks roles with emoji, ``plain`` uses words only.

    Examples:
        >>> history = [{"role": "user", "content": "Fix it", "timestamp": "2025-10-29T10:00:00"}]
        >>> format_history(history, style="plain", title="HISTORY:", introduction="")
        'HISTORY:\n\n[1] User (10:00:00):\n    Fix it\n\nHistory metadata: 1 message\n'
    """
    messages = _list_messages(history)
    if not messages:
        return ""
    emoji = style == "emoji"
    footer = f"History metadata: {_summarise(messages)}"
    parts = [f"💬 {title}" if emoji else title]
    parts += [introduction] if introduction else []
    parts += [_format_message(number, one, emoji) for number, one in enumerate(messages, 1)]
    return "\n\n".join([*parts, f"📊 {footer}" if emoji else footer]) + "\n"


def _list_messages(history: Any) -> list[Mapping[str, Any]]:
    if isinstance(history, ValidatedHistory):
        history = history.to_task_context()
    if isinstance(history, Mapping):
        history = history.get("messages")
    if history is None:
        return []
    if not isinstance(history, list | tuple):
        problem = "Must be a list of message dictionaries"
        raise HistoryValidationError("history", problem, type(history).__name__)
    for index, message in enumerate(history):
        if not isinstance(message, Mapping):
            problem = "Each message must be a dictionary"
            raise HistoryValidationError(f"history[{index}]", problem, type(message).__name__)
    return list(history)


def _format_message(number: int, message: Mapping[str, Any], emoji: bool) -> str:
    role = str(message.get("role", "unknown"))
    mark = f"{_EMOJI.get(role, '💬')} " if emoji else ""
    flag = " [TRUNCATED]" if message.get("truncated") else ""
    text, attachments, _ = read_content(message)
    text = str(message["content"]) if text is None else text
    lines = _CONTROL.sub("\ufffd", text).splitlines()
    lines += [f"(attachment: {_make_label(describe(one), 80)})" for one in attachments]
    body = "\n".join(f"    {line}" if line.strip() else "" for line in lines)
    given = message.get("timestamp")
    moment = parse_timestamp(given)
    time = _make_label(str(given)) if given else "unknown time"
    time = time if moment is None else moment.strftime("%H:%M:%S")
    return f"[{number}] {mark}{_make_label(role).capitalize()} ({time}){flag}:\n{body}"


def _make_label(text: str, most: int = 40) -> str:
    """Return a short line that cannot close a heading and open another."""
    return one_line(_NOT_IN_LABEL.sub(" ", text))[:most].strip() or "unknown"


def _summarise(messages: Sequence[Mapping[str, Any]]) -> str:
    text = f"{len(messages)} message" + ("" if len(messages) == 1 else "s")
    roles = [_make_label(str(one.get("role"))) for one in messages if one.get("truncated")]
    if roles:
        whose = roles[0] if len(set(roles)) == 1 else "long"
        text += f", {len(roles)} truncated ({whose} messages kept concise)"
    return text
