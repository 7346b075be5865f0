"""`sanitize_history` for requests that carry their history, `format_history` for prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from history_curator.boundary.limits import HistoryLimits
from history_curator.boundary.validate import (
    Findings,
    HistoryWarning,
    ValidatedHistory,
    count_bytes,
    parse_timestamp,
    read_text,
)
from history_curator.entries import one_line
from history_curator.errors import HistoryValidationError
from history_curator.formats import parse_json

HISTORY_FIELDS = ("conversationHistory", "conversation_history", "history", "messages")
"""Where a history may stand in a request, first match wins."""


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

    @property
    def messages(self) -> list[dict[str, str]]:
        """New dicts ready to send: the history, then the prompt."""
        messages = [dict(message) for message in self.history]
        if self.prompt is not None:
            messages.append({"role": "user", "content": self.prompt})
        return messages


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message that may be sent."""

    index: int
    role: str
    content: str


def sanitize_history(
    payload: Any, limits: HistoryLimits | None = None, *, prompt: str | None = None
) -> SanitizedHistory:
    r"""Return what may be sent on of a request that carries its own history.

    Malformed messages are left out, never an error; only ``role`` and the text of ``content``
    survive, and of them the last `max_messages`. With `alternate`, neighbours of one role are
    joined, the first message is the user's, and a question that was not answered joins the prompt.
    The payload is never changed. It raises a `HistoryValidationError` when the payload is too large
    or not JSON, or has no prompt.

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
    count_bytes(payload, limits)
    given = _decode(payload)
    if isinstance(given, Mapping):
        prompt = given.get("prompt", prompt)
        given = next((given[name] for name in HISTORY_FIELDS if name in given), None)
        if not isinstance(prompt, str) or not prompt.strip():
            problem = "Must be text that is not empty"
            raise HistoryValidationError("prompt", problem, type(prompt).__name__)
    findings = Findings(limits, "history")
    dropped: list[DroppedMessage] = []
    merged: list[int] = []
    found = _find_messages(findings, given, dropped)
    asked = []
    if limits.alternate and prompt is not None and found and found[-1].role == "user":
        asked = [found.pop()]
    first = findings.find_first(len(found))
    reason = f"older than the last {limits.max_messages} messages"
    dropped += [DroppedMessage(one.index, reason) for one in found[:first]]
    history = [*found[first:], *asked]
    if limits.alternate:
        history = _alternate_roles(history, dropped, merged)
        if asked and history:
            question = history.pop()
            prompt = f"{question.content}\n\n{prompt}"
            merged.append(question.index)
    return SanitizedHistory(
        history=tuple({"role": one.role, "content": one.content} for one in history),
        prompt=prompt,
        dropped=tuple(sorted(dropped, key=lambda one: one.index)),
        merged=tuple(merged),
        warnings=tuple(findings.warnings),
    )


def _decode(payload: Any) -> Any:
    if not isinstance(payload, (str, bytes, bytearray)):
        return payload
    try:
        if not isinstance(payload, str):
            payload = payload.decode(json.detect_encoding(payload))
        return parse_json(payload)
    except ValueError as error:
        raise HistoryValidationError("payload", f"Is not JSON: {error}") from error


def _find_messages(
    findings: Findings, given: Any, dropped: list[DroppedMessage]
) -> list[Candidate]:
    """Return the messages that are well formed."""
    if given is None:
        return []
    if not isinstance(given, (list, tuple)):
        problem = f"not a list but {type(given).__name__}: left out"
        findings.warn("malformed_history", findings.field, problem)
        return []
    found = []
    for index, message in enumerate(given):
        try:
            name, content = findings.read_message(index, message)
        except HistoryValidationError as error:
            dropped.append(DroppedMessage(index, error.message))
            continue
        role = "assistant" if name == "orchestrator" else name
        if content.strip():
            found.append(Candidate(index, role, findings.limits.shorten(role, content)))
        else:
            dropped.append(DroppedMessage(index, "content is empty"))
    if dropped:
        problem = f"malformed messages left out: {len(dropped)}"
        findings.warn("malformed_messages", findings.field, problem)
    return found


def _alternate_roles(
    history: Sequence[Candidate], dropped: list[DroppedMessage], merged: list[int]
) -> list[Candidate]:
    """Join neighbours of one role, and drop answers before the first question."""
    joined: list[Candidate] = []
    for one in history:
        if not joined and one.role != "user":
            dropped.append(DroppedMessage(one.index, "an answer before the first question"))
        elif joined and joined[-1].role == one.role:
            before = joined.pop()
            joined.append(replace(before, content=f"{before.content}\n\n{one.content}"))
            merged.append(one.index)
        else:
            joined.append(one)
    return joined


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
    line, so no message can pass for the next one, for a heading or for the footer. An empty history
    is an empty string.

    The history may be validated, the dict of its `to_task_context`, or message dicts. `style`
    ``emoji`` marks roles with emoji, ``plain`` uses words only.

    Examples:
        >>> history = [{"role": "user", "content": "Fix it", "timestamp": "2025-10-29T10:00:00"}]
        >>> format_history(history, style="plain", title="HISTORY:", introduction="")
        'HISTORY:\n\n[1] User (10:00:00):\n    Fix it\n\nHistory metadata: 1 message\n'
    """
    if isinstance(history, ValidatedHistory):
        history = history.to_task_context()
    messages = history.get("messages") if isinstance(history, Mapping) else history
    if not messages:
        return ""
    if not isinstance(messages, (list, tuple)):
        problem = "Must be a list of message dictionaries"
        raise HistoryValidationError("history", problem, type(messages).__name__)
    emoji = style == "emoji"
    parts = [f"💬 {title}" if emoji else title]
    parts += [introduction] if introduction else []
    parts += [_format_message(number, one, emoji) for number, one in enumerate(messages, 1)]
    footer = f"History metadata: {_summarise(messages)}"
    return "\n\n".join([*parts, f"📊 {footer}" if emoji else footer]) + "\n"


def _format_message(number: int, message: Any, emoji: bool) -> str:
    if not isinstance(message, Mapping):
        problem = "Each message must be a dictionary"
        raise HistoryValidationError(f"history[{number - 1}]", problem, type(message).__name__)
    role = str(message.get("role", "unknown"))
    mark = f"{_EMOJI.get(role, '💬')} " if emoji else ""
    flag = " [TRUNCATED]" if message.get("truncated") else ""
    text, _ = read_text(message.get("content"))
    lines = _CONTROL.sub("\ufffd", text or "").splitlines()
    body = "\n".join(f"    {line}" if line.strip() else "" for line in lines)
    given = message.get("timestamp")
    moment = parse_timestamp(given)
    time = _make_label(str(given)) if given else "unknown time"
    time = time if moment is None else moment.strftime("%H:%M:%S")
    return f"[{number}] {mark}{_make_label(role).capitalize()} ({time}){flag}:\n{body}"


def _make_label(text: str) -> str:
    """Return a short line that cannot close a heading and open another."""
    return one_line(_NOT_IN_LABEL.sub(" ", text))[:40].strip() or "unknown"


def _summarise(messages: Sequence[Mapping[str, Any]]) -> str:
    text = f"{len(messages)} message" + ("" if len(messages) == 1 else "s")
    roles = [_make_label(str(one.get("role"))) for one in messages if one.get("truncated")]
    if roles:
        whose = roles[0] if len(set(roles)) == 1 else "long"
        text += f", {len(roles)} truncated ({whose} messages kept concise)"
    return text
