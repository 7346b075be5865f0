"""Recorded conversations, with what is worked out about each of them once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError, HistoryCuratorError, a_type
from history_curator.formats import parse_json, read_entries
from history_curator.tokens import Usage, entry_time, parse_time

if TYPE_CHECKING:
    from history_curator.lab.metrics import PriceSheet


def import_extra(module: str, extra: str = "lab", package: str | None = None) -> Any:
    """Return an optional module, or raise with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        install = package or f'"history-curator[{extra}]"'
        name = package or module.partition(".")[0]
        raise ImportError(f"{name} is not installed. Fix: pip install {install}") from error


@dataclass(slots=True)
class LoggedCall:
    """One request; ``position`` messages stood before its answer, ``frame`` is tools and system prompt."""

    id: str
    model: str
    usage: Usage
    start: float | None = None
    end: float | None = None
    position: int = 0
    frame: str | None = None

    @property
    def held(self) -> int:
        """The tokens in the provider's cache after the request."""
        return self.usage.cache_read + self.usage.cache_write


@dataclass
class LabConversation:
    """One conversation of one agent, as it was recorded.

    Attributes:
        times: when each message was written; by default the times that the messages carry.
        hidden: tokens of every request that the record lacks, such as a system prompt.
        summaries: where the host replaced the history by a summary, in messages, and its text.
        prices: those of its model, where they are not the prices of the replay.
        is_side: whether a helper agent, which another one started, had the conversation.
    """

    id: str
    messages: list[Any]
    tools: Sequence[Any] | None = None
    times: list[Any] | None = None
    hidden: int = 0
    requests: list[LoggedCall] = field(default_factory=list)
    summaries: list[tuple[int, str]] = field(default_factory=list)
    prices: PriceSheet | None = None
    is_side: bool = False

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is worked out on first use: it knows entries by their identity."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def add_message(self, message: dict[str, Any], time: float | None) -> None:
        """Append a message with its time."""
        self.messages.append(message)
        self.times = self.times or []
        self.times.append(time)

    @cached_property
    def entries(self) -> list[ConversationEntry]:
        """The messages as entries; an error names the conversation, the message and the field."""
        with name_in_errors(self.id):
            if not isinstance(self.tools, (list, tuple, type(None))):
                raise ConversionError(f"tools are {a_type(self.tools)}.", fix="pass a list.")
            return read_entries(self.messages)

    @cached_property
    def homes(self) -> tuple[int, ...]:
        """For each entry the index of the message it was read from."""
        own = bool(self.messages) and isinstance(self.messages[0], ConversationEntry)
        return tuple(range(len(self.entries)) if own else (each.sequence for each in self.entries))

    @cached_property
    def calls(self) -> tuple[int, ...]:
        """Indexes of the entries that the model wrote in answer to another one."""
        entries = enumerate(self.entries)
        return tuple(at for at, each in entries if at and each.role is MessageRole.ASSISTANT)

    @cached_property
    def entry_times(self) -> tuple[float | None, ...]:
        """When each entry was written, in seconds since 1970, where known."""
        if self.times is None:
            return tuple(map(entry_time, self.entries))
        given = dict(enumerate(self.times))
        return tuple(parse_time(given.get(home)) for home in self.homes)

    @cached_property
    def index_of(self) -> dict[int, int]:
        """The index of each entry, by the identity of the entry; equal entries differ."""
        return {id(entry): index for index, entry in enumerate(self.entries)}

    @cached_property
    def texts(self) -> list[str]:
        """For each entry its text and the values of its arguments."""
        return list(map(searchable_text, self.entries))

    def idle_seconds(self, previous_call: int, call: int) -> float | None:
        """Return the seconds between an answer and the request for a later one, where known."""
        # The request went out when the last entry before its answer was there.
        answered, sent = self.entry_times[previous_call], self.entry_times[call - 1]
        return None if answered is None or sent is None else max(0.0, sent - answered)


def searchable_text(entry: ConversationEntry) -> str:
    """Return the text of an entry followed by the values of its calls' arguments."""
    values = (argument_values(call.arguments) for call in entry.tool_calls or ())
    return "\n".join([entry.content or "", *(each for some in values for each in some)])


def argument_values(arguments: str) -> list[str]:
    """Return the scalar values inside JSON arguments as text; malformed text is one value."""
    try:
        pending = [parse_json(arguments)]
    except ValueError:
        return [arguments]
    values: list[str] = []
    while pending:
        value = pending.pop()
        if isinstance(value, (dict, list)):
            pending.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            values.append(str(value))
    return values


@contextmanager
def name_in_errors(name: str) -> Iterator[None]:
    """Put the name of a conversation into the library's errors."""
    try:
        yield
    except ConversionError as error:
        problem, index = f"in {name}: {error.problem}", error.index
        raise ConversionError(problem, index=index, field=error.field, fix=error.fix) from error
    except HistoryCuratorError as error:
        raise HistoryCuratorError(f"{name}: {error}") from error


def sample_conversation() -> list[dict[str, Any]]:
    """Return an agent's session as OpenAI-style messages: tools, parallel calls, long results."""
    text = (files("history_curator.lab") / "sample.json").read_text(encoding="utf-8")
    return list(json.loads(text))
