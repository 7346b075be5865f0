"""What a log says: sessions, and the requests that were made in them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from history_curator.tokens import Usage


@dataclass(frozen=True, slots=True)
class Call:
    """One request and its answer.

    Attributes:
        id: what the provider called the answer; a request is counted once by it.
        model: who answered.
        usage: what was reported.
        start, end: seconds since 1970 when it was sent and answered, where known.
        position: how many messages of the session stood before the answer.
        frame: what the tools and the system prompt looked like, where the log has them.
        rewrote: whether the request no longer begins with the one before; None where the log does
            not show whole requests.
    """

    id: str
    model: str
    usage: Usage
    start: float | None = None
    end: float | None = None
    position: int = 0
    frame: str | None = None
    rewrote: bool | None = None

    @property
    def held(self) -> int:
        """What the provider's cache holds after the request."""
        return self.usage.cache_read + self.usage.cache_write


@dataclass(frozen=True, slots=True)
class Compaction:
    """A place where the host replaced what was said by a summary.

    Attributes:
        position: how many messages had been said.
        summary: the message that stands for them from there on, where there is one.
    """

    position: int
    summary: dict[str, Any] | None = None


@dataclass(slots=True)
class Session:
    """One conversation of one agent; a side chain is a session of its own.

    Attributes:
        id: the log's own name for it.
        messages: everything that was said, without the summaries a host put in.
        times: when each message was said.
        calls: the requests, in order.
        compactions: where the host summarised.
        side: whether it is a side chain: a helper agent started by another session.
        tools: tool schemas, where the log has them.
    """

    id: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    times: list[float | None] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    compactions: list[Compaction] = field(default_factory=list)
    side: bool = False
    tools: list[Any] | None = None

    def say(self, message: dict[str, Any], time: float | None) -> None:
        """Append a message."""
        self.messages.append(message)
        self.times.append(time)

    def amend(self, number: int, **changes: Any) -> None:
        """Change a call of which more has been read."""
        self.calls[number] = replace(self.calls[number], **changes)

    def timed(self) -> list[dict[str, Any]]:
        """Return the messages as a host would keep them: with times, answers with their usage."""
        said = [
            {**message, "timestamp": time} if time is not None else dict(message)
            for message, time in zip(self.messages, self.times, strict=True)
        ]
        for call in self.calls:
            if call.position < len(said) and said[call.position].get("role") == "assistant":
                used = call.usage
                said[call.position]["model"] = call.model
                said[call.position]["usage"] = {
                    "input_tokens": used.uncached,
                    "cache_read_input_tokens": used.cache_read,
                    "cache_creation_input_tokens": used.cache_write,
                    "cache_creation": {"ephemeral_1h_input_tokens": used.cache_write_1h},
                    "output_tokens": used.output,
                }
        return said

    def compacted(self, before: int, upto: int) -> bool:
        """Return whether the host summarised between two positions."""
        return any(before < each.position <= upto for each in self.compactions)
