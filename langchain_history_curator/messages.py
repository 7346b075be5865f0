"""LangChain messages to entries and back, losing nothing on the way."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
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
    convert_to_messages,
    message_to_dict,
    messages_from_dict,
)

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError, a_type, name_value
from history_curator.formats import (
    ROLES,
    DictFormat,
    copy_value,
    count_untouched,
    freeze,
    parse_object,
    update_text,
    write_part,
)
from history_curator.formats.blocks import entry_fields
from langchain_history_curator.blocks import (
    free_items,
    free_items_beside,
    is_item,
    kind_of,
    read_calls,
    read_reasoning_beside,
    read_slots,
    write_calls,
    write_content,
    write_rows,
)

_USER, _SYSTEM = MessageRole.USER, MessageRole.SYSTEM
_ASSISTANT, _TOOL = MessageRole.ASSISTANT, MessageRole.TOOL

Entries = tuple[ConversationEntry, ...]


class LangChainFormat:
    """Reads `BaseMessage` objects, and everything that LangChain takes in their place.

    An untouched message comes back as the same object. A touched one keeps its id, name, metadata,
    usage, artifact and every other content block; a changed tool call is changed in ``tool_calls``,
    ``additional_kwargs`` and the content blocks alike. Dicts (OpenAI or Anthropic style),
    ``("human", "hi")`` tuples and strings come back as messages. A `RemoveMessage` is an
    instruction and reads as nothing; `without_removed` carries it out.

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
        self._readers: dict[type, Callable[[Any, int], Entries]] = {}

    def read(self, message: Any, index: int) -> Entries:
        """Return the entries of one message."""
        reader = self._readers.get(message.__class__)
        if reader is None:
            reader = self._readers[message.__class__] = self._find_reader(message, index)
        return reader(message, index)

    def write(self, entries: Sequence[ConversationEntry]) -> list[BaseMessage]:
        """Return messages; untouched entries come back as the very objects they were read from."""
        out: list[Any] = []
        written = 0
        for position, entry in enumerate(entries):
            if position < written:
                continue  # read from the message before
            source = entry.source
            whole = count_untouched(entries, position) if isinstance(source, BaseMessage) else 0
            out.append(source if whole else self.snapshot(_write(entry)))
            written = position + whole
        return out

    def key_of(self, message: Any) -> Hashable:
        """Return exactly what a message says: equal keys read and write the same."""
        if not isinstance(message, BaseMessage):
            return freeze(message)
        fields = message.__dict__
        content, extra = fields.get("content"), message.__pydantic_extra__ or None
        if content.__class__ is str:
            fields = {**fields, "content": extra}  # the text is shared with the message
        elif extra:
            fields = {**fields, "__pydantic_extra__": extra}
        try:
            said: Any = marshal.dumps(fields, 0)  # plain data; version 0 shares no references
        except ValueError:
            said = freeze(fields)
        return (message.__class__, content if content.__class__ is str else None, said)

    def snapshot(self, message: Any) -> Any:
        """Return a private copy of a message, with every dict and list in it copied."""
        if not isinstance(message, BaseMessage):
            return copy_value(message)
        copy = message.model_copy()
        object.__setattr__(copy, "__dict__", copy_value(message.__dict__))
        object.__setattr__(copy, "__pydantic_extra__", copy_value(message.__pydantic_extra__))
        return copy

    def _find_reader(self, message: Any, index: int) -> Callable[[Any, int], Entries]:
        for kind, reader in _READERS:
            if isinstance(message, kind):
                return reader
        if isinstance(message, (str, tuple, list)):
            return self._read_as_message
        if isinstance(message, dict):
            return lambda one, at: (
                self._dicts.read(one, at) if "role" in one else self._read_as_message(one, at)
            )
        raise ConversionError(
            f"{a_type(message)} is not a message.",
            index=index,
            fix="pass BaseMessage objects, dicts with a role, ('human', 'hi') tuples or strings.",
        )

    def _read_as_message(self, message: Any, index: int) -> Entries:
        converted = None
        with suppress(Exception):  # its text quotes the message, so ours does not chain it
            converted = _convert(message)
        if converted is None:
            raise ConversionError(
                f"{_describe(message)} is not a message.",
                index=index,
                field="role" if isinstance(message, dict) else None,
                fix="write a dict with a role, ('human', 'hi'), or just the text.",
            )
        return tuple(replace(entry, source=message) for entry in self.read(converted, index))


FORMAT = LangChainFormat()

# Rows of tables and files: the core finds these functions by the entry point of this package.

to_json = message_to_dict


def from_json(data: dict[str, Any]) -> BaseMessage:
    """Return the message of a row."""
    return messages_from_dict([data])[0]


load = from_json


def dump(message: BaseMessage) -> dict[str, Any]:
    """Return the row of a message, without a tool's artifact, which holds its result again."""
    data = message_to_dict(message)
    if message.type == "tool":
        data["data"].pop("artifact", None)
    return data


def _convert(given: Any) -> BaseMessage:
    """Return the message LangChain makes of a string, a tuple or a stored message."""
    if isinstance(given, dict) and "data" in given and "type" in given:
        return from_json(given)
    return convert_to_messages([tuple(given) if isinstance(given, list) else given])[0]


def _describe(message: Any) -> str:
    """Return what was given in the place of a message, without its text."""
    if isinstance(message, dict):
        return f"a dict (it has: {', '.join(map(name_value, message)) or 'nothing'})"
    return a_type(message)


def without_removed(messages: Iterable[Any]) -> list[Any]:
    """Carry out every `RemoveMessage` the way langgraph's `add_messages` does.

    An id that is not there was removed before and is passed over.
    """
    given = messages if isinstance(messages, list) else list(messages)
    if RemoveMessage not in set(map(type, given)):
        return given
    left: list[Any] = []
    for message in given:
        if not isinstance(message, RemoveMessage):
            left.append(message)
        elif message.id == "__remove_all__":
            left.clear()
        else:
            left = [other for other in left if getattr(other, "id", None) != message.id]
    return left


def pin(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return copies of messages that every view keeps, such as few-shot examples.

    A pinned message stays whole and in its place, at any budget; a pinned
    tool call brings its results. The mark is a note for us: no provider is sent it.

    Examples:
        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> pin([HumanMessage("2 🦜 9"), AIMessage("11")])[0].additional_kwargs
        {'pinned': True}
    """
    return [
        one.model_copy(update={"additional_kwargs": {**one.additional_kwargs, "pinned": True}})
        for one in messages
    ]


# Reading: one function for each class of message.


def _read_plain(role: MessageRole, message: Any, index: int) -> Entries:
    fields = message.__dict__
    name, extra = fields["name"], fields["additional_kwargs"]
    rest = _read_content(fields["content"], index)
    if role is _TOOL:
        rest["tool_name"] = name
        rest["tool_call_id"], rest["status"] = fields["tool_call_id"], fields["status"]
    else:
        rest["name"] = name
    pinned = bool(extra) and bool(extra.get("pinned"))
    return (ConversationEntry(role, sequence=index, source=message, pinned=pinned, **rest),)


def _read_content(content: Any, index: int) -> dict[str, Any]:
    if isinstance(content, str):
        return {"content": content}
    fields = entry_fields(read_slots(content, index))
    return {"content": fields["content"], "parts": fields["parts"]}


def _read_human(message: Any, index: int) -> Entries:
    content = message.__dict__["content"]
    if isinstance(content, str) or not any(kind_of(block) == "result" for block in content):
        return _read_plain(_USER, message, index)
    # Anthropic's way: results as blocks of a user message, each an entry of its own.
    runs: list[list[Any]] = []
    for block in content:
        if kind_of(block) == "result" or not runs or kind_of(runs[-1][0]) == "result":
            runs.append([block])
        else:
            runs[-1].append(block)
    entries = []
    for place, run in enumerate(runs):
        block, role = run[0], _USER
        if kind_of(block) == "result":
            role = _TOOL
            rest = _read_content(block.get("content", block.get("output")) or "", index)
            rest["content"] = rest["content"] or ""
            rest["tool_call_id"] = str(block.get("tool_use_id") or block.get("call_id") or "")
            rest["status"] = "error" if block.get("is_error") else "success"
        else:
            rest = {**_read_content(run, index), "name": message.name}
        span = (place, len(runs))
        entries.append(ConversationEntry(role, sequence=index, source=message, span=span, **rest))
    return tuple(entries)


def _read_function(message: Any, index: int) -> Entries:
    return (
        ConversationEntry(
            _TOOL, message.text, sequence=index, source=message, tool_name=message.name
        ),
    )


def _read_chat(message: ChatMessage, index: int) -> Entries:
    # A role of some model's own, such as Granite's "control", is something the model is told.
    role = {**ROLES, "model": _ASSISTANT}.get(message.role.lower(), _USER)
    rest = _read_content(message.content, index)
    rest["content"] = rest["content"] or ""
    if role is _TOOL:
        rest["tool_call_id"] = message.additional_kwargs.get("tool_call_id")
        rest["tool_name"] = message.name
    else:
        spoken = message.role.lower()
        rest["name"] = message.name or ("orchestrator" if spoken == "orchestrator" else None)
    return (ConversationEntry(role, sequence=index, source=message, **rest),)


def _read_ai(message: Any, index: int) -> Entries:
    fields = message.__dict__
    content, extra = fields["content"], fields["additional_kwargs"]
    if isinstance(content, str):
        rest: dict[str, Any] = {"content": content}
    else:
        rest = entry_fields(read_slots(content, index))
    if fields["tool_calls"] or fields["invalid_tool_calls"] or extra or rest.get("tool_calls"):
        rest["tool_calls"] = read_calls(fields, rest.get("tool_calls") or ())
        if extra and not rest.get("reasoning"):
            rest["reasoning"] = read_reasoning_beside(extra)
    rest["content"] = rest["content"] or (None if rest.get("tool_calls") else "")
    pinned = bool(extra) and bool(extra.get("pinned"))
    name = fields["name"]
    return (
        ConversationEntry(
            _ASSISTANT, sequence=index, source=message, name=name, pinned=pinned, **rest
        ),
    )


_READERS: tuple[tuple[type, Callable[[Any, int], Entries]], ...] = (
    (AIMessage, _read_ai),
    (ToolMessage, partial(_read_plain, _TOOL)),
    (HumanMessage, _read_human),
    (SystemMessage, partial(_read_plain, _SYSTEM)),
    (RemoveMessage, lambda _message, _index: ()),
    (FunctionMessage, _read_function),
    (ChatMessage, _read_chat),
    (ConversationEntry, lambda entry, _index: (entry,)),
)

# Writing: messages for entries that were changed, invented, or read from something else.

_READ_KEYS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "id", "status"})


def _write(entry: ConversationEntry) -> BaseMessage:
    source = entry.source
    if source is None:
        return _build(entry)
    is_message = entry.span is None and isinstance(source, BaseMessage)
    message = source if is_message else _adopt(entry.root)
    return message if entry.original is None else _rewrite(message, entry)


def _build(
    entry: ConversationEntry, content: Any = None, extra: dict[str, Any] | None = None
) -> BaseMessage:
    """Return a new message for an entry, with what else is to stand beside its content."""
    if content is None:
        content = entry.content or ""
        if entry.parts is not None:
            content = list(map(write_part, update_text(entry)))
    extra = dict(extra or {})
    if entry.origin is not None:
        extra["history_curator"] = {"origin": entry.origin}
    common: dict[str, Any] = {"content": content, "additional_kwargs": extra}
    if entry.role is _TOOL:
        status, name = entry.status or "success", entry.tool_name
        call_id = entry.tool_call_id or ""
        return ToolMessage(tool_call_id=call_id, name=name, status=status, **common)
    if entry.role is _ASSISTANT:
        return AIMessage(name=entry.name, **common, **write_rows(entry.tool_calls or ()))
    kind = HumanMessage if entry.role is _USER else SystemMessage
    return kind(name=entry.name, **common)


def _adopt(entry: ConversationEntry) -> BaseMessage:
    """Return the message for an entry read from a dict, a text, or one block of a message."""
    source = entry.source
    if isinstance(source, ConversationEntry):
        return _write(source)
    if isinstance(source, BaseMessage) or entry.span is not None:
        return _build(entry)
    if not isinstance(source, dict) or "role" not in source:
        return _convert(source)
    content, rows = source.get("content"), source.get("tool_calls")
    extra = {key: value for key, value in source.items() if key not in _READ_KEYS}
    if source["role"] == "developer":
        extra["__openai_role__"] = "developer"
    if rows and isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        extra["tool_calls"] = rows
    message = _build(entry, content if isinstance(content, (str, list)) else None, extra)
    if isinstance(source.get("id"), str):
        message.id = source["id"]
    return message


def _rewrite(message: BaseMessage, entry: ConversationEntry) -> BaseMessage:
    """Return a copy of a message that says what the entry now says, and keeps everything else."""
    update: dict[str, Any] = {}
    if isinstance(message, FunctionMessage):
        new = _build(entry, extra=message.additional_kwargs)
        return new.model_copy(
            update={"id": message.id, "response_metadata": message.response_metadata}
        )
    if isinstance(message, ToolMessage):
        update = {"tool_call_id": entry.tool_call_id or "", "name": entry.tool_name}
        update["status"] = entry.status or message.status
        if message.artifact is not None and _is_without_result(entry):
            update["artifact"] = None
    elif entry.name != entry.root.name:  # a ChatMessage may be read under another name
        update["name"] = entry.name
    if isinstance(message, AIMessage):
        update |= _rewrite_answer(message, entry)
    else:
        update["content"] = write_content(message.content, entry)
    return message.model_copy(update=update)


def _rewrite_answer(message: AIMessage, entry: ConversationEntry) -> dict[str, Any]:
    before = entry.root
    fields, calls = write_calls(message, before.tool_calls or (), entry.tool_calls or ())
    fields["content"] = write_content(message.content, entry, calls)
    if len(entry.reasoning or ()) < len(before.reasoning or ()):
        extra = fields.get("additional_kwargs", message.additional_kwargs)
        fields["additional_kwargs"] = free_items_beside(extra)
        fields["content"] = free_items(fields["content"])
        if is_item(message.id):
            fields["id"] = None
    return fields


def _is_without_result(entry: ConversationEntry) -> bool:
    """Whether retention reduced a result to name and status; its artifact is the result too."""
    said = parse_object(entry.content or "") if entry.action == "cleared" else None
    return said is not None and said.keys() == {"name", "status"}
