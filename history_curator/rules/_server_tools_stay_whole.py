"""P6, for tools the provider runs: a use and its result are never apart, also across messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from history_curator.entries import ContentPart, ConversationEntry, ToolCall
from history_curator.rules import _features as has
from history_curator.rules._invariant import (
    ASSISTANT,
    USER,
    Entries,
    Errors,
    Finding,
    Invariant,
    edit,
)
from history_curator.rules._joining import joined_text

_USES = {"server_tool_use", "mcp_tool_use", "server_tool_call"}
"""The last one, with ``tool_call_id`` in its result, is the form that is nobody's own."""


class ServerToolsStayWhole(Invariant):
    """Every use of a tool that Anthropic runs itself has its result, and the other way round.

    They are blocks of the assistant's messages, mostly of one. A turn that was paused
    (``pause_turn``) has the result in the next message; a program that calls tools of the client
    has it after their results, and those calls name the program as their ``caller``. The API
    refuses a result without its use, a use that was never answered and a caller nobody knows.

    Repair: the block that is alone goes; a call whose program is gone becomes a direct call. A use
    in the assistant's last turn is left alone: it is still running.

    Examples:
        >>> from history_curator.entries import ContentPart, ConversationEntry, MessageRole
        >>> found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
        >>> parts = (ContentPart("other", None, found), ContentPart("text", "Done."))
        >>> entry = ConversationEntry(MessageRole.ASSISTANT, "Done.", parts=parts)
        >>> [part.kind for part in ServerToolsStayWhole().repair([entry])[0].parts]
        ['text']
    """

    code = "P6"
    about = has.PARTS | has.EXTRA
    errors: ClassVar[Errors] = {
        "orphan": {
            "anthropic": "unexpected `tool_use_id` found in `web_search_tool_result` blocks: each "
            "block must have a corresponding `server_tool_use` block before it"
        },
        "unanswered": {
            "anthropic": "`server_tool_use` blocks were found without a corresponding result block"
        },
        "caller": {"anthropic": "tool_use.caller: no such `server_tool_use`"},
    }

    def look_across(self, entries: Entries) -> list[Finding]:
        """Walk over the blocks, remembering which uses are known and which are open."""
        return [(index, kind, message) for index, kind, _, message in _alone(entries)]

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Take off what is alone, then what was made by it."""
        out = list(entries)
        while found := _alone(out):
            gone: dict[int, set[str]] = {}
            for index, _, name, _ in found:
                gone.setdefault(index, set()).add(name)
            for index, names in gone.items():
                out[index] = _without(out[index], names)
        return out


def is_running(entry: ConversationEntry) -> bool:
    """Whether an answer was paused while a tool of the provider is at work."""
    open_uses: set[str] = set()
    for _, kind, name in _blocks(entry):
        if kind == "use":
            open_uses.add(name)
        else:
            open_uses.discard(name)
    return bool(open_uses)


def _alone(entries: Entries) -> list[tuple[int, str, str, str]]:
    """Every block without its other half: where, what is wrong, its id, in words."""
    found: list[tuple[int, str, str, str]] = []
    known: set[str] = set()
    waiting: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if entry.role is USER:
            found += [_unanswered(at, name) for name, at in waiting.items()]
            waiting = {}
        if entry.role is not ASSISTANT or not (entry.parts or entry.tool_calls):
            continue
        for part, kind, name in _blocks(entry):
            if kind == "result":
                if waiting.pop(name, None) is None:
                    message = f"a result of {name!r}, which is not here"
                    found.append((index, "orphan", name, message))
                continue
            if _caller(part.raw) not in ("", *known):
                found.append((index, "caller", name, f"{name!r} was made by a missing program"))
            known.add(name)
            waiting[name] = index
        for call in entry.tool_calls or ():
            caller = _caller(call.extra and call.extra.get("anthropic"))
            if caller and caller not in known:
                message = f"the call {call.id!r} was made by a program that is not here"
                found.append((index, "caller", caller, message))
    return found


def _unanswered(index: int, name: str) -> tuple[int, str, str, str]:
    return index, "unanswered", name, f"the use {name!r} of a server tool has no result"


def _blocks(entry: ConversationEntry) -> Iterator[tuple[ContentPart, str, str]]:
    for part in entry.parts or ():
        raw = part.raw
        if part.kind != "other" or not isinstance(raw, Mapping):
            continue
        kind = str(raw.get("type"))
        if kind in _USES:
            yield part, "use", str(raw.get("id"))
        elif kind.endswith("_tool_result"):
            yield part, "result", str(raw.get("tool_use_id") or raw.get("tool_call_id"))


def _caller(raw: Any) -> str:
    caller = raw.get("caller") if isinstance(raw, Mapping) else None
    name = caller.get("tool_id") if isinstance(caller, Mapping) else None
    return name if isinstance(name, str) else ""


def _is_called_by(names: set[str], raw: Any) -> bool:
    caller = _caller(raw)
    return bool(caller) and caller in names


def _without(entry: ConversationEntry, names: set[str]) -> ConversationEntry:
    alone = {
        id(part)
        for part, kind, name in _blocks(entry)
        if name in names and not (kind == "use" and _is_called_by(names, part.raw))
    }
    parts = entry.parts and tuple(
        _uncalled(part, names) for part in entry.parts if id(part) not in alone
    )
    return edit(
        entry,
        parts=parts,
        content=joined_text(parts) if parts is not None else entry.content,
        tool_calls=entry.tool_calls and tuple(_direct(call, names) for call in entry.tool_calls),
        action=entry.action or "repaired",
        reason=entry.reason or "a tool of the provider and its result were apart",
    )


def _uncalled(part: ContentPart, names: set[str]) -> ContentPart:
    if not _is_called_by(names, part.raw):
        return part
    return replace(part, raw={key: part.raw[key] for key in part.raw if key != "caller"})


def _direct(call: ToolCall, names: set[str]) -> ToolCall:
    kept = (call.extra or {}).get("anthropic")
    if not isinstance(kept, Mapping) or not _is_called_by(names, kept):
        return call
    rest = {key: kept[key] for key in kept if key != "caller"}
    return replace(call, extra={**(call.extra or {}), "anthropic": rest})
