"""A recorded conversation, read once, with the points where the model was called."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

from history_curator.caching import seconds, time_of
from history_curator.formats import Gathered, detect, gathered
from history_curator.errors import ConversionError, a_type
from history_curator.entries import ConversationEntry, MessageRole


@dataclass(frozen=True, slots=True)
class Question:
    """A labelled question: which entries hold the answer, and when it is asked."""

    text: str
    evidence: tuple[int, ...]
    ask_after: int


@dataclass(frozen=True, slots=True)
class LabConversation:
    """One conversation to replay.

    Examples:
        >>> talk = LabConversation(
        ...     "t1", [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        ... )
        >>> talk.read().calls
        (1,)

    Attributes:
        id: what tables and errors call it.
        messages: what was said.
        questions: labelled questions about it, with the messages that hold the answer.
        tools: tool schemas sent with every request.
        times: when each message was said; by default what the messages themselves say. With times,
            a cache that has gone cold between two calls is priced as such.
        hidden: tokens sent with every request that are not on record, such as a system prompt
            that the log left out.
    """

    id: str
    messages: Sequence[Any]
    questions: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[Any] | None = None
    times: Sequence[Any] | None = None
    hidden: int = 0

    def read(self) -> ReadConversation:
        """Return the conversation as entries; message indices become entry indices.

        Raises:
            ConversionError: naming the conversation, the message and the field.
        """
        entries: list[ConversationEntry] = []
        spans: list[range] = []
        try:
            format = detect(self.messages)
            for message in gathered(self.messages, format):
                start, together = len(entries), isinstance(message, Gathered)
                entries.extend(format.read(message, len(spans)))
                spans += [range(start, len(entries))] * (len(message) if together else 1)
        except ConversionError as error:
            problem = f"in {self.id}: {error.problem}"
            raise ConversionError(
                problem, index=error.index, field=error.field, fix=error.fix
            ) from error
        return ReadConversation(
            id=self.id,
            messages=list(self.messages),
            homes=tuple(at for at, span in enumerate(spans) for _ in span),
            entries=tuple(entries),
            calls=tuple(
                index
                for index, entry in enumerate(entries)
                if index and entry.role is MessageRole.ASSISTANT
            ),
            questions=tuple(_questions(self.questions, spans)),
            tools=self.tools,
            times=tuple(self._times(entries, spans)),
            hidden=self.hidden,
        )

    def _times(
        self, entries: Sequence[ConversationEntry], spans: Sequence[range]
    ) -> Iterable[float | None]:
        if self.times is None:
            return map(time_of, entries)
        return (
            seconds(when)
            for when, span in zip_longest(self.times[: len(spans)], spans)
            for _ in span
        )


@dataclass(frozen=True)
class ReadConversation:
    """Entries of one conversation; ``calls[k]`` is the entry the model wrote in its k-th call.

    ``homes[i]`` is the index of the message that entry i was read from.
    """

    id: str
    messages: list[Any]
    homes: tuple[int, ...]
    entries: tuple[ConversationEntry, ...]
    calls: tuple[int, ...]
    questions: tuple[Question, ...] = ()
    tools: Sequence[Any] | None = None
    times: tuple[float | None, ...] = ()
    hidden: int = 0

    @cached_property
    def index_of(self) -> dict[int, int]:
        """Positions of the entries, by their identity."""
        return {id(entry): index for index, entry in enumerate(self.entries)}

    @cached_property
    def texts(self) -> list[str]:
        """Of each entry everything a later call may have needed: text and argument values."""
        return [searchable(entry) for entry in self.entries]

    def idle(self, before: int, at: int) -> float | None:
        """Return the seconds between the answer at ``before`` and the request answered at ``at``.

        The request was sent when the last entry before its answer was there. None where either
        time is not known.
        """
        if at > len(self.times) or before >= at:
            return None
        answered, sent = self.times[before], self.times[at - 1]
        return None if answered is None or sent is None else max(0.0, sent - answered)


def searchable(entry: ConversationEntry) -> str:
    """Return the text of an entry followed by the values of its calls' arguments."""
    pieces = [entry.content or ""]
    for call in entry.tool_calls or ():
        pieces.extend(leaf_values(call.arguments))
    return "\n".join(pieces)


def leaf_values(arguments: str) -> list[str]:
    """Return the scalar values inside JSON arguments, as text; malformed text is one value."""
    try:
        root = json.loads(arguments)
    except ValueError:
        return [arguments]
    values: list[str] = []
    todo = [root]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
        elif isinstance(value, str):
            values.append(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            values.append(str(value))
    return values


def as_conversations(source: Any) -> list[LabConversation]:
    """Return conversations from what people have at hand.

    Takes an iterable of: `LabConversation`, mappings with a ``messages`` list (and optionally
    ``id``, ``questions``, ``tools``, ``times``), or plain lists of messages. One plain list of
    messages is one conversation.

    Raises:
        ConversionError: naming the conversation that is neither.
    """
    if isinstance(source, (LabConversation, Mapping)):
        source = [source]
    items = list(source)
    if items and _is_message(items[0]):
        items = [items]
    return [_as_conversation(item, number) for number, item in enumerate(items)]


def _is_message(item: Any) -> bool:
    if isinstance(item, Mapping):
        return "role" in item
    return not isinstance(item, (LabConversation, str, Iterable)) or hasattr(item, "content")


def _as_conversation(item: Any, number: int) -> LabConversation:
    if isinstance(item, LabConversation):
        return item
    if isinstance(item, Mapping) and isinstance(item.get("messages"), Sequence):
        return LabConversation(
            id=str(item.get("id", f"conversation {number}")),
            messages=item["messages"],
            questions=item.get("questions") or (),
            tools=item.get("tools"),
            times=item.get("times"),
        )
    if isinstance(item, Sequence) and not isinstance(item, (str, bytes)):
        return LabConversation(id=f"conversation {number}", messages=item)
    raise ConversionError(
        f"conversation {number} is {a_type(item)}.",
        fix='pass lists of messages, or mappings with a "messages" list.',
    )


def _questions(labelled: Iterable[Mapping[str, Any]], spans: Sequence[range]) -> Iterable[Question]:
    last = len(spans) - 1
    for row in labelled:
        evidence = [i for at in row.get("evidence") or () if 0 <= at <= last for i in spans[at]]
        if not evidence:
            continue
        after = min(int(row.get("ask_after", last)), last)
        yield Question(str(row.get("question", "")), tuple(evidence), spans[after].stop)
