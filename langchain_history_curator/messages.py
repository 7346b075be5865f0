"""LangChain messages to entries and back, losing nothing on the way."""

from __future__ import annotations

import marshal
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, singledispatch
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    message_to_dict,
    messages_from_dict,
)

from history_curator.entries import ConversationEntry, MessageRole
from history_curator.errors import ConversionError, a_type
from history_curator.formats import (
    ROLES,
    DictFormat,
    copy_value,
    count_untouched,
    freeze,
    update_text,
    write_part,
)
from history_curator.formats.blocks import entry_fields
from langchain_history_curator import blocks

Entries = tuple[ConversationEntry, ...]
_USER, _SYSTEM = MessageRole.USER, MessageRole.SYSTEM
_ASSISTANT, _TOOL = MessageRole.ASSISTANT, MessageRole.TOOL
_DICTS = DictFormat()


class LangChainFormat:
    """Reads and writes `BaseMessage` objects.

    An untouched message comes back as the same object. A touched one keeps its id, name, metadata,
    usage and every other content block; its calls are changed wherever it lists them.

    Examples:
        >>> from langchain_core.messages import HumanMessage
        >>> format = LangChainFormat()
        >>> message = HumanMessage("hello")
        >>> format.write(format.read(message, 0))[0] is message
        True
    """

    name = "langchain"

    def read(self, message: Any, index: int) -> Entries:
        """Return the entries of one message."""
        return _read(message, index)

    def write(self, entries: Sequence[ConversationEntry]) -> list[BaseMessage]:
        """Return messages; untouched entries come back as the very objects they were read from."""
        out: list[Any] = []
        written = 0
        for position, entry in enumerate(entries):
            if position < written:
                continue  # read from the message before
            whole = count_untouched(entries, position)
            out.append(entry.source if whole else self.snapshot(_write(entry)))
            written = position + whole
        return out

    def key_of(self, message: Any) -> Hashable:
        """Return exactly what a message says: equal keys read and write the same."""
        if not isinstance(message, BaseMessage):
            raise TypeError(a_type(message))  # `read` says it better
        fields, extra = dict(message.__dict__), message.__pydantic_extra__ or None
        text = fields.pop("content") if fields["content"].__class__ is str else None
        try:
            said: Any = marshal.dumps((fields, extra), 0)  # plain data, without references
        except ValueError:
            said = freeze((fields, extra))
        return (message.__class__, text, said)  # the text is shared with the message

    def snapshot(self, message: Any) -> Any:
        """Return a private copy of a message, with every dict and list in it copied."""
        copy = message.model_copy()
        object.__setattr__(copy, "__dict__", copy_value(message.__dict__))
        object.__setattr__(copy, "__pydantic_extra__", copy_value(message.__pydantic_extra__))
        return copy


FORMAT = LangChainFormat()

# The core finds the next two, for rows of tables, by the entry point of this package.


def load(data: dict[str, Any]) -> BaseMessage:
    """Return the message of a row."""
    return messages_from_dict([data])[0]


def dump(message: BaseMessage) -> dict[str, Any]:
    """Return the row of a message, without a tool's artifact, which holds its result again."""
    data = message_to_dict(message)
    if message.type == "tool":
        data["data"].pop("artifact", None)
    return data


def as_messages(given: Any, index: int) -> list[Any]:
    """Return the messages for what LangChain takes in place of one: a dict, a tuple or a text."""
    if isinstance(given, BaseMessage):
        return [given]
    if isinstance(given, dict) and "role" in given:
        return [_adopt(entry) for entry in _DICTS.read(given, index)]
    with suppress(Exception):  # what cannot be converted is refused when it is read
        return convert_to_messages([tuple(given) if isinstance(given, list) else given])
    return [given]


def pin(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return copies of messages that every view keeps, such as few-shot examples.

    They stay whole and in place at any budget; a pinned tool call brings its results.
    """
    return [
        one.model_copy(update={"additional_kwargs": {**one.additional_kwargs, "pinned": True}})
        for one in messages
    ]


def _read_message(role: MessageRole, message: Any, index: int) -> Entries:
    fields = message.__dict__
    extra, name, content = fields["additional_kwargs"], fields["name"], fields["content"]
    rest: dict[str, Any] = {"content": content}
    if not isinstance(content, str):
        rest = entry_fields(blocks.read_slots(content, index))
    in_blocks = rest.pop("tool_calls", None) or ()
    if role is _ASSISTANT:
        calls = blocks.read_calls(fields, in_blocks)
        rest["tool_calls"], rest["name"] = calls, name
        rest["content"] = rest["content"] or (None if calls else "")
        rest["reasoning"] = rest.get("reasoning") or blocks.read_reasoning_beside(extra)
    elif role is _TOOL:
        rest["tool_name"], rest["status"] = name, fields.get("status")
        rest["tool_call_id"] = fields.get("tool_call_id", extra.get("tool_call_id"))
    else:
        rest["name"] = name
    # The server's own summary of what was before it stays where it stands.
    pinned = bool(extra.get("pinned")) or (role is _ASSISTANT and blocks.has_compaction(content))
    return (ConversationEntry(role, sequence=index, source=message, pinned=pinned, **rest),)


def _read_human(message: Any, index: int) -> Entries:
    content = message.__dict__["content"]
    if isinstance(content, str) or not any(blocks.kind_of(block) == "result" for block in content):
        return _read_message(_USER, message, index)
    # Anthropic's way: results as blocks of a user message, each an entry of its own.
    entries = _DICTS.read({"role": "user", "content": content, "name": message.name}, index)
    return tuple(replace(entry, source=message) for entry in entries)


@singledispatch
def _read(message: Any, index: int) -> Entries:
    raise ConversionError(
        f"{a_type(message)} is not a message.",
        index=index,
        field="role" if isinstance(message, dict) else None,
        fix="pass messages (not of functions), dicts with a role, ('human', 'hi'), or just texts.",
    )


def _read_chat(message: ChatMessage, index: int) -> Entries:
    # A role of some model's own, such as Granite's "control", is something the model is told.
    role = {**ROLES, "model": _ASSISTANT}.get(message.role.lower(), _USER)
    return _read_message(role, message, index)


_read.register(AIMessage, partial(_read_message, _ASSISTANT))
_read.register(ToolMessage, partial(_read_message, _TOOL))
_read.register(HumanMessage, _read_human)
_read.register(SystemMessage, partial(_read_message, _SYSTEM))
_read.register(RemoveMessage, lambda _message, _index: ())
_read.register(ChatMessage, _read_chat)

_READ_KEYS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "id", "status"})


def _write(entry: ConversationEntry) -> BaseMessage:
    if entry.source is None:
        return _build(entry)
    message = entry.source if entry.span is None else _build(entry.root)  # one block of a message
    return message if entry.original is None else _rewrite(message, entry)


def _build(entry: ConversationEntry, **more: Any) -> BaseMessage:
    """Return a new message for an entry; `more` are other fields, such as another content."""
    content: Any = entry.content or ""
    if entry.parts is not None:
        content = list(map(write_part, update_text(entry)))
    fields: dict[str, Any] = {"content": content, "name": entry.name, **more}
    if entry.origin is not None:
        fields["additional_kwargs"] = {"history_curator": {"origin": entry.origin}}
    if entry.role is _TOOL:
        fields |= {"tool_call_id": entry.tool_call_id or "", "name": entry.tool_name}
        return ToolMessage(status=entry.status or "success", **fields)
    if entry.role is _ASSISTANT:
        return AIMessage(**fields, **blocks.write_rows(entry.tool_calls or ()))
    return (HumanMessage if entry.role is _USER else SystemMessage)(**fields)


def _adopt(entry: ConversationEntry) -> BaseMessage:
    """Return the message for an entry read from a dict, or from one block of it."""
    if entry.span is not None:
        return _build(entry)
    source: Any = entry.source
    more: dict[str, Any] = {"id": source["id"]} if isinstance(source.get("id"), str) else {}
    if isinstance(source.get("content"), (str, list)):
        more["content"] = source["content"]
    extra = {key: value for key, value in source.items() if key not in _READ_KEYS}
    if source["role"] == "developer":
        extra["__openai_role__"] = "developer"
    return _build(entry, additional_kwargs=extra, **more)


def _rewrite(message: BaseMessage, entry: ConversationEntry) -> BaseMessage:
    """Return a copy of a message that says what the entry now says, and keeps everything else."""
    if isinstance(message, AIMessage):
        return message.model_copy(update={"name": entry.name, **_rewrite_answer(message, entry)})
    update: dict[str, Any] = {"content": blocks.write_content(message.content, entry)}
    if isinstance(message, ToolMessage):
        update |= {"tool_call_id": entry.tool_call_id or "", "name": entry.tool_name}
        update["status"] = entry.status or message.status
        if entry.action == "cleared":
            update["artifact"] = None  # it holds the result again
    else:
        update["name"] = entry.name
    return message.model_copy(update=update)


def _rewrite_answer(message: AIMessage, entry: ConversationEntry) -> dict[str, Any]:
    old, new = entry.root.tool_calls or (), entry.tool_calls or ()
    content = blocks.write_content(message.content, entry, keeps_calls=new == old)
    fields: dict[str, Any] = {"content": content}
    extra = message.additional_kwargs
    if new != old:
        # By place; where some left, those that stay have their ids.
        pairs = zip(old if len(old) == len(new) else new, new, strict=True)
        ids = {before.id: after.id for before, after in pairs}
        fields["additional_kwargs"] = extra = _write_beside(extra, {each.id for each in old}, ids)
        fields |= blocks.write_rows(new)
    if len(entry.reasoning or ()) < len(entry.root.reasoning or ()):
        fields["content"], fields["id"] = blocks.free_items(content), None
        fields["additional_kwargs"] = {key: extra[key] for key in ("pinned",) if key in extra}
    return fields


def _write_beside(extra: dict[str, Any], old: set[str], ids: dict[str, str]) -> dict[str, Any]:
    """Return ``additional_kwargs`` without calls of its own, and its tables by call id for others."""
    changed = {k: v for k, v in extra.items() if k != "tool_calls"}
    for key, table in changed.items():
        if isinstance(table, dict) and not old.isdisjoint(table):
            left = {name: item for name, item in table.items() if name in ids or name not in old}
            changed[key] = {ids.get(name, name): item for name, item in left.items()}
    return changed
