"""Recorded conversations, and the parts of each that its later calls depended on.

When a recorded call repeats an earlier one, or names an identifier that only an earlier message
holds, the view it was made from should have shown that message. To replace lines of a file, a model
has to quote them, so the view should hold every line that an edit call replaced.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib import import_module
from importlib.resources import files
from itertools import dropwhile
from typing import Any, Literal

from history_curator.entries import ConversationEntry, MessageRole, ToolCall
from history_curator.errors import ConversionError, HistoryCuratorError, a_type
from history_curator.formats import parse_json, parse_object, read_entries
from history_curator.lab.prices import PriceSheet
from history_curator.tokens import Usage, entry_time, parse_time
from history_curator.units import pair

_MIN_IDENTIFIER, _MAX_IDENTIFIER = 5, 400
_MIN_LINE = 12
_REPLACED = ("old_string", "old_str", "oldText")
"""The names under which editing tools take the text they replace."""


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


@dataclass(frozen=True, slots=True)
class Dependency:
    """An argument value, or a call made before, that a ``call`` used and earlier entries held.

    ``value`` is the identifier or the tool's name; one of the ``sources`` in view is enough.
    """

    call: int
    kind: Literal["identifier", "repeat"]
    value: str
    sources: tuple[int, ...]


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
        """Indexes of the entries that the model wrote in answer to another one; a greeting is none."""
        opening = (MessageRole.SYSTEM, MessageRole.ASSISTANT)
        entries = dropwhile(lambda pair: pair[1].role in opening, enumerate(self.entries))
        return tuple(at for at, each in entries if each.role is MessageRole.ASSISTANT)

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

    @cached_property
    def dependencies(self) -> dict[int, list[Dependency]]:
        """The dependencies of every call, by the index of the entry that made it."""
        results, found = self._results(), defaultdict[int, list[Dependency]](list)
        holders: dict[str, tuple[int, list[int]]] = {}
        for index in self.calls:
            calls = self.entries[index].tool_calls or ()
            values = {v.strip() for each in calls for v in argument_values(each.arguments)}
            for value in sorted(v for v in values if _MIN_IDENTIFIER <= len(v) <= _MAX_IDENTIFIER):
                searched, indexes = holders.get(value, (0, []))
                indexes.extend(i for i in range(searched, index) if value in self.texts[i])
                holders[value] = (index, indexes)
                if indexes:
                    found[index].append(Dependency(index, "identifier", value, tuple(indexes)))
            for each in calls:
                if earlier := tuple(i for i in results[_signature(each)] if i < index):
                    found[index].append(Dependency(index, "repeat", each.name, earlier))
        return dict(found)

    def _results(self) -> dict[tuple[str, str], list[int]]:
        """Return where the results of each call are, by its name and arguments."""
        found: dict[tuple[str, str], list[int]] = defaultdict(list)
        for unit in pair(self.entries):
            calls = {call.id: call for call in unit.head.tool_calls or ()}
            for result in filter(None, unit.results):
                if call := calls.get(result.tool_call_id or ""):
                    found[_signature(call)].append(self.index_of[id(result)])
        return found

    @cached_property
    def edits(self) -> dict[int, list[list[str]]]:
        """The lines that each edit call replaced, by the index of the entry that made it.

        Only lines of some length that had been shown before count; an edit without any is left out.
        """
        edits: dict[int, list[list[str]]] = defaultdict(list)
        for call in self.calls:
            earlier = self.texts[:call][::-1]
            for each in self.entries[call].tool_calls or ():
                is_edit = any(name in each.arguments for name in _REPLACED)
                values = (parse_object(each.arguments) or {}) if is_edit else {}
                replaced = next((v for n in _REPLACED if isinstance(v := values.get(n), str)), "")
                lines = dict.fromkeys(map(str.strip, replaced.split("\n")))
                long = (line for line in lines if len(line) >= _MIN_LINE)
                if known := [line for line in long if any(line in text for text in earlier)]:
                    edits[call].append(known)
        return dict(edits)

    def find_shown(self, sent: Sequence[ConversationEntry]) -> dict[int, ConversationEntry]:
        """Return the recorded entries that a view shows, by index, in the form they are sent in."""
        pairs = ((self.index_of.get(id(entry.root)), entry) for entry in sent)
        return {index: entry for index, entry in pairs if index is not None}

    def find_missing(
        self, needed: Sequence[Dependency], sent: Sequence[ConversationEntry]
    ) -> list[Dependency]:
        """Return what a view does not show; an identifier in a note of its own is shown."""
        shown = self.find_shown(sent) if needed else {}
        own = (entry for entry in sent if needed and id(entry.root) not in self.index_of)
        notes = "\n".join(map(searchable_text, own))

        def is_shown(each: Dependency, source: int) -> bool:
            entry, recorded = shown.get(source), self.entries[source]
            if entry is None or entry.content == recorded.content:
                return entry is not None
            if each.kind == "identifier":
                return each.value in searchable_text(entry)
            # A shortened result counts while at least half of it is there.
            return 2 * len(entry.content or "") >= len(recorded.content or "")

        return [
            each
            for each in needed
            if not (each.kind == "identifier" and each.value in notes)
            and not any(is_shown(each, source) for source in each.sources)
        ]


def count_visible_edits(edits: Sequence[Sequence[str]], sent: Sequence[ConversationEntry]) -> int:
    """Return how many edits find all their lines in a view."""
    text = "\n".join(map(searchable_text, sent)) if edits else ""
    return sum(all(line in text for line in lines) for lines in edits)


def _signature(call: ToolCall) -> tuple[str, str]:
    return call.name, "\n".join(sorted(argument_values(call.arguments)))


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
