"""Wire formats: find the format of a list of messages, and which format an entry was read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from history_curator.entries import ConversationEntry, MessageRole, ToolCall
from history_curator.errors import ConversionError
from history_curator.formats.anthropic import (
    DictFormat,
    entry_to_provider_message,
    provider_message_to_entry,
)
from history_curator.formats.base import (
    MARKS,
    MappingFormat,
    MessageFormat,
    MessageGroup,
    arguments_text,
    as_mapping,
    copy_value,
    count_untouched,
    find_marks,
    freeze,
    parse_json,
    parse_object,
    type_of,
    unreadable,
    without_mark,
)
from history_curator.formats.bedrock import BEDROCK_BLOCKS, BedrockFormat
from history_curator.formats.blocks import join_text, read_part, update_text, write_part
from history_curator.formats.gemini import GeminiFormat
from history_curator.formats.images import image_size
from history_curator.formats.openai_chat import ROLES
from history_curator.formats.openai_responses import (
    ANONYMOUS,
    RESPONSE_BLOCKS,
    RESPONSE_ITEMS,
    ResponsesFormat,
    count_trailing_reasoning,
    item_ids,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "ANONYMOUS", "MARKS", "RESPONSE_ITEMS", "ROLES", "BedrockFormat",
    "DictFormat", "GeminiFormat", "MessageFormat", "MessageGroup", "ResponsesFormat",
    "arguments_text", "copy_value", "count_trailing_reasoning", "count_untouched",
    "entry_to_provider_message", "find_format", "freeze", "image_size", "item_ids", "join_text",
    "parse_json", "parse_object", "provider_message_to_entry", "read_part",
    "update_text", "without_mark", "write_part",
]  # fmt: skip

Wire = Literal["chat", "anthropic", "responses", "gemini", "bedrock"]
_CHAT_BLOCKS = frozenset(
    ("text", "image_url", "input_audio", "file", "image", "document", "tool_use", "tool_result")
)
"""Blocks of Chat Completions and Anthropic; any other may be new in any format."""
_CHAT_KEYS = frozenset(("tool_calls", "tool_call_id", "function_call"))
_BY_FORM: dict[str | None, Wire] = {"gemini": "gemini", "responses": "responses"}
"""Formats that a message shows by its form alone."""
_OBJECTS: tuple[Wire, ...] = ("anthropic", "gemini", "bedrock")
"""Formats in which the arguments of a call are an object."""


class EntryFormat(MappingFormat):
    """Messages that are entries already."""

    name = "entries"

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entry itself."""
        if isinstance(message, ConversationEntry):
            return (message,)
        problem = f"expected a ConversationEntry, got {type(message).__name__}."
        raise ConversionError(problem, index=index, fix="one list holds one kind of message.")

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return the entries."""
        return list(entries)


_FORMATS: dict[str, MessageFormat] = {
    "dicts": DictFormat(),
    "responses": ResponsesFormat(),
    "gemini": GeminiFormat(),
    "bedrock": BedrockFormat(),
}
_ENTRIES = EntryFormat()


@lru_cache(maxsize=1)
def adapters() -> Mapping[str, EntryPoint]:
    """Return the installed adapters, by the root module of their framework's message classes.

    They are entry points of the group ``history_curator.formats``, and name a module with a
    ``FORMAT``, and with ``load`` and ``dump`` for messages in tables.
    """
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group="history_curator.formats")}


def adapter_of(message: Any) -> EntryPoint | None:
    """Return the adapter that knows the class of a message, if one is installed."""
    known = adapters()
    roots = (base.__module__.partition(".")[0] for base in type(message).__mro__)
    return next((known[root] for root in roots if root in known), None)


def read_entries(
    messages: Iterable[Any], format: MessageFormat | None = None, *, start: int = 0
) -> list[ConversationEntry]:
    """Return messages of any format as entries; entries, and a session's, as they are.

    `start` is the index of the first message, where others come before it.
    """
    given = list(getattr(messages, "entries", messages))
    if format is None and given and isinstance(given[0], ConversationEntry):
        return given
    return [entry for _, entry in read_placed(given, format or find_format(given), start=start)]


def read_placed(
    messages: Sequence[Any], format: MessageFormat, *, start: int = 0
) -> list[tuple[int, ConversationEntry]]:
    """Return the entries of a conversation, each with the index of its message."""
    placed: list[tuple[int, ConversationEntry]] = []
    index = start
    for message in group_response_items(messages, format):
        placed += [(index, entry) for entry in format.read(message, index)]
        index += len(message) if message.__class__ is MessageGroup else 1
    return placed


def group_response_items(messages: Sequence[Any], format: MessageFormat) -> Sequence[Any]:
    """Return the messages with those that a format reads as one in a `MessageGroup`."""
    gather = getattr(format, "gather", None)
    try:
        grouped: Sequence[Any] = messages if gather is None else gather(messages)
    except Exception as error:
        raise unreadable(error, None) from error
    return grouped


def ungroup_items(messages: Sequence[Any]) -> list[Any]:
    """Return messages with every group as the single messages it is made of."""
    groups = (each if each.__class__ is MessageGroup else (each,) for each in messages)
    return [message for group in groups for message in group]


def find_format(messages: Sequence[Any], provider: str | None = None) -> MessageFormat:
    """Return the format that reads these messages, for a provider where it is known.

    Objects are known by the class of the first one. Dicts are told apart by fields that only one
    format has, wherever they stand in the conversation.

    Raises:
        ConversionError: when the messages are not a list, or of no known kind.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        problem, fix = type(messages).__name__, "pass a list of messages."
        if isinstance(messages, str):
            fix = 'pass [{"role": "user", "content": …}].'
        for name in ("messages", "input", "contents"):
            if isinstance(messages, Mapping) and name in messages:
                fix = f'pass its "{name}".'
        raise ConversionError(f"expected a list of messages, got {problem}.", fix=fix)
    first = messages[0] if messages else {}
    if isinstance(first, Mapping):
        return _FORMATS[format_of(messages, provider)]
    if isinstance(first, ConversationEntry):
        return _ENTRIES
    adapter = adapter_of(first)
    if adapter is None:
        problem = f"cannot read a message of type {type(first).__name__}."
        fix = (
            "pass dicts as OpenAI, Anthropic, Gemini or Bedrock take them, ConversationEntry "
            "objects, messages of a framework whose adapter is installed, or give a format."
        )
        raise ConversionError(problem, index=0, fix=fix)
    found: MessageFormat = adapter.load().FORMAT
    return found


def format_of(messages: Sequence[Any], provider: str | None = None) -> str:
    """Return the name of the format of dicts, from the first message that can be of one only.

    Where there is none, texts in blocks without a type are Bedrock's, unless the provider has
    another format; lists of nothing are Bedrock's where it is the provider.
    """
    untyped = False
    for index, message in enumerate(messages):
        try:
            found = _format_of_message(message)
        except Exception as error:
            raise unreadable(error, index) from error
        if found == "untyped":
            untyped = True
        elif found is not None:
            return found
    if provider == "bedrock":
        contents = [as_mapping(each).get("content") for each in messages]
        untyped = untyped or all(isinstance(each, (list, tuple)) for each in contents)
    is_other = provider in ("openai", "openai-responses", "anthropic", "mistral")
    return "bedrock" if untyped and not is_other else "dicts"


def _format_of_message(message: Any) -> str | None:
    """Return the format that only this message can be of, or "untyped" for nameless blocks."""
    if not isinstance(message, Mapping):
        return None
    role, content, kind = message.get("role"), message.get("content"), message.get("type")
    has_chat_keys = not _CHAT_KEYS.isdisjoint(message)
    if isinstance(content, str):
        if has_chat_keys or role in ("tool", "function"):
            return "dicts"
        return "responses" if role is not None and kind == "message" else None
    if has_chat_keys and "type" not in message:
        return "dicts"
    if content is None:
        if isinstance(message.get("parts"), (list, tuple)):
            return "gemini"
        return "responses" if isinstance(kind, str) and role is None else None
    found = _format_of_blocks(content) if isinstance(content, (list, tuple)) else None
    if kind == "message" and found in (None, "untyped", "refused"):
        # Answers of Anthropic are of this type, too.
        return "responses" if found is not None or role != "assistant" else None
    return None if found == "refused" else found


def _format_of_blocks(blocks: Sequence[Any]) -> str | None:
    """Return a format, "untyped", or "refused": both formats of OpenAI have refusals."""
    found = None
    for block in blocks:
        kind = type_of(block)
        if kind in RESPONSE_BLOCKS:
            return "responses"
        if kind in _CHAT_BLOCKS:
            return "dicts"
        if kind == "refusal":
            found = "refused"
        elif isinstance(block, Mapping) and not kind:
            if not BEDROCK_BLOCKS.isdisjoint(block):
                return "bedrock"
            if found is None and block and "type" not in block:
                found = "untyped"
    return found


def wire_of(entry: ConversationEntry) -> Wire | None:
    """Return the format of the message an entry was read from.

    None where there is none, where it is of a framework, or would be the same in several formats.
    """
    source: Any = entry.root.source
    if source.__class__ is MessageGroup:
        return "responses"
    if not isinstance(source, (dict, Mapping)):
        return None
    found = _format_of_message(source)
    if found in _BY_FORM:
        return _BY_FORM[found]
    if entry.role is MessageRole.TOOL and entry.span is None:
        return "chat"
    if found in ("bedrock", "untyped"):
        return "bedrock"
    if entry.role is MessageRole.TOOL:
        return "anthropic"
    if not entry.tool_calls:
        return None
    extra = entry.tool_calls[0].extra or {}
    return next((wire for wire in _OBJECTS if wire in extra), "chat")


def thinks_late(entry: ConversationEntry) -> bool:
    """Return whether text stands before the thinking of an answer of Anthropic that has calls.

    An edited answer is written with its thinking first.
    """
    if not (entry.reasoning and entry.tool_calls) or entry.original is not None:
        return False
    blocks = entry.source.get("content") if isinstance(entry.source, Mapping) else None
    kinds = [type_of(block) or next(iter(block), "") for block in blocks or () if block]
    thoughts = [kind in ("thinking", "redacted_thinking", "reasoningContent") for kind in kinds]
    return any(thoughts) and not thoughts[0]


def find_cache_marks(entry: ConversationEntry) -> list[str]:
    """Return how long each cache mark among the blocks of an entry lasts: "5m" or "1h"."""
    blocks = [part.raw for part in entry.parts or ()]
    extras = [call.extra for call in entry.tool_calls or () if call.extra]
    blocks += [extra["anthropic"] for extra in extras if "anthropic" in extra]
    marks = (entry.metadata or {}).get(MARKS, ())
    return [*find_marks(blocks), *marks] if blocks or marks else []


def has_object_arguments(call: ToolCall) -> bool:
    """Return whether the arguments of a call are an object on the wire, and not a text."""
    return any(wire in (call.extra or ()) for wire in _OBJECTS)


def has_call_ids(call: ToolCall) -> bool:
    """Return whether a call has its id on the wire; Gemini tells calls apart by name and order."""
    return not ((call.extra or {}).get("gemini") or {}).get("nameless")
