"""LangChain messages to entries and back, losing nothing on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from history_curator.dialects import DictDialect, copied, differ
from history_curator.errors import ConversionError, a_type, named
from history_curator.model import ConversationEntry
from langchain_history_curator import _readers as readers
from langchain_history_curator._rewrite import adopt, invent, message_of, rewrite

_fields = attrgetter("__dict__")

Reader = Callable[[Any, int], "tuple[ConversationEntry, ...]"]


class Written(NamedTuple):
    """What an entry was written as.

    A copy of the content goes with it, as a witness: a caller may have changed the message since.
    """

    message: BaseMessage
    content: Any


class LangChainDialect:
    """Reads `BaseMessage` objects, and whatever LangChain takes in their place.

    Guarantees: an untouched message comes back as the same object; a touched one keeps its id,
    name, metadata, usage, artifact and every content block that was not the point of the change;
    a changed tool call is changed in ``tool_calls``, ``additional_kwargs`` and the content blocks
    alike. Dicts (OpenAI or Anthropic style), ``("human", "hi")`` tuples and strings are
    understood and come back as messages. A `RemoveMessage` is an instruction, not a message: it
    reads as nothing (`without_removed` carries it out).

    Examples:
        >>> from langchain_core.messages import HumanMessage
        >>> dialect = LangChainDialect()
        >>> message = HumanMessage("hello")
        >>> dialect.write(dialect.read(message, 0))[0] is message
        True
    """

    name = "langchain"

    def __init__(self) -> None:
        self._dicts = DictDialect()
        self._readers: dict[type, Reader] = {}
        self._classes: set[type] = set()

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entries of one message."""
        cls = message.__class__
        reader = self._readers.get(cls)
        if reader is None:
            reader = self._reader_for(message, index)
            self._readers[cls] = reader
            if isinstance(message, BaseMessage):
                self._classes.add(cls)
        return reader(message, index)

    def write(self, entries: Sequence[ConversationEntry]) -> list[BaseMessage]:
        """Return messages; untouched entries come back as the very objects they came from."""
        classes = self._classes
        out: list[Any] = []
        skip = 0
        for position, entry in enumerate(entries):
            if skip:
                skip -= 1
                continue
            if entry.original is None and entry.source.__class__ in classes:
                taken = 1 if entry.span is None else _whole(entries, position)
                if taken:
                    out.append(entry.source)
                    skip = taken - 1
                    continue
            known = entry.written
            if known.__class__ is Written and not differ(known.message.content, known.content):
                out.append(known.message)
            else:
                out.append(_write(entry))
        return out

    def peek(self, messages: Sequence[Any]) -> list[Any]:
        """Return the fields of every message; what is no message yet as it is."""
        if self._classes.issuperset(map(type, messages)):
            return list(map(_fields, messages))
        return [_made_of(message) for message in messages]

    def typed(self, seen: Any) -> Any:
        """Return the arguments of calls, the one place where a number is read."""
        return seen.get("tool_calls") if isinstance(seen, dict) else seen

    def twin(self, message: Any) -> Any:
        """Return a copy of one message, with every dict and list in it copied."""
        if not isinstance(message, BaseMessage):
            return copied(message)
        twin = message.model_copy()
        object.__setattr__(twin, "__dict__", copied(message.__dict__))
        return twin

    def _reader_for(self, message: Any, index: int) -> Reader:
        if isinstance(message, AIMessage):
            return readers.read_ai
        if isinstance(message, ToolMessage):
            return readers.read_tool
        if isinstance(message, HumanMessage):
            return readers.read_human
        if isinstance(message, SystemMessage):
            return readers.read_system
        if isinstance(message, RemoveMessage):
            return readers.read_nothing
        if isinstance(message, FunctionMessage):
            return readers.read_function
        if isinstance(message, ChatMessage):
            return readers.read_chat
        if isinstance(message, dict):
            return self._read_dict
        if isinstance(message, (str, tuple, list)):
            return self._read_as_message
        if isinstance(message, ConversationEntry):
            return readers.read_entry
        raise ConversionError(
            f"{a_type(message)} is not a message.",
            index=index,
            fix="pass BaseMessage objects, dicts with a role, ('human', 'hi') tuples or strings.",
        )

    def _read_dict(self, message: dict[str, Any], index: int) -> tuple[ConversationEntry, ...]:
        if "role" in message:
            return self._dicts.read(message, index)
        return self._read_as_message(message, index)

    def _read_as_message(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        converted = None
        with suppress(Exception):  # it quotes the message, so it is not part of ours
            converted = message_of(message)
        if converted is None:
            raise ConversionError(
                f"{_described(message)} is not a message.",
                index=index,
                field="role" if isinstance(message, dict) else None,
                fix="write a dict with a role, the form messages_to_dict() writes, "
                "('human', 'hi'), or just the text.",
            )
        return tuple(replace(entry, source=message) for entry in self.read(converted, index))


DIALECT = LangChainDialect()
"""One for all: it holds no conversation."""


def _described(message: Any) -> str:
    """What was given in the place of a message, without what was said."""
    if isinstance(message, dict):
        names = ", ".join(map(named, message)) or "nothing"
        kind = f" of type {named(message['type'])}" if "type" in message else ""
        return f"a dict{kind} (it has: {names})"
    if isinstance(message, (tuple, list)) and message:
        return f"{a_type(message)} of {len(message)} that starts with {named(message[0])}"
    return named(message)


def without_removed(messages: Iterable[Any]) -> list[Any]:
    """Carry out every `RemoveMessage` the way langgraph's `add_messages` does.

    An id that is not there was removed before, so it is passed over.

    Examples:
        >>> from langchain_core.messages import HumanMessage, RemoveMessage
        >>> without_removed(
        ...     [HumanMessage("a", id="1"), HumanMessage("b", id="2"), RemoveMessage(id="1")]
        ... )
        [HumanMessage(content='b', additional_kwargs={}, response_metadata={}, id='2')]
    """
    given = messages if isinstance(messages, list) else list(messages)
    if RemoveMessage not in set(map(type, given)):
        return given
    kept: list[Any] = []
    for message in given:
        if not isinstance(message, RemoveMessage):
            kept.append(message)
        elif message.id == "__remove_all__":
            kept.clear()
        else:
            kept = [other for other in kept if getattr(other, "id", None) != message.id]
    return kept


def pin(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return copies of messages that every view keeps, such as few-shot examples.

    What is pinned stays whole and in its place, whatever the budget does to the rest; a pinned
    tool call brings its results. The mark is a note for us: no provider is sent it.

    Examples:
        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> examples = pin([HumanMessage("2 🦜 9"), AIMessage("11")])
        >>> examples[0].additional_kwargs
        {'pinned': True}
    """
    return [
        message.model_copy(
            update={"additional_kwargs": {**message.additional_kwargs, "pinned": True}}
        )
        for message in messages
    ]


def _whole(entries: Sequence[ConversationEntry], start: int) -> int:
    # How many entries from `start` are all of one untouched message, in order; 0 when some are
    # missing or changed.
    first = entries[start]
    if first.span is None or first.span[0] != 0:
        return 0
    count = first.span[1]
    run = entries[start : start + count]
    same = len(run) == count and all(
        entry.source is first.source and entry.original is None and entry.span == (k, count)
        for k, entry in enumerate(run)
    )
    return count if same else 0


def _made_of(message: Any) -> Any:
    if isinstance(message, BaseMessage):
        return message.__dict__
    return dict(message) if isinstance(message, dict) else message


def _write(entry: ConversationEntry) -> BaseMessage:
    source = entry.source
    if source is None:
        message = invent(entry)
    elif entry.span is None and isinstance(source, BaseMessage):
        message = source if entry.original is None else rewrite(source, entry)
    else:
        message = adopt(entry.root)
        if entry.original is not None:
            message = rewrite(message, entry)
    object.__setattr__(entry, "written", Written(message, copied(message.content)))
    return message
