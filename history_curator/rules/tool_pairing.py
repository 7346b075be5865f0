"""P6: every result follows its call, and a server tool keeps its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from history_curator.entries import ContentPart, ConversationEntry, ToolCall
from history_curator.formats import fit_call, is_answered_in_kind
from history_curator.rules.base import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    Entries,
    Errors,
    Finding,
    Rule,
    copy_edited,
    copy_repaired,
    join_part_texts,
)
from history_curator.units import Pairing, flatten

_OPENAI_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'."
)
_BEDROCK_EXCESS = (
    "The number of toolResult blocks exceeds the number of toolUse blocks of previous turn."
)
_MOVED = "moved", "a result has to follow its call at once, in call order"
_NAMED = "repaired", "the result did not name the call it answers"
_CONVERTED = "repaired", "a result and its call have to be of one kind"
_SERVER_USES = {"server_tool_use", "mcp_tool_use", "server_tool_call"}
"""The last is the neutral form, whose result names its ``tool_call_id``."""


@dataclass(frozen=True)
class ResultsFollowTheirCalls(Rule):
    """Every entry with calls is followed at once by exactly one result per call, in call order.

    Every provider refuses a call without its result, a result without its call, and two results
    for one call.

    Repair: the real result moves up to its call; a marked placeholder with an error status
    stands in for a missing one; of duplicates the last real one stays; a result without a call is
    dropped. Ids may be reused, so results pair with the latest call before them. In a list that
    mixes formats, a result is written in the format of its call.

    Args:
        ordered: also ask for call order among the results of one entry.

    Examples:
        >>> from history_curator.testing import parse_entries, show
        >>> show(ResultsFollowTheirCalls().repair(parse_entries("U A(c1,c2) U T(c1)")))
        'U A(c1,c2) T(c1) T*(c2) U'
    """

    code = "P6"
    within_units = True
    errors: ClassVar[Errors] = {
        "orphan": {
            "openai": "messages with role 'tool' must be a response to a preceeding message with "
            "'tool_calls'.",
            "anthropic": "unexpected `tool_use_id` found in `tool_result` blocks",
            "gemini": "Please ensure that function response turn comes immediately after a "
            "function call turn.",
            "bedrock": _BEDROCK_EXCESS,
            "mistral": "Unexpected tool call id in tool results",
        },
        "unanswered": {
            "openai": _OPENAI_UNANSWERED,
            "anthropic": "`tool_use` ids were found without `tool_result` blocks immediately after",
            "gemini": "Please ensure that the number of function response parts is equal to the "
            "number of function call parts of the function call turn.",
            "bedrock": "Expected toolResult blocks for the following Ids",
            "mistral": "Not the same number of function calls and responses",
        },
        "duplicate": {
            "openai": "Duplicate value for 'tool_call_id'",
            "anthropic": "each tool_use must have a single result",
            "bedrock": _BEDROCK_EXCESS,
            "mistral": "Duplicate tool call id in tool results",
        },
        "format": {
            "openai": _OPENAI_UNANSWERED,
            "anthropic": 'messages: Unexpected role "tool". Allowed roles are "user" or '
            '"assistant"',
        },
    }

    ordered: bool = True

    def check_view(self, entries: Entries) -> list[Finding]:
        """Walk from call to call, expecting the results right behind it."""
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
                if not _are_answered(calls, results):
                    found += self._compare(calls, results, start)
            elif entry.role is TOOL:
                message = f"the result of {entry.tool_call_id!r} follows no call"
                found.append((index - 1, "orphan", message))
        return found

    def _compare(
        self, calls: Sequence[ToolCall], results: Entries, start: int
    ) -> Iterator[Finding]:
        """Yield the differences between calls and the results behind them."""
        wanted = Counter(call.id for call in calls)
        by_id = {call.id: call for call in reversed(calls)}
        seen: Counter[str | None] = Counter()
        correct = True
        for index, result in enumerate(results, start):
            given = result.tool_call_id
            seen[given] += 1
            finding = None
            if given is None or given not in wanted:
                finding = "orphan", f"the result of {given!r} answers none of the calls before it"
            elif seen[given] > wanted[given]:
                finding = "duplicate", f"a second result for the call {given!r}"
            elif not _fits_call(by_id[given], result):
                finding = "format", f"the result of {given!r} is in another format than its call"
            if finding:
                correct = False
                yield (index, *finding)
        for name, times in wanted.items():
            if seen[name] < times:
                correct = False
                yield start - 1, "unanswered", f"the call {name!r} has no result right after it"
        if correct and self.ordered:
            yield start, "order", "the results are not in the order of their calls"

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Pair calls with results: placeholders for missing ones, and no result without a call."""
        if not self.check_view(entries):
            return list(entries)
        pairing = Pairing(entries)
        before = _find_predecessors(entries, pairing)
        changed: dict[int, ConversationEntry] = {}
        for unit in pairing.units:
            last = unit.head.root
            head = changed[id(unit.head)] = _convert_calls(unit.head, unit.entries[1:])
            for call, result in zip(head.tool_calls or (), unit.results, strict=False):
                if result is None:
                    continue
                edit = None
                if before.get(id(result)) is not last:
                    edit = _MOVED
                elif result.tool_call_id != call.id:
                    edit = _NAMED
                elif not is_answered_in_kind(call, result):
                    edit = _CONVERTED
                if edit:
                    changed[id(result)] = copy_edited(
                        result, tool_call_id=call.id, action=edit[0], reason=edit[1]
                    )
                last = result.root
        return [changed.get(id(entry), entry) for entry in flatten(pairing.units, pairing.system)]


def _are_answered(calls: Sequence[ToolCall], results: Entries) -> bool:
    if len(calls) != len(results):
        return False
    for call, result in zip(calls, results, strict=True):
        if result.tool_call_id != call.id:
            return False
        if (call.extra is not None or result.span is not None) and not _fits_call(call, result):
            return False
    return True


def _fits_call(call: ToolCall, result: ConversationEntry) -> bool:
    return is_answered_in_kind(call, result) and fit_call(call, result) is call


def _convert_calls(head: ConversationEntry, results: Entries) -> ConversationEntry:
    """Return an entry whose calls its results can answer; other calls become function calls."""
    calls = head.tool_calls or ()
    converted = tuple(map(fit_call, calls, results))
    if all(new is old for new, old in zip(converted, calls, strict=True)):
        return head
    action, reason = _CONVERTED
    return copy_edited(head, tool_calls=converted, action=action, reason=reason)


def _find_predecessors(entries: Entries, pairing: Pairing) -> dict[int, ConversationEntry]:
    """Return the recorded entry before each result that stays, leaving out dropped ones."""
    dropped = {id(entries[index]) for index in pairing.replaced}
    before: dict[int, ConversationEntry] = {}
    last: ConversationEntry | None = None
    for index, entry in enumerate(entries):
        if index in pairing.orphans or id(entry) in dropped or entry.role is SYSTEM:
            continue
        if last is not None and entry.role is TOOL:
            before[id(entry)] = last.root
        last = entry
    return before


class ServerToolsStayWhole(Rule):
    """Every use of a tool that Anthropic runs itself has its result, and the other way round.

    They are blocks of the assistant's messages, mostly of one. A turn that was paused
    (``pause_turn``) has the result in the next message; a program that calls tools of the client
    has it after their results, and those calls name the program as their ``caller``. The API
    refuses a result without its use, a use that was never answered and an unknown caller.

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

    def check_view(self, entries: Entries) -> list[Finding]:
        """Find blocks whose other half is missing."""
        return [(index, kind, message) for index, kind, _, message in _find_lone_blocks(entries)]

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Take off lone blocks, then those that became alone by that."""
        out = list(entries)
        while found := _find_lone_blocks(out):
            lone: dict[int, set[str]] = {}
            for index, _, name, _ in found:
                lone.setdefault(index, set()).add(name)
            for index, names in lone.items():
                out[index] = _without_blocks(out[index], names)
        return out


def has_running_tool(entry: ConversationEntry) -> bool:
    """Return whether an answer was paused while a tool of the provider is at work."""
    running: set[str] = set()
    for _, kind, name in _iterate_server_blocks(entry):
        if kind == "use":
            running.add(name)
        else:
            running.discard(name)
    return bool(running)


def _find_lone_blocks(entries: Entries) -> list[tuple[int, str, str, str]]:
    """Return every block without its other half: index, kind, id and message."""
    found: list[tuple[int, str, str, str]] = []
    known: set[str] = set()
    waiting: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if waiting and entry.role is USER:
            found += [
                (at, "unanswered", name, f"the use {name!r} of a server tool has no result")
                for name, at in waiting.items()
            ]
            waiting = {}
        if entry.role is not ASSISTANT:
            continue
        for part, kind, name in _iterate_server_blocks(entry) if entry.parts else ():
            if kind == "result":
                if waiting.pop(name, None) is None:
                    message = f"a result of {name!r}, which is not here"
                    found.append((index, "orphan", name, message))
                continue
            if _caller_of(part.raw) not in ("", *known):
                found.append((index, "caller", name, f"{name!r} was made by a missing program"))
            known.add(name)
            waiting[name] = index
        for call in entry.tool_calls or ():
            caller = call.extra and _caller_of(call.extra.get("anthropic"))
            if caller and caller not in known:
                message = f"the call {call.id!r} was made by a program that is not here"
                found.append((index, "caller", caller, message))
    return found


def _iterate_server_blocks(entry: ConversationEntry) -> Iterator[tuple[ContentPart, str, str]]:
    for part in entry.parts or ():
        raw = part.raw
        if part.kind != "other" or not isinstance(raw, (dict, Mapping)):
            continue
        kind = str(raw.get("type"))
        if kind in _SERVER_USES:
            yield part, "use", str(raw.get("id"))
        elif kind.endswith("_tool_result"):
            yield part, "result", str(raw.get("tool_use_id") or raw.get("tool_call_id"))


def _caller_of(raw: Any) -> str:
    """Return the id of the program that made a call; an empty text for a direct call."""
    caller = raw.get("caller") if isinstance(raw, (dict, Mapping)) else None
    name = caller.get("tool_id") if isinstance(caller, (dict, Mapping)) else None
    return name if isinstance(name, str) else ""


def _without_blocks(entry: ConversationEntry, names: set[str]) -> ConversationEntry:
    """Return an answer without lone blocks; what a missing program called becomes direct."""

    def drop_caller(raw: Any) -> Any:
        return (
            {key: raw[key] for key in raw if key != "caller"} if _caller_of(raw) in names else raw
        )

    dropped = {
        id(part)
        for part, kind, name in _iterate_server_blocks(entry)
        if name in names and not (kind == "use" and _caller_of(part.raw) in names)
    }
    changes: dict[str, Any] = {}
    if entry.parts is not None:
        changes["parts"] = tuple(
            part if (raw := drop_caller(part.raw)) is part.raw else replace(part, raw=raw)
            for part in entry.parts
            if id(part) not in dropped
        )
        changes["content"] = join_part_texts(changes["parts"])
    if entry.tool_calls:
        changes["tool_calls"] = tuple(
            replace(call, extra={**call.extra, "anthropic": drop_caller(call.extra["anthropic"])})
            if call.extra and "anthropic" in call.extra
            else call
            for call in entry.tool_calls
        )
    return copy_repaired(entry, "a tool of the provider and its result were apart", **changes)
