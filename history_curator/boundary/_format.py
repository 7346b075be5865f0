"""`format_history`: a conversation as a section of a prompt."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from history_curator.boundary._timestamps import parse_timestamp
from history_curator.boundary._validated import ValidatedHistory

Style = Literal["emoji", "plain"]

_EMOJI = {"user": "👤", "assistant": "🤖", "orchestrator": "🎯"}
_OTHER_EMOJI = "💬"

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

    Every line of a message is indented, so a message cannot pass for the next one. An empty
    history is an empty string.

    Args:
        history: a validated history, what its `to_task_context` returned, or message dicts.
        style: ``emoji`` marks roles with emoji, ``plain`` uses words only.
        title: the section's first line.
        introduction: what the reader should know; may be empty.

    Example:
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
    return list(history or ())


def _message(number: int, message: Mapping[str, Any], emoji: bool) -> str:
    role = str(message.get("role", "unknown"))
    mark = f"{_EMOJI.get(role, _OTHER_EMOJI)} " if emoji else ""
    flag = " [TRUNCATED]" if message.get("truncated") else ""
    text = textwrap.indent(str(message.get("content") or ""), "    ", lambda line: line != "\n")
    return f"[{number}] {mark}{role.capitalize()} ({_time(message)}){flag}:\n{text}"


def _time(message: Mapping[str, Any]) -> str:
    given = message.get("timestamp")
    moment = parse_timestamp(given)
    if moment is not None:
        return moment.strftime("%H:%M:%S")
    return str(given) if given else "unknown time"


def _footer(messages: Sequence[Mapping[str, Any]]) -> str:
    text = f"{len(messages)} message" + ("" if len(messages) == 1 else "s")
    shortened = [str(message.get("role")) for message in messages if message.get("truncated")]
    if shortened:
        roles = set(shortened)
        whose = roles.pop() if len(roles) == 1 else "long"
        text += f", {len(shortened)} truncated ({whose} messages kept concise)"
    return text
