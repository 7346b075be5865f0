"""LangChain messages to entries and back, losing nothing on the way."""

from __future__ import annotations

from collections.abc import Hashable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

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

from history_curator.formats import ROLES, DictFormat, copied, freeze, whole_source
from history_curator.errors import ConversionError, a_type, named
from history_curator.entries import (
    ContentPart,
    ConversationEntry,
    MessageRole,
    Reasoning,
    new_entry,
)
from history_curator.integrations import written_once
from langchain_history_curator._blocks import Blocks, kind_of, read_blocks, read_calls
from langchain_history_curator._rewrite import adopt, invent, message_of, rewrite

_fields = attrgetter("__dict__")
_said = attrgetter("content")

_USER, _SYSTEM = MessageRole.USER, MessageRole.SYSTEM
_ASSISTANT, _TOOL = MessageRole.ASSISTANT, MessageRole.TOOL

_CHAT_ROLES = {**ROLES, "model": _ASSISTANT}

Read = tuple[ConversationEntry, ...]
Reader = Callable[[Any, int], Read]


class LangChainFormat:
    """Reads `BaseMessage` objects, and whatever LangChain takes in their place.

    Guarantees: an untouched message comes back as the same object; a touched one keeps its id,
    name, metadata, usage, artifact and every content block that was not the point of the change;
    a changed tool call is changed in ``tool_calls``, ``additional_kwargs`` and the content blocks
    alike. Dicts (OpenAI or Anthropic style), ``("human", "hi")`` tuples and strings are
    understood and come back as messages. A `RemoveMessage` is an instruction, not a message: it
    reads as nothing (`without_removed` carries it out).

    Examples:
        >>> from langchain_core.messages import HumanMessage
        >>> format = LangChainFormat()
        >>> message = HumanMessage("hello")
        >>> format.write(format.read(message, 0))[0] is message
        True
    """

    name = "langchain"

    def __init__(self) -> None:
        self._dicts = DictFormat()
        self._readers: dict[type, Reader] = {}
        self._classes: set[type] = set()

    def read(self, message: Any, index: int) -> Read:
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
        out: list[Any] = []
        behind = 0
        for position, entry in enumerate(entries):
            if position < behind:
                continue  # read from the message before
            given = entry.source.__class__ in self._classes
            whole = whole_source(entries, position) if given else 0
            out.append(entry.source if whole else written_once(self.name, entry, _write, _said))
            behind = position + whole
        return out

    def key_of(self, message: Any) -> Hashable:
        """Return what a message says, exactly."""
        return freeze((message.__class__, self.peek([message])[0]))

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
        for kind, reader in _READERS:
            if isinstance(message, kind):
                return reader
        if isinstance(message, dict):
            return self._read_dict
        if isinstance(message, (str, tuple, list)):
            return self._read_as_message
        raise ConversionError(
            f"{a_type(message)} is not a message.",
            index=index,
            fix="pass BaseMessage objects, dicts with a role, ('human', 'hi') tuples or strings.",
        )

    def _read_dict(self, message: dict[str, Any], index: int) -> Read:
        if "role" in message:
            return self._dicts.read(message, index)
        return self._read_as_message(message, index)

    def _read_as_message(self, message: Any, index: int) -> Read:
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


DIALECT = LangChainFormat()
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


def _made_of(message: Any) -> Any:
    if isinstance(message, BaseMessage):
        return message.__dict__
    return dict(message) if isinstance(message, dict) else message


def _write(entry: ConversationEntry) -> BaseMessage:
    source = entry.source
    if source is None:
        return invent(entry)
    is_whole = entry.span is None and isinstance(source, BaseMessage)
    message = source if is_whole else adopt(entry.root)
    return message if entry.original is None else rewrite(message, entry)


# One reader for each class of message.


def _read_human(message: Any, index: int) -> Read:
    content = message.__dict__["content"]
    if not isinstance(content, str) and any(kind_of(block) == "result" for block in content):
        return _read_results(message, content, index)
    return _read_said(_USER, message, index)


def _read_said(role: MessageRole, message: Any, index: int) -> Read:
    fields = message.__dict__
    content, parts = _text_and_parts(fields["content"])
    is_tool, name = role is _TOOL, fields["name"]
    entry = new_entry(
        role,
        content,
        index,
        message,
        tool_call_id=fields["tool_call_id"] if is_tool else None,
        tool_name=name if is_tool else None,
        name=None if is_tool else name,
        parts=parts,
        status=fields["status"] if is_tool else None,
        pinned=_pinned(fields),
    )
    return (entry,)


def _text_and_parts(content: Any) -> tuple[str | None, tuple[ContentPart, ...] | None]:
    return (content, None) if isinstance(content, str) else read_blocks(content)[:2]


def _read_function(message: Any, index: int) -> Read:
    text = message.content if isinstance(message.content, str) else message.text
    return (new_entry(_TOOL, text, index, message, tool_name=message.name),)


def _read_chat(message: ChatMessage, index: int) -> Read:
    spoken = message.role.lower()
    # A role of some model's own, such as Granite's "control", is sent as it is; to us it is
    # something the model is told.
    role = _CHAT_ROLES.get(spoken, _USER)
    content, parts = _text_and_parts(message.content)
    name = message.name or ("orchestrator" if spoken == "orchestrator" else None)
    entry = new_entry(
        role,
        content or "",
        index,
        message,
        name=None if role is _TOOL else name,
        tool_name=name if role is _TOOL else None,
        tool_call_id=message.additional_kwargs.get("tool_call_id") if role is _TOOL else None,
        parts=parts,
    )
    return (entry,)


def _read_ai(message: Any, index: int) -> Read:
    fields = message.__dict__
    content, extra = fields["content"], fields["additional_kwargs"]
    said = Blocks(content) if isinstance(content, str) else read_blocks(content)
    calls, reasoning = None, said.reasoning
    if fields["tool_calls"] or fields["invalid_tool_calls"] or said.calls or extra:
        calls = read_calls(message, said.calls)
        if extra and reasoning is None:
            reasoning = _kept_aside(extra)
    entry = new_entry(
        _ASSISTANT,
        said.text or (None if calls else ""),
        index,
        message,
        tool_calls=calls,
        name=fields["name"],
        parts=said.parts,
        reasoning=reasoning,
        pinned=_pinned(fields),
    )
    return (entry,)


def _kept_aside(extra: dict[str, Any]) -> tuple[Reasoning, ...] | None:
    text = extra.get("reasoning_content")
    if isinstance(text, str) and text:
        return (Reasoning(text=text),)
    item = extra.get("reasoning")
    if isinstance(item, dict):
        return read_blocks([{"type": "reasoning", **item}]).reasoning
    if isinstance(item, str) and item:
        return (Reasoning(text=item),)
    return None


def _pinned(fields: dict[str, Any]) -> bool:
    extra = fields["additional_kwargs"]
    return bool(extra) and bool(extra.get("pinned"))


def _read_results(message: Any, content: Sequence[Any], index: int) -> Read:
    # Anthropic's way: results as blocks of a user message.
    runs: list[list[Any]] = []
    for block in content:
        if kind_of(block) == "result" or not runs or kind_of(runs[-1][0]) == "result":
            runs.append([block])
        else:
            runs[-1].append(block)
    return tuple(
        _read_run(run, message, index, (place, len(runs))) for place, run in enumerate(runs)
    )


def _read_run(
    run: Sequence[Any], message: Any, index: int, span: tuple[int, int]
) -> ConversationEntry:
    block = run[0]
    if kind_of(block) != "result":
        text, parts = _text_and_parts(run)
        return new_entry(_USER, text, index, message, name=message.name, parts=parts, span=span)
    inner = block.get("content", block.get("output"))
    text, parts = _text_and_parts("" if inner is None else inner)
    return new_entry(
        _TOOL,
        text or "",
        index,
        message,
        tool_call_id=str(block.get("tool_use_id") or block.get("call_id") or ""),
        parts=parts,
        status="error" if block.get("is_error") else "success",
        span=span,
    )


_READERS: tuple[tuple[type, Reader], ...] = (
    (AIMessage, _read_ai),
    (ToolMessage, partial(_read_said, _TOOL)),
    (HumanMessage, _read_human),
    (SystemMessage, partial(_read_said, _SYSTEM)),
    (RemoveMessage, lambda _message, _index: ()),
    (FunctionMessage, _read_function),
    (ChatMessage, _read_chat),
    (ConversationEntry, lambda entry, _index: (entry,)),
)
