"""P6: every result follows its call, and a server tool keeps its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from history_curator.entries import ContentPart, ConversationEntry, ToolCall
from history_curator.formats.base import as_mapping, as_text
from history_curator.rules.base import (
    ASSISTANT,
    TOOL,
    USER,
    Entries,
    Finding,
    Rule,
    copy_repaired,
    fits_call,
    join_part_texts,
)
from history_curator.units import Pairing, flatten

_SERVER_USES = {"server_tool_use", "mcp_tool_use", "server_tool_call"}
"""The last is the neutral form, whose result names its ``tool_call_id``."""


@dataclass(frozen=True)
class ResultsFollowTheirCalls(Rule):
    """Every entry with calls is followed at once by exactly one result per call, in call order.

    Every provider refuses others. With `ordered=False` the results of one entry may stand in any
    order. Ids may be reused, so results pair with the latest call before them.

    Repair: the real result moves up to its call, and is written in its format; a marked placeholder
    with an error status stands in for a missing one; of duplicates the last real one stays; a
    result without a call is dropped.
    """

    code = "P6"
    within_units = True

    ordered: bool = True

    def check_view(self, entries: Entries) -> list[Finding]:
        found: list[Finding] = []
        count, index = len(entries), 0
        while index < count:
            entry = entries[index]
            index += 1
            if calls := entry.tool_calls:
                start = index
                while index < count and entries[index].role is TOOL:
                    index += 1
                results = entries[start:index]
                if len(calls) != len(results) or not all(
                    result.tool_call_id == call.id and fits_call(call, result)
                    for call, result in zip(calls, results, strict=True)
                ):
                    found += self._compare(calls, results, start)
            elif entry.role is TOOL:
                found.append((index - 1, f"the result of {entry.tool_call_id!r} follows no call"))
        return found

    def _compare(self, calls: Sequence[ToolCall], results: Entries, start: int) -> list[Finding]:
        """Return the differences between calls and the results behind them."""
        found: list[Finding] = []
        waiting = list(calls)
        for index, result in enumerate(results, start):
            name = result.tool_call_id
            call = next((call for call in waiting if call.id == name), None)
            if call is None:
                found.append((index, f"the result of {name!r} answers no open call before it"))
                continue
            waiting.remove(call)
            if not fits_call(call, result):
                found.append((index, f"the result of {name!r} is in another format than its call"))
        message = "the call {!r} has no result right after it"
        found += [(start - 1, message.format(call.id)) for call in waiting]
        if not found and self.ordered:
            found.append((start, "the results are not in the order of their calls"))
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        if not self.check_view(entries):
            return list(entries)
        pairing = Pairing(entries)
        changed: dict[int, ConversationEntry] = {}
        for unit in pairing.units:
            for call, result in zip(unit.head.tool_calls or (), unit.results, strict=False):
                if result is None or (result.tool_call_id == call.id and fits_call(call, result)):
                    continue
                reason = "the result did not name its call, or was in another format"
                changed[id(result)] = copy_repaired(result, reason, tool_call_id=call.id)
        paired = flatten(pairing.units, pairing.system)
        return [changed.get(id(entry), entry) for entry in paired]


class ServerToolsStayWhole(Rule):
    """Every use of a tool that Anthropic runs itself has its result, and the other way round.

    They are blocks of the assistant's messages. A paused turn has the result in the next message;
    a program that calls tools of the client has it after their results, and those calls name the
    program as their ``caller``.

    Repair: the block that is alone goes; a call whose program is gone becomes a direct call. A use
    in the assistant's last turn is left alone: it is still running.
    """

    code = "P6"

    def check_view(self, entries: Entries) -> list[Finding]:
        return [(index, message) for index, _, message in _find_lone_blocks(entries)]

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        out = list(entries)
        while found := _find_lone_blocks(out):  # a block may be alone once another has gone
            for index, name, _ in found:
                out[index] = _without_block(out[index], name)
        return out


def awaits_provider(entry: ConversationEntry) -> bool:
    """Return whether the provider goes on by itself: its tool is at work, or was just answered."""
    last = entry.parts[-1].raw if entry.parts else None
    if isinstance(last, Mapping) and str(last.get("type")).endswith("_call_output"):
        return True  # an item of Responses that is passed on unread
    running: set[str] = set()
    for _, is_use, name in _iterate_server_blocks(entry):
        (running.add if is_use else running.discard)(name)
    return bool(running)


def _find_lone_blocks(entries: Entries) -> list[tuple[int, str, str]]:
    """Return every block without its other half: the index of its entry, its id and a message."""
    found: list[tuple[int, str, str]] = []
    known = {""}
    waiting: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if entry.role is USER:
            found += [(at, name, f"{name!r} has no result") for name, at in waiting.items()]
            waiting = {}
        if entry.role is not ASSISTANT:
            continue
        callers = [_caller_of(call.extra) for call in entry.tool_calls or () if call.extra]
        for part, is_use, name in _iterate_server_blocks(entry) if entry.parts else ():
            if is_use:
                callers.append(_caller_of({"anthropic": part.raw}))
                known.add(name)
                waiting[name] = index
            elif waiting.pop(name, None) is None:
                found.append((index, name, f"a result of {name!r}, which is not here"))
        found += [
            (index, name, f"a call was made by the program {name!r}, which is not here")
            for name in callers
            if name not in known
        ]
    return found


def _iterate_server_blocks(entry: ConversationEntry) -> Iterator[tuple[ContentPart, bool, str]]:
    """Yield each block of a server tool, whether it is a use, and its id."""
    for part in entry.parts or ():
        raw = part.raw
        if part.kind != "other" or not isinstance(raw, (dict, Mapping)):
            continue
        kind = str(raw.get("type"))
        if kind in _SERVER_USES:
            yield part, True, str(raw.get("id"))
        elif kind.endswith("_tool_result"):
            yield part, False, str(raw.get("tool_use_id") or raw.get("tool_call_id"))


def _caller_of(extra: Mapping[str, Any]) -> str:
    """Return the id of the program that made a call; an empty text for a direct call."""
    caller = as_mapping(as_mapping(extra.get("anthropic")).get("caller"))
    return as_text(caller.get("tool_id")) or ""


def _without_block(entry: ConversationEntry, lone: str) -> ConversationEntry:
    """Return an answer without a lone block; a call of a missing program becomes direct."""
    dropped = {
        id(part)
        for part, _, name in _iterate_server_blocks(entry)
        if lone in (name, _caller_of({"anthropic": part.raw}))
    }
    parts = entry.parts and tuple(part for part in entry.parts if id(part) not in dropped)
    calls = tuple(
        replace(call, extra={**call.extra, "anthropic": _without_caller(call.extra["anthropic"])})
        if call.extra and _caller_of(call.extra) == lone
        else call
        for call in entry.tool_calls or ()
    )
    return copy_repaired(
        entry,
        "a tool of the provider and its result were apart",
        parts=parts,
        content=join_part_texts(parts) if parts and dropped else entry.content,
        tool_calls=calls or None,
    )


def _without_caller(block: Mapping[str, Any]) -> dict[str, Any]:
    return {key: block[key] for key in block if key != "caller"}
