"""`sanitize_history`: what a request handler may pass on of a history the client sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from history_curator.boundary._content import attachments_of, text_of_blocks
from history_curator.boundary._limits import HistoryLimits
from history_curator.boundary._validate import payload_bytes
from history_curator.boundary._validated import HistoryWarning, Severity
from history_curator.errors import HistoryValidationError, named

_WARNINGS: dict[str, tuple[Severity, str]] = {
    "attachments": ("medium", "send what matters as text"),
    "large_payload": ("low", "send less of the history"),
    "malformed_history": ("high", "send a list of messages"),
    "malformed_messages": ("medium", "send a role and text in each"),
    "many_messages": ("low", "send less of the history"),
    "too_many_messages": ("medium", "send less of the history"),
}
"""How much each thing that was left out matters, and what the client can do about it."""

HISTORY_FIELDS = ("conversationHistory", "conversation_history", "history", "messages")
"""Where a history may stand in a request, first match wins."""


@dataclass(frozen=True, slots=True)
class DroppedMessage:
    """A message of the client that is not sent on.

    Attributes:
        index: its position in the history the client sent.
        reason: why.
    """

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class SanitizedHistory:
    """What to send, and what became of the rest.

    Attributes:
        history: ``{role, content}`` dicts without the prompt.
        prompt: what the user asks now, or None.
        dropped: messages left out, and why.
        merged: positions of messages joined to the one before to keep roles alternating.
        warnings: what the client should know.
        payload_bytes: size of the request.
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
    payload: Any,
    limits: HistoryLimits | None = None,
    *,
    prompt: str | None = None,
) -> SanitizedHistory:
    """Return what may be sent on of a request that carries its own history.

    Malformed messages are left out, never an error; only ``role`` and the text of ``content``
    survive, and a warning says where attachments or blocks that are not text were left out; of
    the rest the last `max_messages` are kept. With `alternate`, neighbours of one role are joined
    and the first message is the user's. The payload is never changed.

    Args:
        payload: the request: raw JSON, a mapping with ``prompt`` and ``conversationHistory``,
            or a list of messages.
        limits: what to hold it to; `HistoryLimits.stateless()` by default.
        prompt: what the user asks now, where the payload does not say.

    Raises:
        HistoryValidationError: field ``payload`` when it is too large or not JSON, ``prompt``
            when it is missing from a request or not text.

    Examples:
        >>> request = {
        ...     "prompt": "and the first?",
        ...     "conversationHistory": [
        ...         {"role": "user", "content": "list them", "elapsedSeconds": 3},
        ...         {"role": "?"},
        ...         {"role": "assistant", "content": "a, b"},
        ...     ],
        ... }
        >>> sanitized = sanitize_history(request)
        >>> [message["content"] for message in sanitized.messages]
        ['list them', 'a, b', 'and the first?']
        >>> sanitized.dropped[0].index
        1
    """
    limits = limits or HistoryLimits.stateless()
    size = payload_bytes(payload)
    most = limits.max_payload_bytes
    if most is not None and size > most:
        raise HistoryValidationError(
            "payload",
            f"Exceeds {most} bytes; send fewer or shorter messages of the history",
            f"{size} bytes",
        )
    data = _decode(payload)
    given: Any = data
    if isinstance(data, Mapping):
        given = next((data[name] for name in HISTORY_FIELDS if name in data), None)
        prompt = data.get("prompt", prompt)
        if not isinstance(prompt, str) or not prompt.strip():
            raise HistoryValidationError(
                "prompt", "Must be text that is not empty", type(prompt).__name__
            )
    work = _Work(limits)
    if limits.warn_payload_bytes is not None and size > limits.warn_payload_bytes:
        work.warn("large_payload", f"{size} bytes, the limit is {most}", "payload")
    history = work.latest(work.well_formed(given))
    if limits.alternate:
        history = work.alternating(history)
        if history and prompt is not None and history[-1][1] == "user":
            index, _, content = history.pop()
            prompt = f"{content}\n\n{prompt}"
            work.merged.append(index)
    return SanitizedHistory(
        history=tuple({"role": role, "content": content} for _, role, content in history),
        prompt=prompt,
        dropped=tuple(sorted(work.dropped, key=lambda one: one.index)),
        merged=tuple(work.merged),
        warnings=tuple(work.warnings),
        payload_bytes=size,
    )


Candidate = tuple[int, str, str]
"""(index, role, content) of a message that may be sent."""


class _Work:
    """One sanitising: the limits, and what happened so far."""

    def __init__(self, limits: HistoryLimits) -> None:
        self.limits = limits
        self.dropped: list[DroppedMessage] = []
        self.merged: list[int] = []
        self.warnings: list[HistoryWarning] = []

    def warn(self, code: str, message: str, field: str = "history") -> None:
        severity, suggestion = _WARNINGS[code]
        self.warnings.append(HistoryWarning(field, message, severity, suggestion, code))

    def well_formed(self, given: Any) -> list[Candidate]:
        if given is None:
            return []
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
            self.warn("malformed_history", f"not a list but {type(given).__name__}: left out")
            return []
        kept: list[Candidate] = []
        for index, message in enumerate(given):
            found = self._message(index, message)
            if isinstance(found, str):
                self.dropped.append(DroppedMessage(index, found))
            else:
                kept.append((index, *found))
        if self.dropped:
            self.warn("malformed_messages", f"malformed messages left out: {len(self.dropped)}")
        return kept

    def latest(self, history: list[Candidate]) -> list[Candidate]:
        most, early = self.limits.max_messages, self.limits.warn_messages
        count = len(history)
        if most is not None and count > most:
            self.warn("too_many_messages", f"{count} messages: only the last {most} are sent")
            for index, _, _ in history[:-most]:
                self.dropped.append(DroppedMessage(index, f"older than the last {most} messages"))
            return history[-most:]
        if early is not None and count > early:
            self.warn("many_messages", f"{count} messages: beyond {most} the oldest are left out")
        return history

    def alternating(self, history: list[Candidate]) -> list[Candidate]:
        kept: list[Candidate] = []
        for index, role, content in history:
            if not kept and role != "user":
                self.dropped.append(DroppedMessage(index, "an answer before the first question"))
            elif kept and kept[-1][1] == role:
                first, _, before = kept[-1]
                kept[-1] = (first, role, f"{before}\n\n{content}")
                self.merged.append(index)
            else:
                kept.append((index, role, content))
        return kept

    def _message(self, index: int, message: Any) -> tuple[str, str] | str:
        """Return role and content, or why there are none."""
        if not isinstance(message, Mapping):
            return f"not a message but {type(message).__name__}"
        role = message.get("role")
        name = role.strip().lower() if isinstance(role, str) else ""
        if name not in self.limits.roles:
            return f"role {named(role)} is not one of {', '.join(self.limits.roles)}"
        content = message.get("content")
        attachments, malformed = attachments_of(message)
        left_out = len(attachments) + malformed
        if isinstance(content, list):
            blocks = text_of_blocks(content)
            if blocks is not None:
                content, left_out = blocks[0], left_out + len(blocks[1])
        if left_out:
            self.warn("attachments", f"attachments left out: {left_out}", f"history[{index}]")
        if not isinstance(content, str):
            return f"content is not text but {type(content).__name__}"
        if not content.strip():
            return "content is empty"
        speaker = "assistant" if name == "orchestrator" else name
        return speaker, self.limits.shorten(speaker, content)


def _decode(payload: Any) -> Any:
    if not isinstance(payload, (str, bytes, bytearray)):
        return payload
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise HistoryValidationError("payload", f"Is not JSON: {error}") from error
