"""P6 to P9: calls and their results; ids, names and arguments that a provider accepts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from typing import Any, Literal

from history_curator.entries import ContentPart, ConversationEntry, ToolCall
from history_curator.formats import (
    has_call_ids,
    has_object_arguments,
    join_text,
    parse_object,
    wire_of,
)
from history_curator.formats.base import as_mapping, as_text
from history_curator.rules.base import ASSISTANT, TOOL, USER, Entries, Finding, Rule, copy_repaired
from history_curator.units import Pairing, flatten

PORTABLE_ID = r"[A-Za-z0-9_-]{1,40}"
MISTRAL_ID = r"[A-Za-z0-9]{9}"
BEDROCK_ID = r"[a-zA-Z0-9_.:-]{1,64}"
PORTABLE_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
PLAIN_NAME = r"[A-Za-z0-9_-]{1,64}"
LONG_NAME = r"[A-Za-z0-9_-]{1,128}"
GEMINI_NAME = r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NO_AUTHOR = re.compile(r"[\s<|\\/>]+")
_SERVER_USES = {"server_tool_use", "mcp_tool_use", "server_tool_call"}
"""The last is the neutral form, whose result names its ``tool_call_id``."""


@dataclass(frozen=True)
class ResultsFollowTheirCalls(Rule):
    """Every entry with calls is followed at once by exactly one result per call, in call order.

    Every provider refuses others. With `ordered=False` the results of one entry may stand in any
    order. Ids may be reused, so results pair with the latest call before them. Repair: the real
    result moves up to its call; a marked placeholder with an error status stands in for a missing
    one; of duplicates the last real one stays; a result without a call is dropped.
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
                found += self._compare(calls, entries[start:index], start)
            elif entry.role is TOOL:
                found.append((index - 1, f"the result of {entry.tool_call_id!r} follows no call"))
        return found

    def _compare(self, calls: Sequence[ToolCall], results: Entries, start: int) -> list[Finding]:
        """Return the differences between calls and the results behind them."""
        found: list[Finding] = []
        asked = [call.id for call in calls]
        answered = [result.tool_call_id for result in results]
        waiting: list[str | None] = [*asked]
        for index, name in enumerate(answered, start):
            if name in waiting:
                waiting.remove(name)
            else:
                found.append((index, f"the result of {name!r} answers no open call before it"))
        found += [
            (start - 1, f"the call {name!r} has no result right after it") for name in waiting
        ]
        if not found and self.ordered and answered != asked:
            found.append((start, "the results are not in the order of their calls"))
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        pairing = Pairing(entries)
        for unit in pairing.units:
            for place, call in enumerate(unit.head.tool_calls or ()):
                result = unit.results[place]
                if result and result.tool_call_id != call.id:
                    reason = "the result did not name its call"
                    unit.results[place] = copy_repaired(result, reason, tool_call_id=call.id)
        return flatten(pairing.units, pairing.system)


class ServerToolsStayWhole(Rule):
    """Every use of a tool that Anthropic runs itself has its result, and the other way round.

    They are blocks of the assistant's messages. A paused turn has the result in the next message;
    a program has it after the results of the tools it called, which name it as their ``caller``.
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
        extras = [call.extra for call in entry.tool_calls or () if call.extra]
        callers = [_caller_of(extra["anthropic"]) for extra in extras if "anthropic" in extra]
        for part, is_use, name in _iterate_server_blocks(entry) if entry.parts else ():
            if is_use:
                callers.append(_caller_of(part.raw))
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
        if part.kind != "other" or not isinstance(raw, Mapping):
            continue
        kind = str(raw.get("type"))
        if kind in _SERVER_USES:
            yield part, True, str(raw.get("id"))
        elif kind.endswith("_tool_result"):
            yield part, False, str(raw.get("tool_use_id") or raw.get("tool_call_id"))


def _caller_of(block: Any) -> str:
    """Return the id of the program that made a call; an empty text for a direct call."""
    return as_text(as_mapping(as_mapping(block).get("caller")).get("tool_id")) or ""


def _without_block(entry: ConversationEntry, lone: str) -> ConversationEntry:
    """Return an answer without a lone block; a call of a missing program becomes direct."""
    dropped = {
        id(part)
        for part, _, name in _iterate_server_blocks(entry)
        if lone in (name, _caller_of(part.raw))
    }
    parts = tuple(part for part in entry.parts or () if id(part) not in dropped)
    calls = list(entry.tool_calls or ())
    for place, call in enumerate(calls):
        block = as_mapping((call.extra or {}).get("anthropic"))
        if _caller_of(block) == lone:
            direct = {key: block[key] for key in block if key != "caller"}
            calls[place] = replace(call, extra={**(call.extra or {}), "anthropic": direct})
    reason = "a tool of the provider and its result were apart"
    content = join_text(parts) if dropped else entry.content
    return copy_repaired(
        entry, reason, parts=parts or None, content=content, tool_calls=tuple(calls) or None
    )


@dataclass(frozen=True)
class CallIdsAreUnique(Rule):
    """No two calls share an id, and every id fits the provider's alphabet and length.

    OpenAI takes 40 characters at most, Mistral exactly nine letters and digits. Anthropic refuses
    an id that was used before, in earlier turns too. Repair: a short hash of the old id and of how
    often it occurred before, on both sides. A call that has no id on the wire is left alone.
    """

    code = "P7"
    pattern: str = PORTABLE_ID
    scope: Literal["conversation", "message"] = "conversation"
    length: int = 21
    bare: bool = False

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        ids = [call.id for call in entry.tool_calls or () if has_call_ids(call)]
        answered = entry.tool_call_id
        if answered is not None and entry.role is TOOL and wire_of(entry) != "gemini":
            ids.append(answered)  # for Gemini, the call says whether it has an id
        refused = [name for name in ids if not re.fullmatch(self.pattern, name)]
        return [f"the call id {name!r} does not match {self.pattern}" for name in refused]

    def check_view(self, entries: Entries) -> list[Finding]:
        found: list[Finding] = []
        seen: set[str] = set()
        for index, entry in enumerate(entries):
            if entry.tool_calls and self.scope == "message":
                seen = set()
            for call in filter(has_call_ids, entry.tool_calls or ()):
                if call.id in seen:
                    found.append((index, f"the call id {call.id!r} is used again"))
                seen.add(call.id)
        return found

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Rename on both sides. Expects results right behind their calls."""
        out = list(entries)
        seen: set[str] = set()
        times: Counter[str] = Counter()
        renamed: list[tuple[str, str]] = []  # the old and the new id of each call before
        for index, entry in enumerate(entries):
            if calls := entry.tool_calls:
                if self.scope == "message":
                    seen, times = set(), Counter()
                new = tuple(self._rename(call, times, seen) for call in calls)
                renamed = [(call.id, one.id) for call, one in zip(calls, new, strict=True)]
                if new != calls:
                    reason = "a call id was used before or is not one the provider takes"
                    out[index] = copy_repaired(entry, reason, tool_calls=new)
            elif entry.role is TOOL:
                pair = next((pair for pair in renamed if pair[0] == entry.tool_call_id), None)
                if pair is not None:
                    renamed.remove(pair)
                    if pair[0] != pair[1]:
                        reason = "renamed with its call"
                        out[index] = copy_repaired(entry, reason, tool_call_id=pair[1])
        return out

    def _rename(self, call: ToolCall, times: Counter[str], seen: set[str]) -> ToolCall:
        old = new = call.id
        times[old] += 1
        if not has_call_ids(call):
            return call
        if old in seen or not re.fullmatch(self.pattern, old):
            for salt in count():
                text = f"{old}\0{times[old]}\0{salt}".encode("utf-8", "surrogatepass")
                prefix = "" if self.bare else "call_"
                new = f"{prefix}{sha256(text).hexdigest()}"[: self.length]
                if new not in seen:
                    break
        seen.add(new)
        return call if new == old else replace(call, id=new)


@dataclass(frozen=True)
class ArgumentsAreObjects(Rule):
    """The arguments of every call are the text of a JSON object.

    All but OpenAI parse the arguments; most malformed ones were cut off at a token limit. With
    `texts=False` arguments that are sent as text may be anything. Repair: they become ``{}``.
    """

    code = "P9"

    texts: bool = True

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        refused = [call for call in entry.tool_calls or () if not self._accepts(call)]
        return [f"the arguments of {call.name!r} are not a JSON object" for call in refused]

    def _accepts(self, call: ToolCall) -> bool:
        if call.arguments == "{}" or not (self.texts or has_object_arguments(call)):
            return True
        return parse_object(call.arguments) is not None

    def mend(self, entry: ConversationEntry) -> ConversationEntry:
        given = entry.tool_calls or ()
        calls = [call if self._accepts(call) else replace(call, arguments="{}") for call in given]
        reason = "the arguments of a call were not a JSON object"
        return copy_repaired(entry, reason, tool_calls=tuple(calls))


@dataclass(frozen=True)
class ToolNamesAreAccepted(Rule):
    """Tool names match the provider's pattern, and a result carries the name of its call.

    OpenAI also refuses white space in the author's ``name``, which is checked with `authors`.
    Repair: odd characters become underscores, on both sides; a result's name follows its call.
    """

    code = "P8"
    within_units = True

    pattern: str = PORTABLE_NAME
    authors: bool = False

    def check_entry(self, entry: ConversationEntry) -> list[str]:
        names = [call.name for call in entry.tool_calls or ()]
        if entry.tool_name is not None and entry.role is TOOL:
            names.append(entry.tool_name)
        odd = [name for name in names if not re.fullmatch(self.pattern, name)]
        found = [f"the tool name {name!r} does not match {self.pattern}" for name in odd]
        if self._clean_author(entry.name) != entry.name:
            found.append(f"the name {entry.name!r} is empty, long or has a space")
        return found

    def check_view(self, entries: Entries) -> list[Finding]:
        return [
            (index, f"the result is named {entries[index].tool_name!r}, its call {name!r}")
            for index, name in _find_misnamed(entries)
        ]

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        out = super().repair(entries)
        for index, name in _find_misnamed(out):
            reason = "a result carries the name of its call"
            out[index] = copy_repaired(out[index], reason, tool_name=name)
        return out

    def mend(self, entry: ConversationEntry) -> ConversationEntry:
        calls, tool_name = entry.tool_calls, entry.tool_name
        return copy_repaired(
            entry,
            "a name had characters the provider refuses",
            tool_calls=calls and tuple(replace(c, name=self._clean_name(c.name)) for c in calls),
            tool_name=None if tool_name is None else self._clean_name(tool_name),
            name=self._clean_author(entry.name),
        )

    def _clean_author(self, name: str | None) -> str | None:
        if name is None or not self.authors:
            return name
        return _NO_AUTHOR.sub("_", name)[:64] or None

    def _clean_name(self, name: str) -> str:
        plain = _NO_NAME.sub("_", name) or "unknown_tool"
        candidates = (name, plain, plain[:64], f"_{plain}"[:64])
        return next(filter(re.compile(self.pattern).fullmatch, candidates), "unknown_tool")


def _find_misnamed(entries: Entries) -> list[tuple[int, str]]:
    """Return the index of every result that is not named as its call, and the call's name."""
    found: list[tuple[int, str]] = []
    names: dict[str | None, str] = {}
    for index, entry in enumerate(entries):
        if entry.tool_calls:
            names = {call.id: call.name for call in entry.tool_calls}
        elif entry.tool_name is not None and entry.role is TOOL:
            name = names.get(entry.tool_call_id, entry.tool_name)
            if name != entry.tool_name:
                found.append((index, name))
    return found
