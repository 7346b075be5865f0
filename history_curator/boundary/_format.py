"""`format_history`: a conversation as a section of a prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from history_curator.boundary._content import attachments_of, describe, text_of_blocks
from history_curator.boundary._timestamps import parse_timestamp
from history_curator.boundary._validated import ValidatedHistory
from history_curator.errors import HistoryValidationError
from history_curator.entries import one_line

Style = Literal["emoji", "plain"]

_EMOJI = {"user": "👤", "assistant": "🤖", "orchestrator": "🎯"}
_OTHER_EMOJI = "💬"
_CONTROL = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""What a reader does not see, or sees as something else; line breaks are handled line by line."""
_ODD = re.compile(r"[\[\](){}<>:\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")

TITLE = "CONVERSATION HISTORY (Leading to This Task):"
INTRODUCTION = (
    "The orchestrator had the following conversation before creating this task.\n"
    "This provides context for WHY this task exists and WHAT the user wants."
)


def format_history(
    history: ValidatedHistory | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    *,
    style: Style = "emoji",
    title: str = TITLE,
    introduction: str = INTRODUCTION,
) -> str:
    """Return the conversation as numbered, timestamped, role-marked text.

    Every line of a message is indented, whatever ends it, and control characters are shown as
    ``\ufffd``; a role or a timestamp is one short line. So nothing in a message can pass for the
    next one, for a heading or for the footer. An attachment is named, not shown. An empty history
    is an empty string.

    Args:
        history: a validated history, what its `to_task_context` returned, or message dicts.
        style: ``emoji`` marks roles with emoji, ``plain`` uses words only.
        title: the section's first line.
        introduction: what the reader should know; may be empty.

    Raises:
        HistoryValidationError: when it is not a list of dictionaries.

    Examples:
        >>> print(
        ...     format_history(
        ...         [{"role": "user", "content": "Fix it", "timestamp": "2025-10-29T10:00:00"}],
        ...         style="plain",
        ...         introduction="",
        ...     )
        ... )
        CONVERSATION HISTORY (Leading to This Task):
        <BLANKLINE>
        [1] User (10:00:00):
            Fix it
        <BLANKLINE>
        History metadata: 1 message
        <BLANKLINE>
    """
    messages = _messages(history)
    if not messages:
        return ""
    emoji = style == "emoji"
    head = [f"💬 {title}" if emoji else title]
    if introduction:
        head.append(introduction)
    body = [_message(number, message, emoji) for number, message in enumerate(messages, 1)]
    foot = ("📊 " if emoji else "") + f"History metadata: {_footer(messages)}"
    return "\n\n".join([*head, *body, foot]) + "\n"


def _messages(history: Any) -> list[Mapping[str, Any]]:
    if isinstance(history, ValidatedHistory):
        history = history.to_task_context()
    if isinstance(history, Mapping):
        history = history.get("messages")
    if history is None:
        return []
    if not isinstance(history, Sequence) or isinstance(history, (str, bytes)):
        raise HistoryValidationError(
            "history", "Must be a list of message dictionaries", type(history).__name__
        )
    for index, message in enumerate(history):
        if not isinstance(message, Mapping):
            raise HistoryValidationError(
                f"history[{index}]", "Each message must be a dictionary", type(message).__name__
            )
    return list(history)


def _message(number: int, message: Mapping[str, Any], emoji: bool) -> str:
    role = str(message.get("role", "unknown"))
    mark = f"{_EMOJI.get(role, _OTHER_EMOJI)} " if emoji else ""
    flag = " [TRUNCATED]" if message.get("truncated") else ""
    found = text_of_blocks(message["content"]) if isinstance(message.get("content"), list) else None
    text, others = found if found is not None else (str(message.get("content") or ""), ())
    attached, _ = attachments_of(message)
    lines = [*_CONTROL.sub("\ufffd", text).splitlines()]
    lines += [f"(attachment: {_label(describe(one), 80)})" for one in (*others, *attached)]
    body = "\n".join(f"    {line}" if line.strip() else "" for line in lines)
    return f"[{number}] {mark}{_label(role).capitalize()} ({_time(message)}){flag}:\n{body}"


def _time(message: Mapping[str, Any]) -> str:
    given = message.get("timestamp")
    moment = parse_timestamp(given)
    if moment is not None:
        return moment.strftime("%H:%M:%S")
    return _label(str(given)) if given else "unknown time"


def _label(text: str, most: int = 40) -> str:
    """A short line in which nothing can close a heading and open another."""
    return one_line(_ODD.sub(" ", text))[:most].strip() or "unknown"


def _footer(messages: Sequence[Mapping[str, Any]]) -> str:
    text = f"{len(messages)} message" + ("" if len(messages) == 1 else "s")
    shortened = [
        _label(str(message.get("role"))) for message in messages if message.get("truncated")
    ]
    if shortened:
        roles = set(shortened)
        whose = roles.pop() if len(roles) == 1 else "long"
        text += f", {len(shortened)} truncated ({whose} messages kept concise)"
    return text
