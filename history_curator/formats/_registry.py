"""Find the format of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from history_curator.formats._bedrock import BedrockFormat
from history_curator.formats._dicts import DictFormat
from history_curator.formats._entries import EntryFormat
from history_curator.formats._formats import Format, format_of
from history_curator.formats._gemini import GeminiFormat
from history_curator.formats._protocol import MessageFormat, Gathered
from history_curator.formats._responses import ResponsesFormat
from history_curator.errors import ConversionError
from history_curator.entries import ConversationEntry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_FORMATS: dict[Format, MessageFormat] = {
    "dicts": DictFormat(),
    "responses": ResponsesFormat(),
    "gemini": GeminiFormat(),
    "bedrock": BedrockFormat(),
}
_ENTRIES = EntryFormat()

_registered: dict[type, MessageFormat] = {}


@lru_cache(maxsize=1)
def adapters() -> Mapping[str, EntryPoint]:
    """Return the installed adapters, by the root module of their framework's message classes.

    An adapter says so itself, by an entry point of the group ``history_curator.formats``. What it
    names is a module with a ``DIALECT``, and with ``to_json``, ``from_json``, ``load`` and ``dump``
    for messages in files and in tables. It is loaded when one of its messages shows up.
    """
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group="history_curator.formats")}


def adapter_of(message: Any) -> EntryPoint | None:
    """Return the adapter that knows the class of a message, if one is installed."""
    known = adapters()
    roots = (base.__module__.partition(".")[0] for base in type(message).__mro__)
    return next((known[root] for root in roots if root in known), None)


def register_format(message_type: type, format: MessageFormat) -> None:
    """Teach the curator to read a message class of your own."""
    _registered[message_type] = format


def read_entries(
    messages: Iterable[Any], format: MessageFormat | None = None, *, start: int = 0
) -> list[ConversationEntry]:
    """Return messages of any format as entries; entries, and a session's, as they are.

    Args:
        messages: a conversation.
        format: how to read it; found from the messages when not given.
        start: the place of the first message, where others come before it.
    """
    given = list(getattr(messages, "entries", messages))
    if format is None:
        if given and isinstance(given[0], ConversationEntry):
            return given
        format = detect(given)
    return [entry for _, entry in read_placed(given, format, start=start)]


def read_placed(
    messages: Sequence[Any], format: MessageFormat, *, start: int = 0
) -> list[tuple[int, ConversationEntry]]:
    """Return the entries of a conversation, each with the place of its message."""
    placed: list[tuple[int, ConversationEntry]] = []
    place = start
    for message in gathered(messages, format):
        placed += [(place, entry) for entry in format.read(message, place)]
        place += len(message) if message.__class__ is Gathered else 1
    return placed


def gathered(messages: Sequence[Any], format: MessageFormat) -> Sequence[Any]:
    """Return what a format reads: messages, some of them gathered to one.

    A format of your own needs no `gather`.
    """
    gather = getattr(format, "gather", None)
    return messages if gather is None else gather(messages)


def scattered(messages: Sequence[Any]) -> list[Any]:
    """Return what was gathered as the single messages it is made of."""
    if Gathered not in set(map(type, messages)):
        return list(messages)
    out: list[Any] = []
    for message in messages:
        if message.__class__ is Gathered:
            out += message
        else:
            out.append(message)
    return out


def detect(messages: Sequence[Any], provider: str | None = None) -> MessageFormat:
    """Return the format that reads these messages.

    Objects are told by the class of the first one. Dicts are told apart by what only one format
    has, wherever it stands in the conversation.

    Args:
        messages: a conversation.
        provider: the name of the profile they are for, where it is known; it decides where the
            messages could be of two formats.

    Raises:
        ConversionError: when the messages are not a list, or of no known kind.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise ConversionError(
            f"expected a list of messages, got {type(messages).__name__}.",
            fix="pass a list; wrap a single message in one.",
        )
    if not messages:
        return _FORMATS["dicts"]
    first = messages[0]
    kind = type(first)
    known = _registered.get(kind)
    if known is not None:
        return known
    if isinstance(first, Mapping):
        return _FORMATS[format_of(messages, provider)]
    if isinstance(first, ConversationEntry):
        return _ENTRIES
    adapter = adapter_of(first)
    if adapter is not None:
        format: MessageFormat = adapter.load().DIALECT
        register_format(kind, format)
        return format
    raise ConversionError(
        f"cannot read a message of type {kind.__name__}.",
        index=0,
        fix="pass dicts as OpenAI, Anthropic, Gemini or Bedrock take them, ConversationEntry "
        "objects, messages of a framework whose adapter is installed, or register a format.",
    )
