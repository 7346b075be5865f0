"""`sanitize_history` for requests that carry their history, `format_history` for prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from history_curator.boundary.limits import HistoryLimits
from history_curator.boundary.validate import (
    Findings,
    HistoryWarning,
    ValidatedHistory,
    parse_timestamp,
    read_text,
)
from history_curator.errors import HistoryValidationError
from history_curator.formats import parse_json
from history_curator.quoting import join_lines, split_lines

_FIELDS = ("conversationHistory", "conversation_history", "history", "messages")
Found = tuple[int, dict[str, str]]  # a message that may be sent, after its position


@dataclass(frozen=True, slots=True)
class SanitizedHistory:
    """A history to send, without the `prompt`, and by position why a message was `dropped`."""

    history: tuple[dict[str, str], ...]
    prompt: str | None
    dropped: dict[int, str]
    warnings: tuple[HistoryWarning, ...]

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

    The payload is raw JSON, a mapping with ``prompt`` and ``conversationHistory``, or a list of
    messages, with the `prompt` beside it. The limits are those of `HistoryLimits.stateless` unless
    you give some.

    Only ``role`` and the text of ``content`` survive, and malformed messages are left out. With
    `alternate`, neighbours of one role are joined, the first message is the user's, and a question
    that was not answered joins the prompt. A payload that is too large, not JSON, or has no prompt
    raises a `HistoryValidationError`.

    Examples:
        >>> history = [{"role": "user", "content": "list them"}, {"role": "?"}]
        >>> sanitized = sanitize_history({"prompt": "and now?", "history": history})
        >>> sanitized.messages, sanitized.dropped.keys()
        ([{'role': 'user', 'content': 'list them\n\nand now?'}], dict_keys([1]))
    """
    limits = limits or HistoryLimits.stateless()
    given = _decode(payload, limits.max_payload_bytes)
    if isinstance(given, Mapping):
        prompt = given.get("prompt", prompt)
        given = next((given[name] for name in _FIELDS if name in given), None)
        if not isinstance(prompt, str) or not prompt.strip():
            problem = "Must be text that is not empty"
            raise HistoryValidationError("prompt", problem, type(prompt).__name__, "type_error")
    findings = Findings(limits, "history")
    found, dropped = _find_messages(findings, given)
    is_unanswered = bool(found) and found[-1][1]["role"] == "user"
    joins_prompt = limits.alternate and prompt is not None and is_unanswered
    first = findings.find_first(len(found) - joins_prompt)
    reason = f"older than the last {limits.max_messages} messages"
    dropped.update((index, reason) for index, _ in found[:first])
    history = [message for _, message in found[first:]]
    if limits.alternate:
        history = _alternate_roles(found[first:], dropped)
    if joins_prompt:
        prompt = f"{history.pop()['content']}\n\n{prompt}"
    dropped = dict(sorted(dropped.items()))
    return SanitizedHistory(tuple(history), prompt, dropped, tuple(findings.warnings))


def _decode(payload: Any, most: int | None) -> Any:
    """Return a payload as data, unless it is too large as UTF-8 JSON."""
    is_data, text = not isinstance(payload, (str, bytes, bytearray)), payload
    try:
        if is_data:
            text = json.dumps(payload, ensure_ascii=False, default=str, separators=(",", ":"))
        raw = text.encode("utf-8", errors="surrogatepass") if isinstance(text, str) else text
    except (RecursionError, ValueError) as error:
        raise HistoryValidationError("payload", "Is nested too deeply") from error
    if most is not None and len(raw) > most:
        problem = f"Exceeds the payload limit of {most} bytes; send fewer or shorter messages"
        raise HistoryValidationError("payload", problem, f"{len(raw)} bytes")
    try:
        return payload if is_data else parse_json(raw.decode(json.detect_encoding(raw)))
    except ValueError as error:
        raise HistoryValidationError("payload", f"Is not JSON: {error}") from error


def _find_messages(findings: Findings, given: Any) -> tuple[list[Found], dict[int, str]]:
    """Return the messages that are well formed, and why the others are not."""
    found: list[Found] = []
    dropped: dict[int, str] = {}
    if given is not None and not isinstance(given, (list, tuple)):
        problem = f"not a list but {type(given).__name__}: left out"
        findings.warn("malformed_history", findings.field, problem)
        return found, dropped
    for index, message in enumerate(given or ()):
        try:
            name, content = findings.read_message(index, message)
        except HistoryValidationError as error:
            dropped[index] = error.message
            continue
        role = "assistant" if name == "orchestrator" else name
        if content.strip():
            text = findings.limits.shorten(role, content)
            found.append((index, {"role": role, "content": text}))
        else:
            dropped[index] = "content is empty"
    if dropped:
        problem = f"malformed messages left out: {len(dropped)}"
        findings.warn("malformed_messages", findings.field, problem)
    return found, dropped


def _alternate_roles(history: Sequence[Found], dropped: dict[int, str]) -> list[dict[str, str]]:
    """Return messages that take turns, the user first."""
    alternate: list[dict[str, str]] = []
    for index, message in history:
        if not alternate and message["role"] != "user":
            dropped[index] = "an answer before the first question"
        elif alternate and alternate[-1]["role"] == message["role"]:
            alternate[-1]["content"] += f"\n\n{message['content']}"
        else:
            alternate.append(message)
    return alternate


TITLE = """💬 CONVERSATION HISTORY (Leading to This Task):

The orchestrator had the following conversation before creating this task.
This provides context for WHY this task exists and WHAT the user wants."""
_EMOJI = {"user": "👤", "assistant": "🤖", "orchestrator": "🎯"}
_TURNS = r"\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(rf"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f{_TURNS}]")
"""Characters that hide text or turn it around; line breaks are handled line by line."""
_NOT_IN_LABEL = re.compile(rf"[\[\](){{}}<>:\x00-\x1f\x7f-\x9f{_TURNS}]+")


def format_history(
    history: ValidatedHistory | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
) -> str:
    r"""Return the conversation as a section of a prompt: numbered, timestamped, role-marked.

    Every line of a message is indented, and a role or a timestamp is one short line, so no message
    can pass for the next one, for a heading or for the footer. The history may be validated, the
    dict of its `to_task_context`, or message dicts.

    Examples:
        >>> history = [{"role": "user", "content": "Fix it", "timestamp": "2025-10-29T10:00:00"}]
        >>> format_history(history).splitlines()[5:7]
        ['[1] 👤 User (10:00:00):', '    Fix it']
    """
    if isinstance(history, ValidatedHistory):
        history = history.to_task_context()
    messages = history.get("messages") if isinstance(history, Mapping) else history
    if not messages:
        return ""
    if not isinstance(messages, (list, tuple)):
        problem = "Must be a list of message dictionaries"
        raise HistoryValidationError("history", problem, type(messages).__name__, "type_error")
    parts = [TITLE, *(_format_message(number, one) for number, one in enumerate(messages, 1))]
    return "\n\n".join([*parts, f"📊 History metadata: {_summarise(messages)}\n"])


def _format_message(number: int, message: Any) -> str:
    if not isinstance(message, Mapping):
        problem = "Each message must be a dictionary"
        where, name = f"history[{number - 1}]", type(message).__name__
        raise HistoryValidationError(where, problem, name, "type_error")
    role = str(message.get("role", "unknown"))
    flag = " [TRUNCATED]" if message.get("truncated") else ""
    text, _ = read_text(message.get("content"))
    lines = split_lines(_CONTROL.sub("\ufffd", text or ""))
    body = "\n".join(f"    {line}" if line.strip() else "" for line in lines)
    given = message.get("timestamp")
    moment = parse_timestamp(given)
    time = _make_label(str(given)) if given else "unknown time"
    time = time if moment is None else moment.strftime("%H:%M:%S")
    head = f"[{number}] {_EMOJI.get(role, '💬')} {_make_label(role).capitalize()} ({time}){flag}"
    return f"{head}:\n{body}"


def _make_label(text: str) -> str:
    """Return a short line that cannot close a heading and open another."""
    return join_lines(_NOT_IN_LABEL.sub(" ", text))[:40].strip() or "unknown"


def _summarise(messages: Sequence[Mapping[str, Any]]) -> str:
    text = f"{len(messages)} message" + ("" if len(messages) == 1 else "s")
    roles = [_make_label(str(one.get("role"))) for one in messages if one.get("truncated")]
    if roles:
        whose = roles[0] if len(set(roles)) == 1 else "long"
        text += f", {len(roles)} truncated ({whose} messages kept concise)"
    return text
