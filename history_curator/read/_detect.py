"""Find the dialect of a conversation from its first message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from history_curator.dialect import Dialect
from history_curator.errors import ConversionError
from history_curator.model import ConversationEntry
from history_curator.read._dicts import DictDialect
from history_curator.read._entries import EntryDialect

_DICTS = DictDialect()
_ENTRIES = EntryDialect()

# Root module of a framework's message classes -> where its dialect lives. The adapters are only
# imported when one of their messages shows up, so the core depends on no framework.
_ADAPTERS: dict[str, tuple[str, str]] = {
    "langchain_core": ("langchain_history_curator._dialect", "LangChainDialect"),
    "llama_index": ("llamaindex_history_curator._dialect", "LlamaIndexDialect"),
}
_registered: dict[type, Dialect] = {}


def register_dialect(message_type: type, dialect: Dialect) -> None:
    """Teach the curator to read a message class of your own."""
    _registered[message_type] = dialect


def read_entries(messages: Iterable[Any]) -> list[ConversationEntry]:
    """Return messages of any dialect as entries; entries, and a session's, as they are."""
    given = list(getattr(messages, "entries", messages))
    if given and isinstance(given[0], ConversationEntry):
        return given
    dialect = detect(given)
    return [entry for index, message in enumerate(given) for entry in dialect.read(message, index)]


def detect(messages: Sequence[Any]) -> Dialect:
    """Return the dialect that reads these messages.

    Raises:
        ConversionError: when the messages are not a list, or of no known kind.
    """
    if messages.__class__ is list:
        if messages and messages[0].__class__ is dict:
            return _registered.get(dict, _DICTS)
    elif isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise ConversionError(
            f"expected a list of messages, got {type(messages).__name__}.",
            fix="pass a list; wrap a single message in one.",
        )
    if not messages:
        return _DICTS
    first = messages[0]
    kind = type(first)
    known = _registered.get(kind)
    if known is not None:
        return known
    if isinstance(first, Mapping):
        return _DICTS
    if isinstance(first, ConversationEntry):
        return _ENTRIES
    for base in kind.__mro__:
        adapter = _ADAPTERS.get(base.__module__.split(".", 1)[0])
        if adapter is not None:
            dialect: Dialect = getattr(import_module(adapter[0]), adapter[1])()
            register_dialect(kind, dialect)
            return dialect
    raise ConversionError(
        f"cannot read a message of type {kind.__name__}.",
        index=0,
        fix="pass OpenAI- or Anthropic-style dicts, ConversationEntry objects, LangChain or "
        "LlamaIndex messages, or register a dialect for the type.",
    )
