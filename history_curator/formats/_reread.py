"""What a view says once it is written: read it again, and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

from history_curator.formats._protocol import MessageFormat
from history_curator.formats._registry import read_entries, scattered
from history_curator.formats._wire import names_its_calls, wire_of
from history_curator.entries import ConversationEntry


def reread(
    format: MessageFormat,
    entries: Sequence[ConversationEntry],
    count: Callable[[ConversationEntry], int] | None = None,
) -> Sequence[ConversationEntry]:
    """Return entries as they are read once they were written.

    The very sequence that was given where every entry says the same afterwards; that is the case
    for whatever was read, edited or invented by the rules and the managers of this library. Else
    a list in which those that say the same are the ones given. Doing it twice changes nothing
    more. The entries of one unit can be looked at by themselves: how an entry is written depends
    on the calls it answers, and, in lists that mix formats, on the format of the others.

    Args:
        format: the format they are written in.
        entries: a view, or a part of it.
        count: the tokens of an entry, where those have to be the same, too.

    Raises:
        ConversionError: when what was written cannot be read, which is an error of the format.

    Examples:
        >>> from history_curator.formats import DictFormat
        >>> asked = DictFormat().read({"role": "user", "content": "hi"}, 0)
        >>> reread(DictFormat(), asked) is asked
        True
    """
    again = read_entries(scattered(format.write(entries)), format)

    def alike(old: ConversationEntry, new: ConversationEntry) -> bool:
        return says_the_same(old, new) and (count is None or count(old) == count(new))

    out: list[ConversationEntry] = []
    if len(again) == len(entries):
        for old, new in zip(entries, again, strict=True):
            out.append(old if alike(old, new) else _read_as(old, new))
        return entries if all(map(is_, out, entries)) else out
    place = 0
    for new in again:
        found = next((at for at in range(place, len(entries)) if alike(entries[at], new)), None)
        if found is None:
            out.append(new)
        else:
            out.append(entries[found])
            place = found + 1
    return out


def says_the_same(one: ConversationEntry, other: ConversationEntry) -> bool:
    """Return whether two entries say the same to a provider.

    What is not sent (metadata, what was done to an entry and why) does not matter, nor whether a
    text is given as such or as a single block, nor an id where the format has none.
    """
    if one.role is not other.role or (one.content or "") != (other.content or ""):
        return False
    if one.barrier != other.barrier or one.name != other.name:
        return False
    return (
        _same_calls(one, other)
        and (one.tool_call_id == other.tool_call_id or wire_of(other) == "gemini")
        and _shown(one) == _shown(other)
        and _thoughts(one) == _thoughts(other)
    )


def _same_calls(one: ConversationEntry, other: ConversationEntry) -> bool:
    mine, theirs = one.tool_calls or (), other.tool_calls or ()
    return len(mine) == len(theirs) and all(
        call.name == as_read.name
        and call.arguments == as_read.arguments
        and (call.id == as_read.id or not names_its_calls(as_read))
        for call, as_read in zip(mine, theirs, strict=True)
    )


def _shown(entry: ConversationEntry) -> list[tuple[str, Any]]:
    return [(part.kind, part.raw) for part in entry.parts or () if part.kind != "text"]


def _thoughts(entry: ConversationEntry) -> list[tuple[str | None, str | None, bool]]:
    return [(each.text, each.signature, each.encrypted) for each in entry.reasoning or ()]


def _read_as(entry: ConversationEntry, read: ConversationEntry) -> ConversationEntry:
    return entry.evolve(
        role=read.role,
        content=read.content,
        parts=read.parts,
        tool_calls=read.tool_calls,
        tool_call_id=read.tool_call_id,
        reasoning=read.reasoning,
        name=read.name,
        action=entry.action or "repaired",
        reason=entry.reason or "what is sent reads so",
    )
