"""Messages as dicts with a role and content: Chat Completions and Anthropic, also in one list."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from history_curator.formats import _anthropic, _chat
from history_curator.formats._fields import Reading
from history_curator.formats._protocol import copied, key_of_dict
from history_curator.formats._slots import Known
from history_curator.entries import ConversationEntry, MessageRole

__all__ = ["DictFormat", "whole_source"]

_TOOL = MessageRole.TOOL
_DICTS = {dict}


class DictFormat:
    """Messages as dicts, as the OpenAI and Anthropic clients take them.

    Each message is written in the style it was read in, and a result in the style of its call.

    Examples:
        >>> entries = DictFormat().read({"role": "user", "content": "hi"}, 0)
        >>> entries[0].role, entries[0].content
        (<MessageRole.USER: 'user'>, 'hi')
    """

    name = "dicts"

    def gather(self, messages: Sequence[Any]) -> Sequence[Any]:
        """Every dict is a message."""
        return messages

    def read(self, message: Any, index: int) -> tuple[ConversationEntry, ...]:
        """Return the entries of one dict."""
        plain = _chat.read_plain(message, index)
        if plain is not None:
            return (plain,)
        reading = Reading(index)
        if not isinstance(message, Mapping):
            raise reading.error(
                f"expected a mapping, got {type(message).__name__}.",
                None,
                'pass {"role": …, "content": …}; one list holds one kind of message.',
            )
        role = _chat.read_role(message, reading)
        if _anthropic.has_blocks(message):
            return _anthropic.read_blocks(message, role, reading)
        return (_chat.read_message(message, role, reading),)

    def write(self, entries: Sequence[ConversationEntry]) -> list[Any]:
        """Return dicts; untouched ones are the same objects."""
        out: list[Any] = []
        behind, blocks = 0, None
        others = _prefers_blocks(entries)
        known: Known = {}
        for position, entry in enumerate(entries):
            if position < behind:
                continue  # written together with the one before
            is_tool = entry.role is _TOOL
            if not is_tool:
                blocks = _anthropic.in_blocks(entry, others) if entry.tool_calls else None
            untouched = entry.original is None and entry.source is not None
            if untouched and entry.span is None and not (blocks and is_tool):  # most are
                out.append(entry.source)
                continue
            behind = position + whole_source(entries, position)
            if behind > position and (not blocks or not is_tool or _in_block(entry)):
                out.append(entry.source)
            elif is_tool and (_in_block(entry) if blocks is None else blocks):
                behind = _end_of_results(entries, position)
                out.append(_anthropic.write_results(entries[position:behind], known))
            else:
                out.append(_written(entry, others, known))
                behind = position + 1
        return out

    def key_of(self, message: Any) -> Hashable:
        """Return what a message says, exactly."""
        return key_of_dict(message)

    def peek(self, messages: Sequence[Any]) -> list[Any]:
        """Return the messages as dicts."""
        if {*map(type, messages)} <= _DICTS:
            return list(messages)
        return [
            message if message.__class__ is dict else dict(message)  # any other mapping
            for message in messages
        ]

    def snapshot(self, message: Any) -> Any:
        """Return a copy of the message that shares its texts."""
        return copied(message if message.__class__ is dict else dict(message))


def whole_source(entries: Sequence[ConversationEntry], position: int) -> int:
    """How many entries from here on are exactly one untouched source message."""
    first = entries[position]
    if first.original is not None or first.source is None:
        return 0
    if first.span is None:
        return 1
    place, count = first.span
    run = entries[position : position + count]
    if place or len(run) < count:
        return 0
    for step, entry in enumerate(run):
        if entry.source is not first.source or entry.original is not None:
            return 0
        if entry.span is None or entry.span[0] != step:
            return 0
    return count


def _prefers_blocks(entries: Sequence[ConversationEntry]) -> bool:
    """Whether what was invented is written as blocks: the calls that were read are."""
    for entry in entries:
        if entry.tool_calls and entry.source is not None:
            return _anthropic.in_blocks(entry)
    return False


def _written(entry: ConversationEntry, others: bool, known: Known) -> Any:
    """The message of an edited entry, which shares nothing with the one it was read from."""
    return copied(_write(entry, others, known))


def _write(entry: ConversationEntry, others: bool, known: Known) -> dict[str, Any]:
    if entry.role is MessageRole.ASSISTANT and _anthropic.in_blocks(entry, others):
        return _anthropic.write_said(entry, known)
    return _chat.write_message(entry, keep=not _anthropic.speaks_blocks(entry.source))


def _in_block(entry: ConversationEntry) -> bool:
    """Whether a result was read from a block."""
    return entry.span is not None


def _end_of_results(entries: Sequence[ConversationEntry], position: int) -> int:
    """Where a run of results ends that are written as one message."""
    end = position + 1
    while (
        end < len(entries)
        and entries[end].role is _TOOL
        and not (_in_block(entries[end]) and whole_source(entries, end))
    ):
        end += 1
    return end
